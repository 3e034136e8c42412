// SPDX-License-Identifier: Apache-2.0
// PSA with what programs for DPDK's SoftNIC use.
#define DETOUR_DPDK
#include <psa.p4>
