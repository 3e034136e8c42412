# SPDX-License-Identifier: Apache-2.0
"""QCN-Switch (Benito, Vallejo, Beivide, Izu)."""
