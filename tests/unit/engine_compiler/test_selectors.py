# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from detour.engine.tables import (
    ActionProfile,
    EntryExists,
    GroupMember,
    GroupRef,
    MatchTable,
    MemberRef,
    NoSuchEntry,
    TableError,
    TableFull,
)

from .bitstring import Spec, join, split
from .conftest import MiniSwitch, program
from .test_hashing import crc16

IN: Spec = [("key", 8), ("flow", 16), ("which", 8)]
OUT: Spec = [("chosen", 32), ("hit", 8)]
PICK, PICK_TWO = "TheIngress.pick", "TheIngress.pick_two"


class Setup:
    def __init__(self) -> None:
        self.switch = MiniSwitch(program("selectors"))
        state = self.switch.state
        self.profile: ActionProfile = state.action_profiles["TheIngress.profile"]
        self.selector: ActionProfile = state.action_profiles["TheIngress.selector"]
        self.plain: MatchTable = state.tables["TheIngress.plain"]
        self.again: MatchTable = state.tables["TheIngress.again"]
        self.chosen: MatchTable = state.tables["TheIngress.chosen"]

    def send(self, which: int, key: int = 0, flow: int = 0) -> tuple[int, int]:
        data = join(IN, {"key": key, "flow": flow, "which": which})
        ((_, out),) = self.switch.send(0, data)
        values = split(OUT, out[len(data) :])
        return values["chosen"], values["hit"]

    def members_hit(self, key: int, flows: range = range(400)) -> set[int]:
        return {self.send(2, key, flow)[0] for flow in flows}


@pytest.fixture
def s() -> Setup:
    setup = Setup()
    for m in range(4):
        setup.selector.add_member(m, PICK, (1000 + m,))
    return setup


def test_two_tables_share_a_profile(s: Setup) -> None:
    s.profile.add_member(7, PICK, (70,))
    s.profile.add_member(3, PICK_TWO, (30, 5))
    s.plain.insert((1,), MemberRef(7))
    s.again.insert((2,), MemberRef(7))
    s.again.insert((3,), MemberRef(3))
    assert (s.send(0, key=1), s.send(1, flow=2), s.send(1, flow=3)) == ((70, 0), (70, 0), (30, 5))
    assert (s.send(0, key=9), s.send(1, flow=9)) == ((0, 0), (0, 0))
    s.profile.modify_member(7, PICK_TWO, (71, 6))
    assert (s.send(0, key=1), s.send(1, flow=2)) == ((71, 6), (71, 6))
    with pytest.raises(TableError, match="in use"):
        s.profile.delete_member(7)
    s.plain.delete(s.plain.find((1,)))
    s.again.modify(s.again.find((2,)), MemberRef(3))
    s.profile.delete_member(7)
    assert list(s.profile.members()) == [3]


def test_a_group_member_is_chosen_by_hash(s: Setup) -> None:
    s.selector.add_group(5, [GroupMember(m) for m in (2, 0, 3)])
    s.chosen.insert((1,), GroupRef(5))
    for flow in range(300):
        member = (0, 2, 3)[crc16(join([("flow", 16), ("which", 8)], {"flow": flow, "which": 2})) % 3]
        assert s.send(2, 1, flow) == (1000 + member, 100)
    assert s.send(2, 2) == (0, 0)


def test_groups_change_under_their_entries(s: Setup) -> None:
    s.selector.add_group(5)
    s.chosen.insert((1,), GroupRef(5))
    assert s.send(2, 1) == (0, 100), "an empty group runs no action, but the table was hit"
    s.selector.set_group(5, [GroupMember(1)])
    assert s.members_hit(1) == {1001}
    s.selector.set_group(5, [GroupMember(0), GroupMember(2)])
    assert s.members_hit(1) == {1000, 1002}
    s.selector.modify_member(0, PICK, (5,))
    assert s.members_hit(1) == {5, 1002}
    s.selector.set_group(5, [GroupMember(2)])
    assert s.members_hit(1) == {1002}
    assert s.selector.group(5) == ((GroupMember(2),), 0)


def test_every_write_is_counted_and_no_read(s: Setup) -> None:
    state = s.switch.state
    writes: list[Callable[[], object]] = [
        lambda: s.selector.modify_member(0, PICK, (5,)),
        lambda: s.selector.add_group(5, [GroupMember(1)]),
        lambda: s.selector.set_group(5, [GroupMember(2)]),
        lambda: s.chosen.insert((1,), GroupRef(5)),
        lambda: s.chosen.modify(0, MemberRef(3)),
        lambda: s.chosen.set_default(MemberRef(1)),
        lambda: s.chosen.reset_default(),
        lambda: s.chosen.delete(0),
        lambda: s.chosen.clear(),
    ]
    for write in writes:
        before = state.changes
        write()
        assert state.changes > before
    before = state.changes
    assert list(s.chosen.entries()) == []
    assert s.chosen.default is None
    assert s.selector.group(5) == ((GroupMember(2),), 0)
    assert state.changes == before


def test_weights(s: Setup) -> None:
    s.selector.add_group(1, [GroupMember(0, weight=3), GroupMember(1)])
    s.chosen.insert((1,), GroupRef(1))
    hits = [s.send(2, 1, flow)[0] for flow in range(2000)]
    assert 0.7 < hits.count(1000) / len(hits) < 0.8


def test_members_that_watch_a_port(s: Setup) -> None:
    s.selector.add_group(1, [GroupMember(0, watch_port=4), GroupMember(1, watch_port=5), GroupMember(2)])
    s.chosen.insert((1,), GroupRef(1))
    s.switch.state.set_port_state(4, False)
    assert s.members_hit(1) == {1001, 1002}
    s.switch.state.set_port_state(5, False)
    assert s.members_hit(1) == {1002}
    s.switch.state.set_port_state(4, True)
    assert s.members_hit(1) == {1000, 1002}
    s.selector.set_group(1, [GroupMember(3, watch_port=5)])
    assert s.send(2, 1) == (0, 100)
    s.switch.state.set_port_state(5, True)
    assert s.members_hit(1) == {1003}


def test_many_groups_reuse_their_memory(s: Setup) -> None:
    for g in range(200):
        s.selector.add_group(g, [GroupMember(m) for m in range(g % 4 + 1)])
    for g in range(0, 200, 2):
        s.selector.delete_group(g)
    for g in range(200, 300):
        s.selector.add_group(g, [GroupMember(3)])
    s.chosen.insert((1,), GroupRef(299))
    s.chosen.insert((2,), GroupRef(3))
    assert s.members_hit(1) == {1003}
    assert s.members_hit(2) == {1000, 1001, 1002, 1003}


def test_what_does_not_fit_is_refused(s: Setup) -> None:
    s.selector.add_group(1, [GroupMember(0)], max_size=2)
    s.chosen.insert((1,), GroupRef(1))
    for error, bad in (
        (EntryExists, lambda: s.selector.add_member(0, PICK, (1,))),
        (EntryExists, lambda: s.selector.add_group(1)),
        (NoSuchEntry, lambda: s.selector.set_group(1, [GroupMember(99)])),
        (NoSuchEntry, lambda: s.selector.delete_group(8)),
        (NoSuchEntry, lambda: s.selector.modify_member(77, PICK, (1,))),
        (NoSuchEntry, lambda: s.chosen.insert((2,), GroupRef(9))),
        (NoSuchEntry, lambda: s.chosen.insert((2,), MemberRef(9))),
        (TableFull, lambda: s.selector.set_group(1, [GroupMember(1, weight=3)])),
        (TableError, lambda: s.selector.set_group(1, [GroupMember(1, weight=0)])),
        (TableError, lambda: s.selector.delete_group(1)),
        (TableError, lambda: s.selector.delete_member(0)),
        (TableError, lambda: s.profile.add_group(1)),
        (TableError, lambda: s.selector.add_member(50, "TheIngress.nothing")),
        (TableError, lambda: s.chosen.insert((2,), PICK, (1,))),
        (TableError, lambda: s.chosen.set_default(PICK, (1,))),
    ):
        with pytest.raises(error):
            bad()
    assert s.members_hit(1) == {1000}
    assert len(s.chosen) == 1


def test_a_full_profile(s: Setup) -> None:
    for m in range(16):
        s.profile.add_member(m, PICK, (m,))
    with pytest.raises(TableFull):
        s.profile.add_member(16, PICK, (16,))


def test_default_member(s: Setup) -> None:
    assert s.chosen.default is None
    s.chosen.set_default(MemberRef(2))
    assert s.send(2, 9) == (1002, 0)
    with pytest.raises(TableError, match="in use"):
        s.selector.delete_member(2)
    s.chosen.reset_default()
    assert s.send(2, 9) == (0, 0)
    s.selector.delete_member(2)
