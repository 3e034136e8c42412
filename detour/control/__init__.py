# SPDX-License-Identifier: Apache-2.0
"""The control plane: pure planners, hashes, traces and verifier; the client and monitor that talk to switches.

What other packages use: `planner` (what every switch is to hold, by a `policy`), `entries` and `schema` (entries and
their names), `groups` (which entries share), `qcn` (entries of qcn.p4), `graph_files` (topologies by any text),
`rerouting`; `p4runtime` (client, monitor, controller's answers), `verifier.verifier` and `verifier.trace`;
`routes.hashes`; `placement.place`, `.repair` and `.report` (paths for jobs); `fors` (its own `__init__`;
`fors.incremental`, `.unequal`, `.verify`, `.files` and what exports plans) and `expander.routes`, `.proof`,
`.throughput`, `.comparison` (paths on expanders); `routers` (its own `__init__`).
"""

__all__ = [
    "entries", "expander", "fors", "graph_files", "groups", "native", "p4runtime", "placement", "planner",
    "policy", "qcn", "rerouting", "routers", "routes", "routings", "schema", "verifier",
]  # fmt: skip
