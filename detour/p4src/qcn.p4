// SPDX-License-Identifier: Apache-2.0
// fabric.p4 with switches that choose between the shortest path and a detour by what they hear of congestion (Benito et al.,
// "Extending commodity OpenFlow switches for large-scale HPC deployments"): QCN-Switch and its variants, Conditional OpenFlow.

#include <core.p4>
#include <v1model.p4>

#define QCN
#define RANK
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/occupancy.p4"
#include "include/conditional.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/ranking.p4"
#include "include/flows.p4"
#include "include/notification.p4"

#define CHOOSER Conditional
#define CHOOSER_NAME conditional
#include "include/pipeline.p4"
