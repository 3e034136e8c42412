# SPDX-License-Identifier: Apache-2.0
"""Action sets as shared groups: few, in the order in which the hash chooses, and never wrong while they change."""

from hypothesis import given
from hypothesis import strategies as st

from detour.control import schema
from detour.control.entries import (
    Action,
    ActionProfileGroup,
    ActionProfileMember,
    ActionSet,
    DefaultAction,
    Entity,
    GroupEntry,
    Lpm,
    Stored,
    TableEntry,
    WeightedAction,
    difference,
)
from detour.control.groups import grouped, ungrouped

ROUTES, DETOURS = "FabricIngress.router.route_selector", "FabricIngress.valiant.detour_selector"
PROFILES = {schema.ROUTE: ROUTES, schema.DETOUR: DETOURS}
NODE = DefaultAction(schema.NODE_CONFIG, Action.of(schema.SET_NODE, node_id=1, group=0, groups=0))


def forward(*ports: int) -> ActionSet:
    return ActionSet.of(Action.of(schema.FORWARD, port=port) for port in ports)


def route(group: int, *ports: int) -> TableEntry:
    return TableEntry.of(schema.ROUTE, {schema.DST_ADDR: Lpm(group << 96, 32)}, forward(*ports))


def stored(target: list[Entity], held: list[Stored] | None = None) -> list[Stored]:
    return grouped(target, held or [], PROFILES)


def written(held: list[Stored], target: list[Entity]) -> list[str]:
    """The kinds of what is written."""
    change = difference(held, stored(target, held))
    kinds = (("insert", change.insert), ("modify", change.modify), ("delete", change.delete))
    return [f"{kind} {type(each).__name__}" for kind, entities in kinds for each in entities]


def test_entries_share_groups_and_groups_share_members():
    detour = TableEntry.of(schema.DETOUR, {schema.VIA: 1}, ActionSet.of([Action.of(schema.TOWARDS, port=1)]))
    held = stored([route(0, 1, 2), route(1, 1, 2), route(2, 2, 3), detour, NODE])
    assert held[:4] == [
        ActionProfileMember(ROUTES, 1, Action.of(schema.FORWARD, port=1)),
        ActionProfileMember(ROUTES, 2, Action.of(schema.FORWARD, port=2)),
        ActionProfileMember(ROUTES, 3, Action.of(schema.FORWARD, port=3)),
        ActionProfileMember(DETOURS, 4, Action.of(schema.TOWARDS, port=1)),
    ]
    groups = [each for each in held if isinstance(each, ActionProfileGroup)]
    assert [group.members for group in groups] == [((1, 1), (2, 1)), ((2, 1), (3, 1)), ((4, 1),)]
    assert [each.group for each in held if isinstance(each, GroupEntry)] == [1, 1, 2, 3]
    back = ungrouped(held)
    assert set(back) == {route(0, 1, 2), route(1, 1, 2), route(2, 2, 3), detour, NODE}
    assert len({id(each.action) for each in back if isinstance(each, TableEntry) and each.table == schema.ROUTE}) == 2


def test_a_group_changes_if_all_its_entries_do():
    held = stored([route(0, 1, 2), route(1, 1, 2), route(2, 3)])
    assert written(held, [route(0, 1), route(1, 1), route(2, 3)]) == ["modify ActionProfileGroup"]
    assert written(held, [route(0, 1), route(1, 1, 2), route(2, 3)]) == [
        "insert ActionProfileGroup",
        "modify GroupEntry",
    ]
    assert written(held, [route(0, 3), route(1, 3), route(2, 3)]) == [
        *2 * ["modify GroupEntry"],
        "delete ActionProfileGroup",
    ]
    assert written(held, [route(2, 3)]) == [*2 * ["delete GroupEntry"], "delete ActionProfileGroup"]
    assert written(held, ungrouped(held)) == []


def test_a_link_that_comes_back_has_its_place_again():
    before: list[Entity] = [route(0, 1, 2, 3)]
    held = stored(before)
    assert stored(before, stored([route(0, 1, 3)], held)) == held


def test_the_order_of_a_set_is_that_of_its_members():
    held = stored([route(0, 2, 1), route(1, 1, 2), route(2, 1, 1)])
    assert ungrouped(held) == [route(0, 2, 1), route(1, 1, 2), route(2, 1, 1)]
    for each in held:
        if isinstance(each, ActionProfileGroup):
            assert [number for number, _ in each.members] == sorted({number for number, _ in each.members})


def test_weights_are_kept():
    weighted = ActionSet(tuple(WeightedAction(Action.of(schema.FORWARD, port=port), port) for port in (1, 2)))
    entry = TableEntry.of(schema.ROUTE, {}, weighted)
    assert ungrouped(stored([entry])) == [entry]


def test_a_profile_has_groups_or_sets_of_entries():
    """As another controller may have written them: the switch refuses groups beside them."""
    held: list[Stored] = [route(0, 1)]
    assert stored([route(1, 2)], held) == [route(1, 2)]


def test_a_table_without_a_profile_keeps_its_sets():
    assert grouped([route(0, 1)], (), {}) == [route(0, 1)]


plans = st.dictionaries(st.integers(0, 9), st.lists(st.integers(1, 3), max_size=3), max_size=8).map(
    lambda ports: [route(number, *chosen) for number, chosen in ports.items()]
)


@given(st.lists(plans, min_size=2, max_size=5))
def test_every_entry_has_its_old_or_its_new_set_after_every_write(targets):
    """And a switch refuses nothing: whatever is written needs only what is there, and nothing needs what is deleted."""
    switch: dict[object, Stored] = {}
    for target in targets:
        before, after = dict_of(ungrouped(list(switch.values()))), dict_of(target)
        change = difference(switch.values(), stored(target, list(switch.values())))
        for each in change.insert:
            assert each.key not in switch
            switch[each.key] = each
            check(switch, before, after)
        for each in change.modify:
            assert each.key in switch
            switch[each.key] = each
            check(switch, before, after)
        for each in change.delete:
            del switch[each.key]
            check(switch, before, after)
        assert dict_of(ungrouped(list(switch.values()))) == after
        assert len(sets_of(switch)) == len({each.action for each in target})


def dict_of(entities: list[Entity]) -> dict[object, Entity]:
    return {each.key: each for each in entities}


def check(switch: dict[object, Stored], before: dict[object, Entity], after: dict[object, Entity]) -> None:
    for each in ungrouped(list(switch.values())):  # KeyError: a group or member that is not there
        assert each in (before.get(each.key), after.get(each.key))


def sets_of(switch: dict[object, Stored]) -> list[ActionProfileGroup]:
    return [each for each in switch.values() if isinstance(each, ActionProfileGroup)]
