# SPDX-License-Identifier: Apache-2.0
"""Entries of qcn.p4: conditional rules, congestion points, and how switches react to notifications (Benito et al.,
section III).

Everything that tells the paper's variants apart is an action's parameter, so one compiled program is all of them.

What the control plane writes for the paper's real numbers is fixed-point, and this far off:

* Probabilities have 24 bits behind the point. A decrease is rounded down by less than 2^-24, plus what the rounding of
  L_f / n to 32 bits makes of it: less than p * n * Fb * 2^-33, below 2^-22 for 16 ports. A_i is off by at most 2^-25.
* Fb is quantised exactly: floor(63 * x / ((2w + 1) * Q_eq)) for every x up to (2w + 1) * Q_eq < 2^20 bytes, since the
  reciprocal has 40 bits and is rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from detour.base.dataplane import RECIRCULATION_PORT
from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, CloneSession, DefaultAction, Entity, Plan, Replica, TableEntry
from detour.control.planner import plan_switch
from detour.control.policy import NoMarking, Policy
from detour.control.routes.adaptive import group_links
from detour.control.routes.routing import ports_into
from detour.topo.failures import NONE
from detour.topo.topology import Switch, Topology

CONDITION = "FabricIngress.conditional.condition"
CONDITIONAL_HOST_PORTS = "FabricIngress.conditional.host_ports"
MINIMAL_RULE = "FabricIngress.conditional.minimal_rule"
CONDITIONAL_TOWARDS_GROUP = "FabricIngress.conditional.towards_group"
CONDITIONAL_DECISIONS = "FabricIngress.conditional.decisions"
PAUSED = "FabricIngress.conditional.paused"
DETOURED = "detoured"
AVOIDED = "avoided"
AVOIDED_AT = "avoided_at"
MECHANISM = "FabricIngress.reaction.mechanism"
OWN_HOSTS = "FabricIngress.reaction.host_ports"
LAST_FEEDBACK = "FabricIngress.reaction.last"
LAST_SUM = "FabricIngress.reaction.last_sum"
SENT = "FabricIngress.reaction.sent"
INPUT_POINTS = "FabricEgress.congestion.input_points"
OUTPUT_POINTS = "FabricEgress.congestion.output_points"
Q_OLD = "FabricEgress.congestion.q_old"
BUFFERED = "buffered"

CONDITIONAL_MINIMAL = "FabricIngress.conditional.minimal"
CONDITIONAL_TOWARDS = "FabricIngress.conditional.towards"
ADAPT = "FabricIngress.reaction.adapt"
BY_QUEUES = "FabricIngress.conditional.by_queues"
FIXED_WAY = "FabricIngress.conditional.fixed_way"
WAYS_ROUND = "FabricIngress.conditional.ways_round"
ANY_SWITCH = "FabricIngress.conditional.any_switch"
OWN_LINKS = "FabricIngress.conditional.own_links"
ARRIVE_AND_RISE = "FabricIngress.conditional.arrive_and_rise"
FIRST_WAY = "FabricIngress.conditional.first_way"
READ_FIRST = "FabricIngress.conditional.read_first"
SECOND_WAY = "FabricIngress.conditional.second_way"
READ_SECOND = "FabricIngress.conditional.read_second"
LINKS_OUT = (
    ("FabricIngress.arriving.links.links_out", "FabricIngress.arriving.links.links"),
    ("FabricEgress.leaving.links.links_out", "FabricEgress.leaving.links.links"),
)
NEIGHBOURS = "FabricIngress.sidestep.neighbours"
BY_NEIGHBOUR = "FabricIngress.sidestep.by_neighbour"
AVOID = "FabricIngress.reaction.avoid"
INPUT_BUFFER = "FabricEgress.congestion.input_buffer"
OUTPUT_QUEUE = "FabricEgress.congestion.output_queue"

CONDITIONS = {
    "always": "FabricIngress.conditional.always",
    "never": "FabricIngress.conditional.never",
    "unless_paused": "FabricIngress.conditional.unless_paused",
    "by_probability": "FabricIngress.conditional.by_probability",
}

# headers.p4
NOTIFICATION_BYTES = 86
NOTIFICATION_SESSION = 2


PROGRAM = "qcn"
ALL_CLASSES = 0b111
ONE = 1 << 24  # Probability 1.
LEVELS = 63  # The highest Fb that six bits hold.
SCALE_BITS = 40
DECREASE_BITS = 32
MOST_BYTES = 1 << 20
MAX_WAYS = 2048  # eleven bits of the flow label (headers.p4)
_TOLD_LINKS = 8  # of a switch to other groups, as packets tell of them

CHANNELS = 3
"""virtual channels that detours by way of a group need"""

Condition: TypeAlias = Literal["always", "never", "unless_paused", "by_probability"]


def fb_max(q_eq: int, w: int) -> int:
    """The Fb, in bytes, that becomes 63: (2w + 1) * Q_eq. Raises `DetourError`: it does not fit."""
    most = (2 * w + 1) * q_eq
    if q_eq < 1 or not 0 <= w < 16 or most >= MOST_BYTES:
        raise DetourError(
            f"congestion points: Q_eq={q_eq} bytes, w={w}: (2w + 1) * Q_eq must be 1 to {MOST_BYTES - 1} bytes"
        )
    return most


def scale(fb_max: int) -> int:
    """Return the factor that makes Fb in bytes 63 at `fb_max`, times 2^40, rounded up."""
    return -(-LEVELS * (1 << SCALE_BITS) // fb_max)


def decrease(limit: float, ports: int) -> int:
    """L_f / n, times 2^32."""
    return round(limit / ports * (1 << DECREASE_BITS))


def increase(fraction: float) -> int:
    """A_i as a probability."""
    return round(fraction * ONE)


@dataclass(frozen=True)
class CongestionPoints:
    """Congestion points (section II-D, IV-A).

    `where`: `input`, bytes that came in by a transit port and wait in the switch, which only the engine tells a
    program; `output`, an output queue's packets times `packet_bytes`, which any v1model target has. `kinds`: links
    whose ports have one. `period`: packets between samples. `wait_ticks`: waiting time from which on any packet may be
    the victim; below, with a chance in proportion. 0: any. `classes`: bit v: packets of virtual channel v may be
    victims."""

    where: Literal["input", "output"] = "input"
    kinds: tuple[str, ...] = ("local", "global")
    period: int = 100
    q_eq: int = 4_000
    w: int = 2
    wait_ticks: int = 50_000
    classes: int = ALL_CLASSES
    packet_bytes: int = 1024

    def __post_init__(self) -> None:
        if not 1 <= self.period < 1 << 16:
            raise DetourError(f"congestion points: a sample every {self.period} packets; expected 1 to {(1 << 16) - 1}")
        if not 0 <= self.wait_ticks < 1 << 32:
            raise DetourError(f"congestion points: wait_ticks={self.wait_ticks} does not fit 32 bits")
        if self.where not in ("input", "output"):
            raise DetourError(f"congestion points: where={self.where} is neither input nor output")
        fb_max(self.q_eq, self.w)

    def action(self) -> Action:
        """The P4 action that makes a port a congestion point."""
        most = fb_max(self.q_eq, self.w)
        own = {name: getattr(self, name) for name in ("period", "q_eq", "w", "wait_ticks", "classes")}
        values = {**own, "fb_max": most, "scale": scale(most)}
        if self.where == "input":
            return Action.of(INPUT_BUFFER, **values)
        return Action.of(OUTPUT_QUEUE, **values, packet_bytes=self.packet_bytes)


@dataclass(frozen=True)
class QueueRule:
    """Rule for packets by queue lengths (conditional.p4).

    The minimal way is taken if at its port no more packets wait than `2^twice` times those at the port of the way
    round, plus `t`, plus `mean` / 4 of the mean over the switch's other links to other groups. `choices`: the better
    of two random ways round. `transit`: the switch that has the link to the destination group decides once more, with
    `own_mean`. `gap`: it tells the first switch which share of such packets it had to turn, an average over 2^`smooth`
    packets, by input port not more often than every so many ticks; 0: never. That switch sends so much less the
    minimal way; it fades in 2^`fade` ticks. `shy`: a way round by a group of which the same was told counts as 2^(24 -
    `shy`) packets longer, times that share. `remote`: packets tell a group's switches which links of theirs have so
    many packets more than twice their switch's mean; such a minimal way is not taken; 0: they tell nothing.
    `own_links`: ways round begin there (`first`), or a switch by which one leaves the group may take another.
    `sidestep`: what comes in from another group may take two local links instead of one, at which more than so many
    packets wait, and four times those at the other; 0: never."""

    t: int = 10
    twice: int = 1
    mean: int = 0
    choices: bool = False
    transit: bool = False
    own_mean: int = 0
    gap: int = 0
    fade: int = 15
    shy: int = 31
    smooth: int = 4
    remote: int = 0
    own_links: Literal["", "first", "last"] = ""
    sidestep: int = 0

    def __post_init__(self) -> None:
        limits = {"gap": 1 << 32, "smooth": 25, "fade": 32, "shy": 32}
        limits |= dict.fromkeys(("t", "remote", "sidestep"), 1 << 16) | dict.fromkeys(("twice", "mean", "own_mean"), 16)
        for name, limit in limits.items():
            if not 0 <= getattr(self, name) < limit:
                raise DetourError(f"by queues: {name}={getattr(self, name)} is not 0 to {limit - 1}")

    def action(self, links: int = 0) -> Action:
        """The P4 action of a switch with so many links to other groups."""
        names = ("t", "twice", "mean", "own_mean", "gap", "fade", "shy", "smooth")
        values = {name: getattr(self, name) for name in names}
        links = links if self.mean or self.own_mean else 0
        flags = {name: int(bool(getattr(self, name))) for name in ("choices", "transit", "remote")}
        return Action.of(BY_QUEUES, **values, **flags, links=links)


@dataclass(frozen=True)
class Mechanism:
    """The condition for minimal rules, and the effect of notifications (section III).

    `source`: messages of the switch's own congestion points count as well, for the port that the victim left by;
    `alone`: they are not compared, and count if the victim is for another group.
    `versus`: Fb is compared with so many times the mean over the transit ports; 0: not compared. `fraction` above 0
    sets `versus` by the number of ports: a port's Fb must be more than that fraction of the sum over all ports.
    `limit` is L_f, `increase` A_i as a fraction, `quiet` PC_l in packets. `smooth`: Fb is a moving average in which a
    message has the weight 2^-smooth. `steady`: every PC_l packets raise the probability, and nothing else does;
    otherwise PC_l packets without a message, and messages below what they are compared with. `fade`: every PC_l packets
    take 2^-fade off a port's Fb (0: nothing). `gentle`: a probability p rises by A_i * (p + (1 - p) * 2^-gentle), 0: by
    A_i. `classes`: bit v: messages about victims of virtual channel v count. `queues`: takes the place of
    `condition`. `by`: what a packet that is sent round goes by, a random `group` other than source and destination, any
    random `switch`, or for every `host` the group behind a link of its own switch. `oldest_first`: queues go by how
    long packets have waited so far (ranking.p4)."""

    name: str
    condition: Condition = "by_probability"
    source: Literal["", "as others", "alone"] = ""
    versus: int = 0
    fraction: float = 0.0
    limit: float = 1 / 128
    increase: float = 0.01
    quiet: int = 100
    steady: bool = False
    smooth: int = 0
    fade: int = 0
    gentle: int = 0
    classes: int = ALL_CLASSES
    points: CongestionPoints = field(default_factory=CongestionPoints)
    queues: QueueRule | None = None
    by: Literal["group", "switch", "host"] = "group"
    oldest_first: bool = False

    @property
    def adapts(self) -> bool:
        """Return whether messages move probabilities of ports (section III)."""
        return self.queues is None and self.condition == "by_probability"

    @property
    def channels(self) -> int:
        """Virtual channels: a second local link in a group takes one more."""
        return CHANNELS + (self.turns or self.by == "switch")

    @property
    def turns(self) -> bool:
        """Return whether packets may be turned in transit."""
        return self.queues is not None and self.queues.transit

    def __post_init__(self) -> None:
        if not 0 <= self.limit * 63 <= 1:
            raise DetourError(
                f"{self.name}: L_f is {self.limit:g}; R = 1 - L_f * Fb must stay within 0 and 1 up to Fb = 63"
            )
        if not 0 <= self.increase <= 1:
            raise DetourError(f"{self.name}: A_i is {self.increase:g}, not a fraction")
        if not 0 <= self.versus <= 16:
            raise DetourError(f"{self.name}: Fb is compared with {self.versus} times the mean; expected 0 to 16")
        if not 0 <= self.fraction <= 1:
            raise DetourError(f"{self.name}: fraction={self.fraction:g} is not 0 to 1")
        if not (0 <= self.smooth <= 8 and 0 <= self.fade <= 8):
            raise DetourError(f"{self.name}: smooth={self.smooth}, fade={self.fade}: weights are 2^-8 to 1")
        if not 0 <= self.gentle <= 8:
            raise DetourError(f"{self.name}: gentle={self.gentle}: expected 0 to 8")
        if not 1 <= self.quiet < 1 << 32:
            raise DetourError(f"{self.name}: PC_l is {self.quiet} packets")

    def rule(self, links: int = 0) -> Action:
        """The P4 action of table `condition` of a switch with so many links to other groups."""
        if self.queues is not None:
            return self.queues.action(links)
        return Action(CONDITIONS[self.condition])

    def adapt(self, ports: int) -> Action:
        """The P4 action of a switch with that many transit ports."""
        versus = max(2, round(self.fraction * ports)) if self.fraction else self.versus
        compared = ports if versus else 1
        return Action.of(
            ADAPT, source=("", "as others", "alone").index(self.source), ports=compared, versus=versus,
            smooth=self.smooth, decrease=decrease(self.limit, compared), increase=increase(self.increase),
            quiet=self.quiet, steady=int(self.steady), fade=self.fade, classes=self.classes, gentle=self.gentle,
        )  # fmt: skip


CONDITIONAL_OPENFLOW = Mechanism("Conditional-OpenFlow", condition="unless_paused")
VAL_BY_SWITCH = Mechanism("VAL", condition="never", by="switch")
VAL_BY_HOST = Mechanism("VAL-host", condition="never", by="host")
UGAL_BY_PORTS = Mechanism("UGAL-L", queues=QueueRule())
PAR = Mechanism("PAR", queues=QueueRule(transit=True))
PIGGYBACK = Mechanism("Piggyback", queues=QueueRule(remote=5))
OLM = Mechanism("OLM-like", queues=QueueRule(t=2, transit=True, own_links="first"))
QCN_FAST = Mechanism(
    "QCN-Switch-fast",
    queues=QueueRule(t=15, twice=4, mean=8, choices=True, transit=True, gap=5000, shy=18, own_links="last", sidestep=2),
    oldest_first=True,
)
QCN_BASE = Mechanism("QCN-Switch-base")
QCN_SOURCE = Mechanism("QCN-Switch-source", source="as others")
QCN_COMPARISON = Mechanism("QCN-Switch-comparison", versus=1)
QCN_FOGSIM = Mechanism("QCN-Switch-FOGSim", source="alone", versus=1, by="host")
QCN_COMPLETE = Mechanism(
    "QCN-Switch-complete", source="as others", fraction=1 / 2, smooth=2, fade=1, gentle=3, steady=True, classes=1,
    points=CongestionPoints(period=16, classes=1),
)  # fmt: skip

MECHANISMS = {
    m.name: m
    for m in (
        *(VAL_BY_SWITCH, VAL_BY_HOST, UGAL_BY_PORTS, PAR, PIGGYBACK, OLM),
        *(CONDITIONAL_OPENFLOW, QCN_BASE, QCN_SOURCE, QCN_COMPARISON, QCN_FOGSIM, QCN_COMPLETE, QCN_FAST),
    )
}


def plan_qcn(topology: Topology, mechanism: Mechanism) -> Plan:
    """Entities of every switch of a Dragonfly with one link between any two groups, by device id. Raises `DetourError`:
    the topology is another one."""
    if topology.family != "dragonfly" or topology.valiant_groups < 3:
        raise DetourError(f"QCN-Switch needs a Dragonfly of at least three groups, not {topology.spec}")
    most = len(topology.switches) if mechanism.by == "switch" else topology.valiant_groups
    if most >= MAX_WAYS:
        raise DetourError(f"qcn.p4 supports fewer than {MAX_WAYS} detours; {topology.spec} has {most}")
    for group in range(topology.valiant_groups):
        group_links(topology, group)
    return {switch.device_id: list(_plan_switch(topology, mechanism, switch)) for switch in topology.switches}


def _plan_switch(topology: Topology, mechanism: Mechanism, switch: Switch) -> Iterator[Entity]:
    # Everything that has nothing to do with ways to other groups is as in fabric.p4 without detours.
    for entity in plan_switch(
        topology, Policy(valiant=False, channels=mechanism.channels, ecn=NoMarking()), NONE, switch
    ):
        if not (isinstance(entity, DefaultAction) and entity.table == schema.NODE_CONFIG):
            yield entity
    groups = topology.valiant_groups
    node = Action.of(schema.SET_NODE, node_id=switch.node_id, group=switch.group, groups=groups)
    yield DefaultAction(schema.NODE_CONFIG, node)
    links = [port for port, peer in enumerate(switch.ports, start=1) if peer is not None and peer.kind == "global"]
    yield DefaultAction(CONDITION, mechanism.rule(len(links)))
    if mechanism.oldest_first:
        yield DefaultAction(schema.ORDER, Action(schema.OLDEST_FIRST))
    rule = mechanism.queues
    if rule is not None and (rule.mean or rule.own_mean or rule.remote):
        if rule.remote and len(links) > _TOLD_LINKS:
            raise DetourError(f"{mechanism.name}: packets tell of {_TOLD_LINKS} links of a switch, not {len(links)}")
        for table, action in LINKS_OUT:
            values = {"first_port": links[0], "last_port": links[-1], "remote": rule.remote}
            yield DefaultAction(table, Action.of(action, **values))
    near = [topology.switches[peer.index].group for peer in switch.ports if peer is not None and peer.kind == "global"]
    for host in topology.hosts_of[switch.index]:
        action = Action(schema.NO_ACTION)
        if mechanism.by == "host":
            action = Action.of(FIXED_WAY, via=near[host.position % len(near)])
        yield TableEntry(CONDITIONAL_HOST_PORTS, ((schema.IN_PORT, host.port),), action)
    for group, (_, end) in group_links(topology, switch.group).items():
        port = _port_into(topology, switch, group)
        minimal = Action.of(CONDITIONAL_MINIMAL, port=port, own=int(port in links), link=end - links[0])
        yield TableEntry(MINIMAL_RULE, ((schema.DESTINATION_GROUP, group),), minimal)
    yield from _ways_round(topology, mechanism, switch, links)
    if rule is not None and rule.own_links:
        first, count = _range_of(near, switch.group, groups)
        own = Action.of(OWN_LINKS, first_group=first, count=count, at_first=int(rule.own_links == "first"))
        yield DefaultAction(WAYS_ROUND, own)
    if rule is not None and rule.sidestep:
        yield from _sidesteps(topology, rule.sidestep, switch, links)
    if mechanism.adapts:
        yield from _notifications(topology, mechanism, switch)
    elif mechanism.queues is not None and mechanism.queues.gap:
        yield DefaultAction(MECHANISM, Action.of(AVOID, fade=mechanism.queues.fade))
        yield from _own_hosts(topology, switch)
        yield CloneSession(NOTIFICATION_SESSION, (Replica(RECIRCULATION_PORT, 1),))


def _port_into(topology: Topology, switch: Switch, group: int) -> int:
    (port,) = ports_into(topology, NONE, switch.index, group)
    return port


def _range_of(near: list[int], own: int, groups: int) -> tuple[int, int]:
    """First and number of the groups that links lead to; between them may be one's own. Raises `DetourError`: others
    are between them."""
    first = min(near, key=lambda start: max((group - start) % groups for group in near))
    count = 1 + max((group - first) % groups for group in near)
    if {(first + k) % groups for k in range(count)} - {own} != set(near):
        raise DetourError(f"own_links: the groups {near} behind the links of a switch of group {own} are no range")
    return first, count


def _ways_round(topology: Topology, mechanism: Mechanism, switch: Switch, links: list[int]) -> Iterator[Entity]:
    """By intermediate group or switch: the port that leads there."""
    groups = [group for group in range(topology.valiant_groups) if group != switch.group]
    into = {group: _port_into(topology, switch, group) for group in groups}
    if mechanism.by == "switch":
        count = len(topology.switches)
        yield DefaultAction(WAYS_ROUND, Action.of(ANY_SWITCH, switches=count))
        yield DefaultAction(CONDITIONAL_TOWARDS_GROUP, Action(ARRIVE_AND_RISE))
        peers = enumerate(switch.ports, start=1)
        beside = {peer.index: port for port, peer in peers if peer is not None and peer.kind == "local"}
        others = [other for other in topology.switches if other is not switch]
        ports = {other.node_id: into.get(other.group) or beside[other.index] for other in others}
    else:
        ports = into
    for via, port in ports.items():
        yield TableEntry(CONDITIONAL_TOWARDS_GROUP, ((schema.VIA, via),), Action.of(CONDITIONAL_TOWARDS, port=port))
        if mechanism.queues is not None:
            own = int(port in links)
            yield TableEntry(FIRST_WAY, ((schema.VIA, via),), Action.of(READ_FIRST, port=port, own=own))
            yield TableEntry(SECOND_WAY, (("via", via),), Action.of(READ_SECOND, port=port))


def _sidesteps(topology: Topology, t: int, switch: Switch, links: list[int]) -> Iterator[Entity]:
    """By which neighbours what comes in by links from other groups may reach another switch of this group."""
    peers = enumerate(switch.ports, start=1)
    ports = {topology.switches[peer.index].position: port for port, peer in peers if peer and peer.kind == "local"}
    for to, straight in ports.items():
        by = [ports[k] for k in ports if k != to and _class(switch.position, k) <= _class(k, to)]
        if by:
            first, second, third = (by * 3)[:3]
            action = Action.of(BY_NEIGHBOUR, first=first, second=second, third=third, t=t)
            for port in links:
                yield TableEntry(NEIGHBOURS, ((schema.IN_PORT, port), (schema.EGRESS_SPEC_FIELD, straight)), action)


def _class(here: int, there: int) -> tuple[bool, bool]:
    """Return the class of a local link, by parity and sign. All links of a class lead up or all lead down, so that
    packets which change only to higher classes wait for no cycle, and any two of `a` switches have a / 2 - 1 others
    between them (Garcia et al., ICPP 2013)."""
    odd, up = (here + there) % 2 == 1, there > here
    return odd, up != odd


def _notifications(topology: Topology, mechanism: Mechanism, switch: Switch) -> Iterator[Entity]:
    transit = [peer is not None and peer.kind != "host" for peer in switch.ports]
    yield DefaultAction(MECHANISM, mechanism.adapt(sum(transit)))
    yield from _own_hosts(topology, switch)
    tables = {"input": (INPUT_POINTS, schema.IN_PORT), "output": (OUTPUT_POINTS, schema.EGRESS_PORT_FIELD)}
    table, key = tables[mechanism.points.where]
    for port, peer in enumerate(switch.ports, start=1):
        if peer is not None and peer.kind in mechanism.points.kinds:
            yield TableEntry(table, ((key, port),), mechanism.points.action())
    yield CloneSession(NOTIFICATION_SESSION, (Replica(RECIRCULATION_PORT, 1),))


def _own_hosts(topology: Topology, switch: Switch) -> Iterator[Entity]:
    for host in topology.hosts_of[switch.index]:
        yield TableEntry(OWN_HOSTS, ((schema.EGRESS_SPEC_FIELD, host.port),), Action(schema.NO_ACTION))
