# SPDX-License-Identifier: Apache-2.0
"""Entries for priorities, virtual channels, ECN marking and packets to the controller.

Where the lossless priority of an expander's packets rises (FC+, section III-D): the pair of in-port and out-port alone
tells whether a packet has come down and goes up again, so a switch needs no more than the set of these pairs: not the
packet's path, nor its destination. A packet that goes back where it came from is no exception: having come down, it
goes up again.

Who would rise out of the last lossless priority goes on in a class that is not lossless (Tagger's principle, Hu et al.,
CoNEXT 2017). So in every lossless priority positions grow with every hop, whatever leads packets on: listed routes,
shortest paths by address, detours around what is down, and any mixture of them while routes change.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detour.base.dataplane import CPU_PORT, TRIMMED_DSCP
from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, CloneSession, DefaultAction, MeterConfig, Replica, TableEntry, Ternary
from detour.control.policy import Ecn, NoMarking, Policy, RedMarking, StepMarking
from detour.topo.expander.booted import expander_of, is_expander
from detour.topo.expander.network import Expander
from detour.topo.topology import Switch, Topology


def guarded(topology: Topology, policy: Policy) -> bool:
    """Return whether packets that would rise out of the last lossless class leave the lossless ones: in expanders."""
    return policy.channels > 0 and is_expander(topology)


def check_channels(topology: Topology, policy: Policy) -> None:
    """Raise `DetourError`: the topology has no use for several virtual channels."""
    if policy.channels > 1 and topology.family != "dragonfly" and not is_expander(topology):
        raise DetourError(
            f"channels={policy.channels}: virtual channels rise at a Dragonfly's global links; {topology.spec} has "
            f"up-down routes, which cannot deadlock in one channel"
        )


def plan_priorities(policy: Policy, guard: bool) -> Iterator[TableEntry | DefaultAction]:
    """DSCP to priority; virtual channels have the priority of their number. Where these are `guarded`, the next number
    is the class behind them, and other packets, which no entry of `channel` raises, are in it as well. Raises
    `DetourError`: a DSCP that the policy uses otherwise is a class of the guard."""
    channels = range(policy.channels + 1) if guard else range(policy.channels if policy.channels > 1 else 0)
    taken = [dscp for dscp, priority in policy.priorities if guard and min(dscp, priority) <= policy.channels]
    if taken:
        raise DetourError(
            f"policy: DSCP {taken[0]} cannot have that priority: 0 to {policy.channels - 1} are lossless, and"
            f" {policy.channels} is for packets that would close a cycle"
        )
    if guard:
        yield DefaultAction(schema.DSCP, Action.of(schema.SET_PRIORITY, priority=policy.channels))
    trimmed = ((TRIMMED_DSCP, TRIM_PRIORITY),) if policy.trims else ()
    for dscp, priority in sorted((*policy.priorities, *trimmed, *((v, v) for v in channels))):
        action = Action.of(schema.SET_PRIORITY, priority=priority)
        yield TableEntry(schema.DSCP, ((schema.DSCP_FIELD, dscp),), action)


TRIM_BYTES, TRIM_PRIORITY = 144, 6
"""what is left of a packet, all headers of RDMA hosts among it, and its priority from then on: below that of answers"""


def plan_trimming(policy: Policy) -> Iterator[TableEntry]:
    """Data (DSCP 0) that finds no room is trimmed; answers, probes' answers and what is trimmed already are not."""
    if policy.trims:
        action = Action.of(schema.TRIM, bytes=TRIM_BYTES, priority=TRIM_PRIORITY)
        yield TableEntry(schema.TRIM_CLASSES, ((schema.DSCP_FIELD, 0),), action)


def plan_channels(topology: Topology, switch: Switch, policy: Policy) -> Iterator[TableEntry]:
    """Plan where packets go on in the next channel; the last one keeps them, but in an expander.

    There it is where a path has come down and goes up again, and behind the last channel there is a class that is not
    lossless (`plan_transitions`): nothing can deadlock, however packets are led. Elsewhere it is
    behind a global link: a shortest path passes one and a detour two, each with at most one local link before, between
    and after. So in every channel packets wait for local links, then for a global one, then for the next
    channel: no cycle. Detours around failed links may be longer, and then stay in the last channel."""
    if guarded(topology, policy):
        yield from plan_transitions(expander_of(topology), switch.index, policy.channels)
        return
    for port, peer in enumerate(switch.ports, start=1):
        if peer is not None and peer.kind == "global":
            for v in range(policy.channels - 1):
                match = {schema.DSCP_FIELD: v, schema.IN_PORT: Ternary(port, schema.PORT_MASK)}
                action = Action.of(schema.SET_CHANNEL, dscp=v + 1, priority=v + 1)
                yield TableEntry.of(schema.CHANNEL, match, action, priority=1)


def transition_ports(network: Expander, switch: int) -> list[tuple[int, int]]:
    """The (in-port, out-port) of a switch at which the lossless priority rises by one, ascending. Ports as in
    `network.topology`, those of links that are down left out; a packet that a host sends in never rises."""
    ch, first = network.channels, int(network.hosts[switch]) + 1
    columns = np.flatnonzero(ch.neighbour[switch] >= 0)
    entered = ch.enter[ch.neighbour[switch, columns], ch.back[switch, columns]]
    pairs = np.argwhere(ch.leave[switch, columns][None, :] < entered[:, None])
    return [(first + int(columns[i]), first + int(columns[o])) for i, o in pairs]


def plan_transitions(network: Expander, switch: int, priorities: int) -> Iterator[TableEntry]:
    """The entries of `channel` that raise a packet's priority (its DSCP) by one at `transition_ports`: out of the last
    one into number `priorities`, which is not lossless. `routes.compute` makes no path that rises so far."""
    for into, out in transition_ports(network, switch):
        for v in range(priorities):
            match = {
                schema.DSCP_FIELD: v,
                schema.IN_PORT: Ternary(into, schema.PORT_MASK),
                schema.EGRESS_SPEC_FIELD: Ternary(out, schema.PORT_MASK),
            }
            action = Action.of(schema.SET_CHANNEL, dscp=v + 1, priority=v + 1)
            yield TableEntry.of(schema.CHANNEL, match, action, priority=1)


def plan_marking(switch: Switch, policy: Policy) -> Iterator[TableEntry]:
    """The same marking at every port that leads somewhere, towards hosts as well."""
    action = marking_action(policy.ecn, policy.packet_bytes)
    if action is not None:
        for port, peer in enumerate(switch.ports, start=1):
            if peer is not None:
                yield TableEntry(schema.MARKING, ((schema.EGRESS_PORT_FIELD, port),), action)


def marking_action(ecn: Ecn, packet_bytes: int) -> Action | None:
    """The P4 action of a marking rule, None for no marking. Raises `DetourError`: in whole packets, kmin is not below
    kmax."""
    match ecn:
        case NoMarking():
            return None
        case StepMarking(k):
            return Action.of(schema.STEP, k=k.packets(packet_bytes))
        case RedMarking(kmin, kmax, pmax):
            low, high = kmin.packets(packet_bytes), kmax.packets(packet_bytes)
            if low >= high:
                raise DetourError(f"ECN: kmin is {low} packets, not below kmax, {high} packets")
            width = high - low
            # The P4 program multiplies 32 bits wide: slope times width stays below 2^32 or "always" becomes "never".
            slope = min(round(pmax * 2**32 / width), (2**32 - 1) // width)
            return Action.of(schema.RED, kmin=low, kmax=high, slope=slope)


def plan_punting(policy: Policy) -> Iterator[CloneSession | MeterConfig]:
    """Plan where copies for the controller go, and how many packets it takes."""
    yield CloneSession(schema.CPU_COPY_SESSION, (Replica(CPU_PORT, 1),))
    rate, burst = policy.punt_rate, policy.punt_burst
    for reason in schema.PUNT_REASONS:
        yield MeterConfig(schema.PUNT_METER, reason, cir=rate, cburst=burst, pir=rate, pburst=burst)
