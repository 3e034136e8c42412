// SPDX-License-Identifier: Apache-2.0
// fabric.p4 with another way of going to other groups: switches choose between the shortest path and a detour, packet by
// packet, by the load of their group's global links. The baselines of the paper: Benchmark, ShortestPath, and plain Valiant.

#include <core.p4>
#include <v1model.p4>

#define RANK
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/adaptive.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/ranking.p4"
#include "include/flows.p4"

#define CHOOSER Adaptive
#define CHOOSER_NAME adaptive
#include "include/pipeline.p4"
