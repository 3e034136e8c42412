# SPDX-License-Identifier: Apache-2.0
"""Generated tests of a program, as files of STF without comments; the stored ones lie in `stored/`."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from detour.base.places import BUILD
from detour.engine import phv
from detour.fabric.tracing.stf import StfStatement, parse_stf
from detour.fabric.tracing.stf_player import stf_ports

PROGRAMS = ("fabric", "adaptive", "qcn")

_STORED = Path(__file__).with_name("stored")
_NEXT = "# test "
_NO_PORT = phv.DROP_PORT


@dataclass(frozen=True)
class GeneratedTest:
    """One file. `text`: commands, one a line."""

    text: str

    @cached_property
    def name(self) -> str:
        """Its own in whatever order tests come."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @cached_property
    def statements(self) -> list[StfStatement]:
        """What it says."""
        return parse_stf(self.text)

    @cached_property
    def ports(self) -> set[int]:
        """That it names."""
        return stf_ports(self.statements)

    @property
    def possible(self) -> bool:
        """Whether its packets come in by ports that a switch can have."""
        return _NO_PORT not in self.ports


def without_comments(text: str) -> GeneratedTest:
    """A file that p4testgen has written; the way through the program stands in its comments."""
    lines = [line.strip() for line in text.splitlines()]
    return GeneratedTest("".join(f"{line}\n" for line in lines if line and not line.startswith("#")))


def blob(program: str) -> Path:
    """What p4c has made of it."""
    return BUILD / f"{program}.json"


def p4info(program: str) -> Path:
    """What p4c has made of it."""
    return BUILD / f"{program}.p4info.txtpb"


def store(program: str, tests: Iterable[GeneratedTest]) -> Path:
    """Writes them for machines that have no p4testgen."""
    path = _STORED / f"{program}.stf.xz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress("".join(f"{_NEXT}{test.name}\n{test.text}" for test in tests).encode(), preset=9))
    return path


def stored(program: str) -> Sequence[GeneratedTest]:
    """What `store` has written."""
    text = lzma.decompress((_STORED / f"{program}.stf.xz").read_bytes()).decode()
    return [GeneratedTest(part.split("\n", 1)[1]) for part in text.split(_NEXT)[1:]]
