# SPDX-License-Identifier: Apache-2.0
"""Congestion control, chosen per QP."""

import numpy as np

CC_FIELDS = [("cc", np.int64), ("cwnd", np.float64), ("ssthresh", np.float64), ("dctcp_alpha", np.float64)]
