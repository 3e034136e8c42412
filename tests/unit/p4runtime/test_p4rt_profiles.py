# SPDX-License-Identifier: Apache-2.0
"""Groups and one-shots of action profiles, as far as tests of the specification (test_conformance.py) do not say."""

from __future__ import annotations

from finsy.proto import p4r

from tests.unit.p4runtime import harness
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, refusals

INVALID, NOT_FOUND, EXISTS, EXHAUSTED, UNIMPLEMENTED = 3, 5, 6, 8, 12


def member(names: Names, profile: str, id_: int, *action) -> p4r.Entity:
    return harness.member(names.ids[profile], id_, names.action(*action) if action else None)


def group(names: Names, id_: int, *members: tuple[int, int], **options: int) -> p4r.Entity:
    return harness.group(names.ids["ecmp"], id_, *members, **options)


def one_shot(names: Names, prefix: int, *actions: tuple[int, int], watch: int = 0) -> p4r.Entity:
    return names.one_shot((prefix << 112, 16), actions=actions, watch=watch)


def balanced(names: Names, prefix: int, **action) -> p4r.Entity:
    entity = names.entry("balanced", (prefix << 112, 16))
    for name, value in action.items():
        setattr(entity.table_entry.action, name, value)
    return entity


EVERY_MEMBER = p4r.Entity(action_profile_member=p4r.ActionProfileMember())
EVERY_GROUP = p4r.Entity(action_profile_group=p4r.ActionProfileGroup())


def test_wrong_groups(client: Client, names: Names) -> None:
    client.insert(member(names, "ecmp", 1, "forward", 1), member(names, "ecmp", 2, "forward", 2))
    client.insert(group(names, 1, (1, 1), max_size=4))
    big_port = group(names, 5, (1, 1))
    big_port.action_profile_group.members[0].watch_port = b"\x02\x00"
    wrong = [
        ("INSERT", group(names, 5, (1, 2147483647)), EXHAUSTED),
        ("INSERT", group(names, 5, max_size=-1), INVALID),
        ("INSERT", big_port, INVALID),
        ("MODIFY", group(names, 1, (1, 3), (2, 2), max_size=4), EXHAUSTED),
    ]
    assert client.refusals(*(update[:2] for update in wrong)) == [code for _, _, code in wrong]
    assert client.read(EVERY_GROUP) == [group(names, 1, (1, 1), max_size=4)]
    assert refusals(lambda: client.read(group(names, 5), member(names, "ecmp", 5))) == [NOT_FOUND, NOT_FOUND]


def hidden(network: FakeNetwork) -> tuple[list, list]:
    """What the engine has behind one-shots: (members, weights) of all groups."""
    profile = network.pipelines[1][1].action_profiles["MyIngress.ecmp"]
    groups = [profile.group(g)[0] for g in profile.groups()]
    return (
        [[profile.member(m.member)[1] for m in g] for g in groups],
        [[(m.weight, m.watch_port) for m in g] for g in groups],
    )


def test_one_shots_come_and_go_with_their_entries(client: Client, names: Names, network: FakeNetwork) -> None:
    client.insert(one_shot(names, 0xFD01, (3, 1), (4, 2)), one_shot(names, 0xFD02, (9, 5), watch=2))
    assert hidden(network) == ([[(3,), (4,)], [(9,)]], [[(1, None), (2, None)], [(5, 2)]])
    client.modify(one_shot(names, 0xFD01, (5, 1), (6, 1), (7, 1)))
    assert hidden(network)[0] == [[(5,), (6,), (7,)], [(9,)]]
    client.modify(one_shot(names, 0xFD01, (8, 1)))
    assert hidden(network)[0] == [[(8,)], [(9,)]]
    client.modify(one_shot(names, 0xFD01))
    assert hidden(network)[0] == [[], [(9,)]]
    client.delete(one_shot(names, 0xFD01), one_shot(names, 0xFD02))
    assert hidden(network) == ([], [])
    assert not list(network.pipelines[1][1].action_profiles["MyIngress.ecmp"].members())


def test_a_failed_one_shot_leaves_nothing(client: Client, names: Names, network: FakeNetwork) -> None:
    client.insert(one_shot(names, 0xFD01, *((p, 1) for p in range(60))))
    too_many = one_shot(names, 0xFD02, *((p, 1) for p in range(5)))
    assert client.refusals(("INSERT", too_many)) == [EXHAUSTED]
    for actions in ([(1, 1)], [(p, 1) for p in range(5)]):  # also where there is no room for as many
        assert client.refusals(("INSERT", one_shot(names, 0xFD01, *actions))) == [EXISTS]
    assert client.refusals(("MODIFY", one_shot(names, 0xFD01, *((p, 1) for p in range(65))))) == [EXHAUSTED]
    profile = network.pipelines[1][1].action_profiles["MyIngress.ecmp"]
    assert len(list(profile.members())) == 60
    assert client.read(names.entry("balanced")) == [one_shot(names, 0xFD01, *((p, 1) for p in range(60)))]


def test_wrong_one_shots(client: Client, names: Names) -> None:
    mode = one_shot(names, 0xFD01, (1, 1))
    mode.table_entry.action.action_profile_action_set.action_selection_mode = 2  # type: ignore[assignment]
    heavy = one_shot(names, 0xFD01, (1, 1 << 30), (2, 1 << 30))
    assert client.refusals(("INSERT", heavy), ("INSERT", mode)) == [EXHAUSTED, UNIMPLEMENTED]


def test_one_shots_and_groups_do_not_mix(client: Client, names: Names) -> None:
    client.insert(one_shot(names, 0xFD01, (1, 1)))
    assert client.refusals(
        ("INSERT", member(names, "ecmp", 1, "drop")),
        ("INSERT", group(names, 1)),
        ("INSERT", balanced(names, 0xFD02, action_profile_group_id=1)),
    ) == [INVALID, INVALID, INVALID]
    client.delete(one_shot(names, 0xFD01))
    client.insert(member(names, "ecmp", 1, "drop"))
    assert client.refusals(("INSERT", one_shot(names, 0xFD01, (1, 1)))) == [INVALID]
    client.insert(balanced(names, 0xFD02, action_profile_member_id=1))
    assert client.refusals(("MODIFY", one_shot(names, 0xFD02, (1, 1)))) == [INVALID]
