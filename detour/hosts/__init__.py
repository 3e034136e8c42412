# SPDX-License-Identifier: Apache-2.0
"""Host stacks. They do no I/O and read no clock, but for `driver`.

What other packages use: `verbs` and `endpoint` (RDMA hosts), `ip.hosts` (IP hosts), `stacks` (what the event loop
calls), `config` (parameters), `cc` and `paths` (congestion control and choice of paths, by name), `frames` and `decode`
(what is on the wire), `driver` (sockets). Everything else is private to the package, but for plugins, which see
`records` and `rows`.
"""

# pyright: reportUnsupportedDunderAll=false
__all__ = [
    "addresses", "cc", "config", "draws", "driver", "endpoint", "frames", "ip", "openloop", "parameters", "paths",
    "plugins", "rdma", "records", "rows", "stacks", "state", "suspension", "transport", "verbs",
]  # fmt: skip
