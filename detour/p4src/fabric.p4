// SPDX-License-Identifier: Apache-2.0
// The data plane of detour: one program for every topology. The sender picks the path, either by a list of uSIDs in the
// destination address or by the UDP source port; switches only follow. Ports, groups and thresholds are table entries.

#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/valiant.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/flows.p4"

#define CHOOSER Valiant
#define CHOOSER_NAME valiant
#include "include/pipeline.p4"
