# SPDX-License-Identifier: Apache-2.0
"""Additions of a compilation with coverage: a counter for every statement, outcome of a condition, transition of the
parser, and outcome of a table.

The counters are 64-bit words, in the order in which code generators ask for them, which is the same for a plain and for
a traced compilation of a program. Where they are says a slot of the switch's state block; traced code has a slot of its
own, so that a few packets can be counted apart from the others.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.override import Override
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.model import Json
from detour.engine.compiler.tracing import source_of

STATEMENT, BRANCH, TABLE_OUTCOME = "statement", "branch", "action"
HIT, MISS = "hit", "miss"
_NO_STATEMENT = {"_jump", "_jump_if_zero", "no_op"}


@dataclass(frozen=True, slots=True)
class CoverageSite:
    """Something that packets do or do not reach.

    `name` says where it is and what: the statement's action or parser state, the condition, the table. `outcome` is ""
    of a statement, `true` or `false` of a condition, the case and the next state of a transition, `hit`, `miss` or the
    action of a table. `source`: file, line, column and text, where p4c says them."""

    kind: str
    name: str
    outcome: str = ""
    source: dict[str, Any] | None = None


class SiteWriter:
    """Writes counters in a compilation and collects what they count."""

    def __init__(self, slot: int) -> None:
        """`slot`: of the state block, with the counters' address."""
        self.sites: list[CoverageSite] = []
        self._slot = slot

    def statement(self, f: Function, where: str, index: int, call: Json) -> None:
        """Statement `index` of an action, a parser state or the deparser runs."""
        if call["op"] not in _NO_STATEMENT:
            self.reached(f, STATEMENT, f"{where} #{index} {call['op']}", at=call)

    def reached(self, f: Function, kind: str, name: str, outcome: str = "", at: Json = None) -> None:
        """A packet comes by here."""
        self._count(f, const(64, self._add(kind, name, outcome, at)))

    def decided(self, f: Function, condition: Value, name: str, at: Json = None) -> None:
        """A condition has come to a value."""
        self._either(f, condition, BRANCH, name, ("true", "false"), at)

    def looked_up(self, f: Function, hit: Value, table: str, at: Json = None) -> None:
        """A table has been searched, or has no key and never hits."""
        self._either(f, hit, TABLE_OUTCOME, table, (HIT, MISS), at)

    def _either(self, f: Function, value: Value, kind: str, name: str, outcomes: tuple[str, str], at: Json) -> None:
        if value.const is not None:
            self.reached(f, kind, name, outcomes[0 if value.const else 1], at)
            return
        first = self._add(kind, name, outcomes[0], at)
        self._add(kind, name, outcomes[1], at)
        self._count(f, f.op("add", const(64, first), f.resize(f.negate(value), 64)))

    def _add(self, kind: str, name: str, outcome: str, at: Json) -> int:
        self.sites.append(CoverageSite(kind, name, outcome, source_of(at)))
        return len(self.sites) - 1

    def _count(self, f: Function, number: Value) -> None:
        counter = f.at(f.load_pointer(f.at("%sw", 8 * self._slot)), f.shl(number, 3))
        f.store(f.op("add", f.load(64, counter, 8), const(64, 1)), counter, 8)


class CountedProgram(NamedTuple):
    """A program's JSON, what can be reached in it, and how often each was."""

    source: Json
    sites: tuple[CoverageSite, ...]
    counts: Int64Array


class Collector:
    """Counters of programs, by `program_digest`. All switches that run the same program count in the same ones, and so
    do all compilations of it."""

    def __init__(self) -> None:
        self.programs: dict[str, CountedProgram] = {}
        self._lock = threading.Lock()

    def counts_of(self, source: Json, sites: Sequence[CoverageSite]) -> Int64Array:
        """The counters (int64, one for each site) of a program, given its BMv2 JSON."""
        with self._lock:
            new = CountedProgram(source, tuple(sites), np.zeros(max(len(sites), 1), np.int64))
            return self.programs.setdefault(program_digest(source), new).counts


COLLECTOR: Override[Collector | None] = Override(None)
"""While there is one, programs are compiled with coverage and count in it."""


def program_digest(source: Json) -> str:
    """Tell the text of one program from that of others."""
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()[:32]
