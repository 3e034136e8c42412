// SPDX-License-Identifier: Apache-2.0
// fabric.p4 with packet trimming: what a full queue has no room for is cut to its headers instead of dropped.

#include <core.p4>
#include <v1model.p4>

#define TRIM
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/valiant.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/trimming.p4"
#include "include/flows.p4"

#define CHOOSER Valiant
#define CHOOSER_NAME valiant
#include "include/pipeline.p4"
