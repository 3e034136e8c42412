# SPDX-License-Identifier: Apache-2.0
"""A program with a table that is tried, and the reference beside it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState
from detour.engine.tables import GroupRef, MemberRef
from tests.fuzz.board import Board
from tests.fuzz.budget import Finding
from tests.fuzz.reference import Reference
from tests.fuzz.table_program import RESULT_BITS, Key, Layout, document
from tests.packet_runner import PacketRunner

Target = tuple[Any, Any, tuple[int, ...]]
"""What an entry does: as the reference has it, the action (or member or group), the arguments."""


class Tried:
    """The table, what it should hold, and random parts of entries for it."""

    def __init__(self, board: Board, layout: Layout, rng: random.Random, name: str) -> None:
        self.board, self.layout, self.rng, self.name = board, layout, rng, name
        program = Program.from_json(document(layout), use_cache=False)
        self.runner = PacketRunner(program, SwitchState(program, 1))
        self.table = self.runner.state.tables["t"]
        self.profile = self.runner.state.action_profiles.get("p")
        self.expected = Reference(layout)
        self._values = {k.name: [rng.getrandbits(k.bits) for _ in range(6)] for k in layout.keys}
        self.changes = self.refusals = self.lookups = self.most = 0

    def fail(self, text: str) -> None:
        """Ends the run."""
        raise Finding(f"{self.name}, change {self.changes}: {text} ({self.layout})"[:1500])

    def refused(self, kind: type[Exception], call: Callable[[], Any], why: str) -> None:
        """The call must be refused, in the way that says why."""
        try:
            call()
        except kind:
            self.refusals += 1
        except Exception as e:
            self.fail(f"{why}: {type(e).__name__}: {e}")
        else:
            self.fail(f"{why}: accepted")

    def value(self, k: Key) -> int:
        """A value of a field; a few come again and again."""
        kind = self.rng.random()
        if kind < 0.6:
            return self.rng.choice(self._values[k.name])
        return self.rng.choice((0, 1, (1 << k.bits) - 1)) if kind < 0.7 else self.rng.getrandbits(k.bits)

    def element(self, k: Key) -> Any:
        """A component of a key."""
        value, full = self.value(k), (1 << k.bits) - 1
        match k.kind:
            case "lpm":
                return value, self.rng.choice((0, 1, k.bits // 2, k.bits - 1, k.bits, self.rng.randrange(k.bits + 1)))
            case "ternary":
                mask = self.rng.choice((full, self.rng.getrandbits(k.bits), full >> (k.bits // 2), 0))
                return self.rng.choice(((value, mask), (value, mask), (value, mask), value, None))
            case "range":
                low, high = sorted((value, self.value(k)))
                return self.rng.choice(((low, high), (low, high), (value, value), (0, full), (0, high)))
        return value

    def key(self) -> tuple[Any, ...]:
        """A key."""
        return tuple(self.element(k) for k in self.layout.keys)

    def target(self) -> Target | None:
        """What an entry may do; None if an indirect table has nothing to point to."""
        if self.profile is None:
            return self.action()
        groups, members = list(self.expected.groups), list(self.expected.members)
        if groups and self.rng.random() < 0.6:
            group = self.rng.choice(groups)
            return ("group", group), GroupRef(group), ()
        if members:
            member = self.rng.choice(members)
            return ("member", member), MemberRef(member), ()
        return None

    def action(self) -> Target:
        """An action with arguments."""
        number = self.rng.getrandbits(RESULT_BITS)
        more = self.rng.getrandbits(self.layout.register_bits)
        return self.rng.choice(
            (
                (("mark", number), "mark", (number,)),
                (("mark", number), "mark_more", (number, more)),
                (("nothing", 0), "nothing", ()),
            )
        )
