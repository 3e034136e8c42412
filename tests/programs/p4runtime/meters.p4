// SPDX-License-Identifier: Apache-2.0
// The corpus's program with direct meters, here with its P4Info.
#include "../corpus/meter_direct.p4"
