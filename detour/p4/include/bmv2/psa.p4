// SPDX-License-Identifier: Apache-2.0
// PSA as programs for p4c-bm2-psa include it.
#include <psa.p4>
