# SPDX-License-Identifier: Apache-2.0
"""A P4 program as machine code."""

from __future__ import annotations

from typing import Any

from detour.engine.compiler.load import load
from detour.engine.compiler.model import read_json
from detour.engine.compiler.slots import assign_slots
from detour.engine.tables.log import LogFormat


class Program:
    """What p4c made of a P4 program, compiled; all switches that run it share the code."""

    def __init__(self, source: Any) -> None:
        self.json: dict[str, Any] = source
        self.model = load(source)
        self.slots = assign_slots(self.model)
        self.log_formats: tuple[LogFormat, ...] = ()

    @classmethod
    def from_json(cls, source: Any) -> Program:
        """From a dict, a JSON text or a path."""
        return cls(read_json(source))
