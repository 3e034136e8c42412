# SPDX-License-Identifier: Apache-2.0
"""The planner: every switch's entries from topology, policy and failures alone; same input, same output, no I/O.

A planner of one's own is a function of the same three that returns a `Plan`, by entry point (group `detour.planners`)
or as `FILE.py:NAME` (`base.plugins`). The verifier says whether its routes lead where they are to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from detour.base import plugins
from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, ActionSet, DefaultAction, Entity, Plan, TableEntry
from detour.control.policy import Policy
from detour.control.routes.queueing import (
    check_channels,
    guarded,
    plan_channels,
    plan_marking,
    plan_priorities,
    plan_punting,
    plan_trimming,
)
from detour.control.routes.routing import NextHops, plan_detours, plan_locators, plan_own_hosts, plan_routes, plan_sids
from detour.topo.failures import NONE, Failures, dead_links, dead_switches
from detour.topo.paths import Bounds, bounds
from detour.topo.topology import Switch, Topology

EntryPlanner: TypeAlias = Callable[[Topology, Policy, Failures], Plan]
SHORTEST_PATHS = "shortest-paths"
"""the planner that is built in: all shortest paths, and detours where the policy has them"""


def plan(topology: Topology, policy: Policy | None = None, failures: Failures = NONE) -> Plan:
    """Entities of every live switch, by device id (switch index + 1); failed switches are left out. A destination that
    cannot be reached has no route: its packets are counted, and the controller tells their senders. Raises
    `DetourError`: the topology does not allow what the policy says; a table or an action selector would overflow."""
    policy = policy or Policy()
    check_policy(topology, policy)
    down = dead_switches(failures)
    return {
        switch.device_id: plan_switch(topology, policy, failures, switch)
        for switch in topology.switches
        if switch.index not in down
    }


def check_policy(topology: Topology, policy: Policy) -> None:
    """Raise `DetourError`: the topology does not allow what the policy says."""
    check_channels(topology, policy)
    if policy.routing.check is not None:
        policy.routing.check(topology, policy)


def route_bounds(topology: Topology, policy: Policy, failures: Failures = NONE) -> Bounds:
    """Return how many switches packets may pass by the plan for them."""
    if policy.routing.most_switches is None:
        return bounds(topology, failures)
    most = policy.routing.most_switches(topology, policy, failures)
    return Bounds(most, most)


def plan_switch(topology: Topology, policy: Policy, failures: Failures, switch: Switch) -> list[Entity]:
    """Entities of one live switch. Raises `DetourError`: a table or an action selector would overflow."""
    groups = topology.valiant_groups if policy.valiant else 0
    node = Action.of(schema.SET_NODE, node_id=switch.node_id, group=switch.group, groups=groups)
    entities: list[Entity] = [DefaultAction(schema.NODE_CONFIG, node)]
    entities += plan_sids(switch, dead_links(topology, failures))
    entities += plan_own_hosts(topology, failures, switch)
    routes = NextHops(topology, failures, switch.index)
    if policy.routing.most_switches is None:
        entities += plan_routes(topology, routes, switch)
    entities += plan_locators(topology, routes)
    if policy.routing.entries is not None:
        entities += policy.routing.entries(topology, policy, failures, switch)
    elif groups:
        entities += plan_detours(topology, failures, switch)
    entities += plan_priorities(policy, guarded(topology, policy))
    entities += plan_channels(topology, switch, policy)
    entities += plan_marking(switch, policy)
    entities += plan_trimming(policy)
    entities += plan_punting(policy)
    _check_sizes(switch, entities)
    return entities


def _check_sizes(switch: Switch, entities: list[Entity]) -> None:
    entries = [entity for entity in entities if isinstance(entity, TableEntry)]
    for table, count in Counter(entry.table for entry in entries).items():
        if count > schema.TABLE_SIZE[table]:
            raise DetourError(f"{switch.name}: {count} entries for {table}, which holds {schema.TABLE_SIZE[table]}")
    for table, size in schema.SELECTOR_SIZE.items():
        sets = {entry.action for entry in entries if entry.table == table and isinstance(entry.action, ActionSet)}
        members = sum(len(action.choices) for action in sets)
        if members > size:
            raise DetourError(f"{switch.name}: {members} members for the selector of {table}, which holds {size}")


def _adopt(name: str, plugin: Any) -> EntryPlanner:
    function = plugins.function_of(plugin, "topology, policy and failures")

    def guarded_plan(topology: Topology, policy: Policy, failures: Failures) -> Plan:
        down = dead_switches(failures)
        live = [switch.device_id for switch in topology.switches if switch.index not in down]
        with plugins.blaming(name):
            made: Any = function(topology, policy, failures)
            if not isinstance(made, Mapping) or {*live} - made.keys():
                raise DetourError(f"it returns {made!r:.60}; expected lists of entities for devices {live!s:.60}")
            entities = (each for device in live for each in made[device])
            if (wrong := next((each for each in entities if not isinstance(each, Entity)), None)) is not None:
                raise DetourError(f"it returns {wrong!r:.60}, which is not an entity of `control.entries`")
            return dict(made)

    return guarded_plan


PLANNER_REGISTRY: plugins.Registry[EntryPlanner] = plugins.Registry(
    "planners", "planner", {SHORTEST_PATHS: plan}, _adopt
)


def planner(name: str) -> EntryPlanner:
    """The planner of that name. Raises `DetourError`: there is none."""
    return PLANNER_REGISTRY.find(name)
