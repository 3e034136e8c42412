// SPDX-License-Identifier: Apache-2.0
// adaptive.p4 with the rule of UGAL by one random detour a packet, as HPC systems have it, in place of the paper's UGAL with
// PiggyBack: rivals of SprayLERP that choose in the switch.

#include <core.p4>
#include <v1model.p4>

#define RANK
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/punt.p4"
#include "include/usid.p4"
#include "include/ugal.p4"
#include "include/routing.p4"
#include "include/queueing.p4"
#include "include/ranking.p4"
#include "include/flows.p4"

#define CHOOSER Ugal
#define CHOOSER_NAME adaptive
#include "include/pipeline.p4"
