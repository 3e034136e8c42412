# SPDX-License-Identifier: Apache-2.0
"""What the planner writes: names, counts, thresholds, what failures take away."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.base.places import BUILD
from detour.control import qcn, schema
from detour.control.entries import (
    Action,
    ActionSet,
    CloneSession,
    DefaultAction,
    Lpm,
    MeterConfig,
    Plan,
    Replica,
    TableEntry,
    difference,
)
from detour.control.p4runtime import punt
from detour.control.planner import plan
from detour.control.policy import Amount, NoMarking, Policy, RedMarking, StepMarking
from detour.control.routes.queueing import marking_action
from detour.control.routings import routing as chosen
from detour.topo import address, parse_failure, parse_topology

D1 = parse_topology("d1")
PLAN = plan(D1)


def down(topology, *names):
    return frozenset(parse_failure(topology, name) for name in names)


def tables(entities) -> Counter[str]:
    return Counter(entity.table for entity in entities if isinstance(entity, TableEntry))


def routes(entities) -> dict[str, ActionSet]:
    actions: dict[str, ActionSet] = {}
    for entity in entities:
        if isinstance(entity, TableEntry) and entity.table == schema.ROUTE:
            prefix = entity.match[0][1]
            assert isinstance(prefix, Lpm)
            assert isinstance(entity.action, ActionSet)
            actions[address.prefix_text(prefix.value, prefix.prefix_len)] = entity.action
    return actions


def ports(action: ActionSet) -> list[int]:
    return [member["port"] for member in action.members()]


PROGRAMS = {
    "fabric": [Policy(ecn=RedMarking(Amount(10), Amount(90), 0.1), channels=3)],
    "adaptive": [
        Policy(routing=chosen("adaptive:threshold=9"), channels=3),
        *(Policy(routing=chosen(name)) for name in ("minimal", "random")),
    ],
    "ugal": [Policy(routing=chosen(name), channels=3) for name in ("ugal-local:threshold=9", "ugal-global")],
    "ugal_graph": [Policy(routing=chosen("ugal-graph:threshold=9"))],
    "spraypoint": [
        Policy(routing=chosen(f"spraypoint:{choice}"), valiant=False) for choice in ("h=3", "gap=50", "per_packet=1")
    ],
}  # fmt: skip


def plans_of(program: str) -> Iterator[Plan]:
    """A plan of every kind for a program."""
    if program == qcn.PROGRAM:
        yield from (qcn.plan_qcn(D1, mechanism) for mechanism in qcn.MECHANISMS.values())
    for policy in PROGRAMS.get(program, ()):
        assert policy.program == program
        yield plan(D1, policy, down(D1, "s0-s35"))


def names_of(program: str) -> set[str]:
    return set(re.findall(r'name: "([^"]+)"', (BUILD / f"{program}.p4info.txtpb").read_text()))


@pytest.mark.parametrize("program", [*PROGRAMS, qcn.PROGRAM])
def test_names_are_those_of_the_p4info(program):
    names = names_of(program)
    for planned in plans_of(program):
        for entity in (e for entities in planned.values() for e in entities):
            if isinstance(entity, TableEntry):
                assert {entity.table, *(name for name, _ in entity.match)} <= names
                for action in entity.members():
                    assert {action.name, *(name for name, _ in action.params)} <= names
            elif isinstance(entity, DefaultAction):
                assert {entity.table, entity.action.name, *dict(entity.action.params)} <= names
            elif isinstance(entity, MeterConfig):
                assert entity.meter in names


def test_every_name_is_in_a_program():
    constants = {value for name, value in vars(schema).items() if name.isupper() and isinstance(value, str)}
    ours = names_of("fabric") | names_of("trim")
    switches_choose = names_of("adaptive") | names_of("ugal") | names_of("ugal_graph") | names_of("spraypoint")
    assert constants <= ours | switches_choose
    fields = {schema.DESTINATION_NODE, schema.DESTINATION_SWITCH, schema.FROM_HOST}
    assert {name.split(".")[1] for name in constants - ours - fields} <= {"adaptive", "ranking", "spraypoint"}
    left = constants - switches_choose - (names_of("trim") - names_of("fabric"))
    assert all(".valiant." in name or name == schema.NO_ACTION for name in left)


@pytest.mark.parametrize("program", PROGRAMS)
def test_sizes_are_those_of_the_p4info(program):
    text = (BUILD / f"{program}.p4info.txtpb").read_text()
    for block in re.split(r"^(?=tables \{|action_profiles \{)", text, flags=re.MULTILINE):
        name = re.search(r'name: "([^"]+)"', block)
        size = re.search(r"^  size: (\d+)", block, flags=re.MULTILINE)
        if name and size and name[1] in schema.TABLE_SIZE:
            assert schema.TABLE_SIZE[name[1]] == int(size[1])
        if name and name[1].endswith("_selector") and size:
            table = name[1].removesuffix("_selector")
            (limit,) = [
                value for key, value in schema.SELECTOR_SIZE.items() if key.split(".")[-1] == table.split(".")[-1]
            ]
            assert limit == int(size[1])
            assert f"max_group_size: {schema.MAX_GROUP_SIZE}" in block


def test_constants_are_those_of_the_p4_sources():
    text = (BUILD.parent / "include" / "headers.p4").read_text()

    def constant(name: str) -> int:
        match = re.search(rf"const \S+ {name} = (\w+);", text)
        assert match is not None
        return int(match[1], 0)

    assert constant("USID_BLOCK") == address.USID_BLOCK
    assert constant("HOST_PREFIX") == address.HOST_PREFIX
    assert constant("USID_LOCAL_FUNCTIONS") == address.FIRST_FUNCTION
    assert constant("CPU_COPY_SESSION") == schema.CPU_COPY_SESSION
    assert constant("NOTIFICATION_SESSION") == qcn.NOTIFICATION_SESSION
    punts = re.findall(r"const bit<8> (PUNT_\w+) = (\d+);", text)
    assert sorted(int(value) for _, value in punts) == sorted(schema.PUNT_REASONS)
    for name in ("PUNT_NO_ROUTE", "PUNT_HOP_LIMIT", "PUNT_SID_EXHAUSTED", "PUNT_BAD_SRH"):
        assert constant(name) == getattr(punt, name)
    assert f"#define MAX_SEGMENTS {punt.MAX_SEGMENTS}\n" in text
    assert f"#define MAX_OPTION_BITS {8 * (punt.MAX_OPTIONS_BYTES - 2)}\n" in text
    assert f"#define MAX_GROUPS {schema.MAX_GROUPS}\n" in text
    assert f"meta.passes > {schema.MAX_PASSES}" in (BUILD.parent / "include" / "punt.p4").read_text()


@pytest.mark.parametrize(("name", "g", "a", "p", "h"), [("d1", 9, 4, 2, 2), ("d2", 19, 6, 3, 3)])
def test_tables_stay_small(name, g, a, p, h):
    switches, total = g * a, 0
    for entities in plan(parse_topology(name)).values():
        sizes = tables(entities)
        # Groups, switches of the own group, own hosts by address and by uSID; uSIDs of other switches in blocks.
        rest = sizes[schema.ROUTE] - ((g - 1) + (a - 1) + 2 * p)
        assert switches // 4 < rest <= switches - 1
        total += rest
        assert sizes[schema.DETOUR] == g - 1
        assert sizes[schema.CUT_OFF] == 0
        assert sizes[schema.LOCAL_SID] == 1 + 2 * (p + a - 1 + h)
    assert total < 0.9 * switches * (switches - 1)


def test_planning_is_pure():
    assert plan(D1) == PLAN
    assert plan(parse_topology("d1")) == PLAN
    assert {entity for entities in PLAN.values() for entity in entities}  # everything is hashable


def test_entities_of_one_switch_have_keys_of_their_own():
    for entities in plan(D1, failures=down(D1, "s3", "s8-s9", "s0-s35")).values():
        keys = Counter(entity.key for entity in entities)
        assert max(keys.values()) == 1


def test_what_a_switch_knows_of_itself():
    node = Action.of(schema.SET_NODE, node_id=6, group=1, groups=9)
    assert DefaultAction(schema.NODE_CONFIG, node) in PLAN[6]
    clos = plan(parse_topology("fat-tree:k=4"))[6]
    assert DefaultAction(schema.NODE_CONFIG, Action.of(schema.SET_NODE, node_id=6, group=1, groups=0)) in clos
    assert tables(clos)[schema.DETOUR] == 0
    plain = plan(D1, Policy(valiant=False))[6]
    assert DefaultAction(schema.NODE_CONFIG, Action.of(schema.SET_NODE, node_id=6, group=1, groups=0)) in plain
    assert tables(plain)[schema.DETOUR] == 0


def test_own_hosts_get_their_own_mac():
    by_prefix = routes(PLAN[2])
    deliver = Action.of(schema.DELIVER, port=1, mac=D1.hosts[2].mac)
    assert by_prefix["fd00:0:1::/64"].members() == (deliver,)
    assert by_prefix["fcbb:bb00:8002::/48"].members() == (deliver,)


def test_equal_paths_share_the_load():
    by_prefix = routes(plan(parse_topology("leaf-spine:leaves=4,spines=3,hosts=2"))[1])
    assert ports(by_prefix["fd00:0:1::/48"]) == [3, 4, 5]
    by_prefix = routes(plan(parse_topology("fat-tree:k=4"))[1])
    assert ports(by_prefix["fd00:3::/32"]) == [3, 4]
    assert ports(by_prefix["fd00:0:1::/48"]) == [3, 4]


def test_more_equal_paths_than_a_selector_takes():
    topology = parse_topology("leaf-spine:leaves=3,spines=100,hosts=1")
    by_prefix = routes(plan(topology)[1])
    first, second = ports(by_prefix["fd00:0:1::/48"]), ports(by_prefix["fd00:0:2::/48"])
    assert len(first) == len(second) == schema.MAX_GROUP_SIZE
    assert first != second


def test_sids_of_a_switch():
    entries = [entity for entity in PLAN[1] if isinstance(entity, TableEntry) and entity.table == schema.LOCAL_SID]
    sids = {entry.match[0][1]: entry.action for entry in entries}
    assert sids[Lpm(address.locator(1), 48)] == Action(schema.UN)
    for port in range(1, 8):
        assert sids[Lpm(address.locator(0xE000 + port), 48)] == Action.of(schema.UA, port=port)
        assert sids[Lpm(address.adjacency_sid(1, port), 64)] == Action.of(schema.NODE_UA, port=port)


def test_queues_and_controller():
    marks = [e for e in PLAN[1] if isinstance(e, TableEntry) and e.table == schema.MARKING]
    assert len(marks) == 7
    assert marks[0].action == Action.of(schema.STEP, k=100_000 // 1102)
    assert TableEntry.of(schema.DSCP, {schema.DSCP_FIELD: 48}, Action.of(schema.SET_PRIORITY, priority=7)) in PLAN[1]
    assert CloneSession(1, (Replica(510, 1),)) in PLAN[1]
    assert {e.index for e in PLAN[1] if isinstance(e, MeterConfig)} == {3, 6, 7, 10, 13}


@pytest.mark.parametrize(("kmin", "kmax", "pmax"), [(0, 1, 1.0), (10, 90, 0.2), (3, 500_000, 1.0), (0, 3, 0.999999999)])
def test_red_reaches_pmax_at_kmax_and_never_overflows(kmin, kmax, pmax):
    action = marking_action(RedMarking(Amount(kmin), Amount(kmax), pmax), 1000)
    assert action is not None
    top = (action["kmax"] - action["kmin"]) * action["slope"]
    assert top < 2**32  # 32 bits wide in P4
    assert top / 2**32 == pytest.approx(pmax, rel=1e-3)


def test_thresholds_in_bytes_become_packets():
    with pytest.raises(DetourError, match="kmin is 3 packets, not below kmax, 3"):
        marking_action(RedMarking(Amount(3000, "bytes"), Amount(3900, "bytes"), 0.1), 1000)
    assert marking_action(NoMarking(), 1000) is None
    assert marking_action(StepMarking(Amount(10**9)), 1000) == Action.of(schema.STEP, k=2**19 - 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"packet_bytes": 0}, {"punt_rate": -1}, {"priorities": ((64, 1),)}, {"priorities": ((1, 8),)},
        {"priorities": ((1, 1), (1, 2))}, {"valiant": False, "routing": chosen("adaptive")},
        {"valiant": False, "routing": chosen("random")}, {"channels": -1}, {"channels": 7}, {"channels": 2},
        {"channels": 2, "routing": chosen("adaptive")}, {"channels": 3, "priorities": ((2, 1),)},
    ],
)  # fmt: skip
def test_wrong_policies(arguments):
    with pytest.raises(DetourError, match="policy"):
        Policy(**arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("shortest", "there is no routing 'shortest'"), ("valiant:threshold=5", "there is no parameter threshold"),
        ("minimal:threshold=5", "there is no parameter threshold"), ("adaptive:threshold=-1", "not 0 to 65535"),
        ("adaptive:threshold=65536", "not 0 to 65535"), ("adaptive:threshold=x", "threshold is a whole number"),
    ],
)  # fmt: skip
def test_wrong_routings(text, words):
    with pytest.raises(DetourError, match=words):
        chosen(text)


def test_a_failed_global_link_is_withdrawn():
    failures = down(D1, "s0-s35")
    planned = plan(D1, failures=failures)
    link = D1.link("s0-s35")
    for switch, port in (link.a, link.b):
        by_prefix = routes(planned[switch + 1])
        assert all(port not in ports(action) for action in by_prefix.values())
        sids = [e for e in planned[switch + 1] if isinstance(e, TableEntry) and e.table == schema.LOCAL_SID]
        assert len(sids) == 1 + 2 * 6
    # Group 0 lost its only link to group 8: no detour by way of 8, and group 0 is cut off from 8 for all others.
    vias = {e.field(schema.VIA) for e in planned[1] if isinstance(e, TableEntry) and e.table == schema.DETOUR}
    assert vias == {1, 2, 3, 4, 5, 6, 7}
    for device, expected in ((1, set()), (6, {(0, 8), (8, 0)})):
        cut = {
            (e.field(schema.VIA), e.field(schema.DESTINATION_GROUP))
            for e in planned[device]
            if isinstance(e, TableEntry) and e.table == schema.CUT_OFF
        }
        assert cut == expected


def test_a_failed_switch_gets_no_plan_and_no_routes():
    planned = plan(D1, failures=down(D1, "s5"))
    assert 6 not in planned
    for entities in planned.values():
        by_prefix = routes(entities)
        assert "fcbb:bb00:6::/48" not in by_prefix
        assert "fd00:1:1::/48" not in by_prefix
        assert "fd00:1::/32" not in by_prefix


def test_a_host_without_link_has_no_route():
    by_prefix = routes(plan(D1, failures=down(D1, "h2"))[2])
    assert "fd00:0:1::/64" not in by_prefix
    assert "fcbb:bb00:8002::/48" not in by_prefix
    assert "fd00:0:1:1::/64" in by_prefix


def test_everything_down():
    failures = down(D1, *(f"s{i}" for i in range(36)))
    assert plan(D1, failures=failures) == {}


def test_full_tables_are_refused():
    topology = parse_topology("fat-tree:k=4")
    with pytest.raises(DetourError, match=r"s0: \d+ entries for FabricIngress.router.route, which holds 10"):
        _with_sizes({**schema.TABLE_SIZE, schema.ROUTE: 10}, schema.SELECTOR_SIZE, topology)
    with pytest.raises(DetourError, match=r"s0: \d+ members for the selector of FabricIngress.router.route"):
        _with_sizes(schema.TABLE_SIZE, {schema.ROUTE: 3}, topology)


def _with_sizes(tables_, selectors, topology):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "TABLE_SIZE", tables_)
        patch.setattr(schema, "SELECTOR_SIZE", selectors)
        plan(topology)


def test_differences_are_minimal():
    before, after = PLAN[1], plan(D1, failures=down(D1, "s0-s35"))[1]
    change = difference(before, after)
    assert not difference(before, list(before))
    assert change
    state: dict[Any, Any] = {entity.key: entity for entity in before}
    for entity in (*change.insert, *change.modify):
        state[entity.key] = entity
    for entity in change.delete:
        del state[entity.key]
    assert set(state.values()) == set(after)
    assert len(change.insert) + len(change.modify) + len(change.delete) < len(before) // 2


def test_default_actions_are_modified_never_deleted():
    default = DefaultAction(schema.NODE_CONFIG, Action.of(schema.SET_NODE, node_id=1, group=0, groups=0))
    assert not difference([default], [])
    assert difference([], [default]).modify == (default,)


def test_entities_are_canonical():
    assert Lpm(0xFD00_0001_0002 << 80, 32) == Lpm(0xFD00_0001 << 96, 32)
    a = TableEntry.of(schema.CUT_OFF, {schema.VIA: 1, schema.DESTINATION_GROUP: 2}, Action(schema.NO_ACTION))
    b = TableEntry.of(schema.CUT_OFF, {schema.DESTINATION_GROUP: 2, schema.VIA: 1}, Action(schema.NO_ACTION))
    assert a == b
    assert hash(a) == hash(b)
    assert Action("x", (("b", 1), ("a", 2))) == Action.of("x", a=2, b=1)
    with pytest.raises(KeyError):
        Action.of("x", a=2)["b"]
