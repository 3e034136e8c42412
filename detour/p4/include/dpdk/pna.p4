// SPDX-License-Identifier: Apache-2.0
// PNA with what programs for DPDK's SoftNIC use.
#define DETOUR_DPDK
#include <pna.p4>
