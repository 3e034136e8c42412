// SPDX-License-Identifier: Apache-2.0
// fabric.p4 with UGAL-L between switches in place of Valiant's detours between groups: a rival of FC+'s routes on expanders
// that chooses in the switch, packet by packet.

#include <core.p4>
#include <v1model.p4>

#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/ugal_graph.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/flows.p4"

#define CHOOSER UgalGraph
#define CHOOSER_NAME adaptive
#include "include/pipeline.p4"
