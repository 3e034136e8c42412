// SPDX-License-Identifier: Apache-2.0
// fabric.p4 with Spraypoint in place of Valiant's detours: the first switch sprays, all others point towards the destination.

#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/spraypoint.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/flows.p4"

#define CHOOSER Spraypoint
#define CHOOSER_NAME spraypoint
#include "include/pipeline.p4"
