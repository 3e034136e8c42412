# SPDX-License-Identifier: Apache-2.0
"""Entities written under one forwarding-pipeline config: the engine's state and P4Runtime's additions to it.

The engine knows keys, actions and counts. What it does not need (metadata cookies, time-outs, one-shot groups
as they were written, multicast groups and clone sessions as messages) is kept here.
A store is *live* when packets run on it; one made by VERIFY_AND_SAVE is not, until COMMIT.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from finsy.proto import p4r

from detour.engine.compiler.program import Program
from detour.engine.p4runtime import schema
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.references import References
from detour.engine.p4runtime.translation import Translation
from detour.engine.tables import ActionProfile, MatchTable
from detour.engine.target import TargetSwitch

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Note:
    """P4Runtime's data on an entry. Loop times: `since_ps`, from which its idle time counts at the earliest;
    `notified_ps`, of the last notification, from which the next one counts."""

    metadata: bytes = b""
    controller_metadata: int = 0
    idle_timeout_ns: int = 0
    since_ps: int = 0
    notified_ps: int = 0


@dataclass(frozen=True, slots=True)
class OneShot:
    """A group that came with its entry: the message as written, and the hidden ids behind it."""

    message: p4r.ActionProfileActionSet
    group: int
    members: tuple[int, ...]


class TableStore:
    """One table: `engine` finds and runs entries, `notes` and `one_shots` are by the engine's handle."""

    def __init__(self, info: schema.TableSchema, engine: MatchTable, profile: ProfileStore | None) -> None:
        self.info, self.engine, self.profile = info, engine, profile
        self.notes: dict[int, Note] = {}
        self.one_shots: dict[int, OneShot] = {}
        self.default_note: Note | None = None
        self.waiting: set[int] = set()  # handles of entries with an idle time-out
        self.copied_ps: int | None = None  # of a snapshot: when
        if info.preset:
            # The JSON looks as if the entries were const and the table as large as their number.
            engine.immutable = False
        if info.size:
            engine.size = max(info.size, len(engine))


@dataclass(slots=True)
class ProfileStore:
    """One action profile. A selector is programmed by members and groups or by one-shots, never by both."""

    info: schema.Profile
    engine: ActionProfile
    one_shots: int = 0  # entries that came as one-shots
    by_reference: int = 0  # entries that point to members or groups
    next_hidden: int = 1 << 32  # ids of clients are 32 bits wide
    sizes: dict[int, int] = field(default_factory=dict)  # group -> max_size as written

    def hidden_id(self) -> int:
        """An id that no client can name."""
        self.next_hidden += 1
        return self.next_hidden

    def forbid_references(self) -> None:
        """Before anything is programmed by member or group id."""
        if self.one_shots:
            raise invalid(
                f"action profile {self.info.name} is programmed with one-shots; members and groups cannot be added"
            )

    def forbid_one_shots(self) -> None:
        """Before a one-shot."""
        if self.by_reference or (any(True for _ in self.engine.members()) and not self.one_shots):
            raise invalid(
                f"action profile {self.info.name} is programmed with members and groups; one-shots cannot be added"
            )


class EntityStore:
    """All state under one config."""

    def __init__(self, info: schema.Schema, program: Program, target: TargetSwitch) -> None:
        self.schema, self.program, self.target = info, program, target
        self.state = target.new_state(program)
        self.live = False
        self.profiles = {id_: ProfileStore(p, self.state.action_profiles[p.name]) for id_, p in info.profiles.items()}
        self.tables = {
            id_: TableStore(t, self.state.tables[t.name], self.profiles[t.profile.id] if t.profile else None)
            for id_, t in info.tables.items()
        }
        self.groups: dict[int, p4r.MulticastGroupEntry] = {}
        self.sessions: dict[int, p4r.CloneSessionEntry] = {}
        self.digests: dict[int, p4r.DigestEntry.Config] = {}
        self.translation = Translation(info.translation)
        self.references = References(info.references, self.translation.show)
        for table in (self.tables[place] for place in info.references.places if isinstance(place, int)):
            for entry in table.engine.entries():
                message = p4r.TableEntry(table_id=table.info.id, priority=entry.priority)
                table.info.key.encode(entry.key, message.match)
                self.references.add(message)

    def table(self, id_: int) -> TableStore:
        """A table by id; INVALID_ARGUMENT if there is none."""
        return schema.find(self.tables, id_, "table")

    def run(self, function: Callable[[], T]) -> T:
        """Run a function on the state while no packet does."""
        return self.target.call(function) if self.live else function()

    def now_ps(self) -> int:
        """Loop time."""
        return self.target.now_ps
