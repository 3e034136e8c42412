# SPDX-License-Identifier: Apache-2.0
"""FC+: Near-optimal Deadlock-free Expander Data Center Networks (Zhang et al.)."""
