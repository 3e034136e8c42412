# SPDX-License-Identifier: Apache-2.0
"""The compiled event loop.

`layout` names the tables, `native` reaches them and libc, `heap` orders events, `pool` holds packets; `channels`,
`queues`, `switch`, `replicate`, `nic`, `socket_io` and `log` are what happens; `windows` executes it in virtual time,
on one thread or several, which have `mail` for each other; `suspension` takes frames out for a while; `entry` is what
Python calls, and real time.
"""

# pyright: reportUnsupportedDunderAll=false
__all__ = ["entry", "layout", "suspension"]
