# SPDX-License-Identifier: Apache-2.0
"""How closely a P4Runtime server follows the specification (docs/p4runtime.md, `detour conformance`).

`run` tries every check on any server; `pytest_plugin` makes a test of each."""

__all__ = ["model", "report", "run"]
