# SPDX-License-Identifier: Apache-2.0
"""Test a P4Runtime server against the specification (docs/p4runtime.md, `detour conformance`).

`run` tries every check on any server; `pytest_plugin` makes a test of each."""

__all__ = ["model", "report", "run"]
