# SPDX-License-Identifier: Apache-2.0
"""TCP: RFC 9293, with RFC 6298 (timeouts), 2018, 2883 and 6675 (SACK), 8985 (RACK-TLP), 7323 (timestamps, window
scale), 3168 (ECN) and 6928 (initial window). Congestion control is plugged in (`hosts.cc.plugin`)."""

# pyright: reportUnsupportedDunderAll=false
__all__ = ["algorithms", "config"]
