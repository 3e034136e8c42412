# SPDX-License-Identifier: Apache-2.0
"""The compiled event loop.

`layout` names the tables, `native` reaches them and libc, `heap` orders events, `pool` holds packets; `channels`,
`queues`, `switch`, `replicate`, `nic`, `socket_io` and `log` are what happens; `entry` is what Python calls.
"""

# pyright: reportUnsupportedDunderAll=false
__all__ = ["entry", "layout"]
