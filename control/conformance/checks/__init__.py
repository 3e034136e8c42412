# SPDX-License-Identifier: Apache-2.0
"""The checks, by subject. To import them is to add them to the list of `model.py`."""

from detour.control.conformance.checks import (
    arbitration,
    arrays,
    bytestrings,
    entities,
    packets,
    pipelines,
    profiles,
    replication,
    rpcs,
    tables,
)

__all__ = [
    "arbitration",
    "arrays",
    "bytestrings",
    "entities",
    "packets",
    "pipelines",
    "profiles",
    "replication",
    "rpcs",
    "tables",
]
