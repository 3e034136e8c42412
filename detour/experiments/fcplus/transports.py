# SPDX-License-Identifier: Apache-2.0
"""FC+'s routes beside ECMP, KSP, shortest-union, UGAL and SprayLERP under real transports, in virtual time.

One wiring for all, FC+'s, with servers at 25 Gb/s; the same messages at the same times. What a routing is:

* FC+ 1L, 2L: DF-KSP with one and two lossless priorities; KSP: the K shortest paths, in one. A message draws one of
  its pair's paths in the proportions of the multi-commodity flow.
* shortest-union (Harsh, Abdu Jyothi and Godfrey, "Spineless Data Centers", HotNets 2020): all shortest paths and all of
  two links, of which a message draws one like any other.
* ECMP: switches choose among the shortest paths by a hash of the message's source port.
* UGAL-L (Singh, 2005), message by message: when it comes, it takes a shortest path, or the way over a random switch if
  the queue at its first link times its links is less (Valiant's; at most five links, as uSIDs allow).
* UGAL-L per packet: the same decided by the first switch for every packet (ugal_graph.p4), by any random switch.
* SprayLERP (`hosts.paths.spray`), packet by packet: each takes one of FC+ 2L's lists.

Lossless: RoCEv2 (go-back-N) with PFC in the routing's priorities; ECMP, KSP, shortest-union and the UGALs have one and
may deadlock, which is watched. SprayLERP is LERP there as well, as go-back-N wants packets in order; for UGAL-L per
packet the receiver puts them in order before go-back-N sees them. Lossy: LERP, no PFC;
nothing can deadlock. Shallow: the same with `SHALLOW` packet memory. Control and marks are the point's `setting`;
without one, DCQCN with the packet level's marks, and DCTCP with the paper's losses. To add a transport is an entry of
`TRANSPORTS` and its name in `experiment.TRANSPORT_NAMES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from detour.base.dataplane import PACKET_BYTES
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control import schema
from detour.control.expander import throughput
from detour.control.expander.demand import Demand, demand_of, hop_distances
from detour.control.expander.families import weighted_routes
from detour.control.expander.routes import ExpanderRoutes, PathPolicy, compute
from detour.experiments.fcplus.deadlock import SHALLOW
from detour.experiments.fcplus.packets import (
    DRAIN_TIMES,
    FCPLUS_MAX_HOPS,
    GAP,
    HOSTS,
    POLL_PS,
    RATE_BPS,
    WINDOW,
    choose_paths,
)
from detour.experiments.fcplus.results import TransportPoint, TransportSetting, answered
from detour.experiments.messages import MessageArrivals, draw, measure
from detour.experiments.running import received
from detour.experiments.steady import judge
from detour.fabric.backends.virtual import scheme as schemes
from detour.fabric.traffic.expander import ExpanderFabric, lists_of, pair_paths, path_sets, scheme_of
from detour.hosts.addresses import to_words
from detour.hosts.verbs.bulk import PathSets
from detour.topo import expander
from detour.topo.address import usid_address
from detour.topo.expander import Expander
from detour.topo.paths import path_usids

LOSSLESS_PRIORITIES = {
    "FC+ 1L": 1, "FC+ 2L": 2, "ECMP": 0, "KSP": 0, "shortest-union": 0, "UGAL-L": 0,
    "UGAL-L per packet": 0, "SprayLERP": 2,
}  # fmt: skip
"""0: one, with no regard to deadlock"""
SPRAYING = "SprayLERP"
BY_SWITCHES = "UGAL-L per packet"
_PATHS_ALIKE = {"shortest-union": "shortest-union", "UGAL-L": "shortest"}
"""families of paths of which a message draws one like any other; UGAL-L's are its first choice"""
DETOUR_TRIES = 20
"""random switches that UGAL tries for a message, as not every way over one fits into a uSID list"""
MOST_LINKS = 2 * schema.MAX_LINKS
"""of a way that switches choose"""
RATE_INTERVALS = 100
"""in which what arrives is counted, of the time in which messages do"""
QUIET_PS = 1000 * US
"""for which a path of SprayLERP may be silent under PFC: a packet that waits for higher priorities, or is paused, is
not lost"""
_SPRAY = TransportSetting("dctcp", (80_000,), shortest_first=True)


def _lossless(routing: str, setting: TransportSetting | None) -> schemes.Scheme:
    priorities = LOSSLESS_PRIORITIES[routing]
    if routing == SPRAYING:
        like = scheme_of(routing, priorities, hosts=(*schemes.SPRAY_LERP.hosts, ("min_silence_ps", QUIET_PS)))
        return replace(like, transport="lerp", control="dctcp", ecn=(setting or _SPRAY).ecn)
    if setting is None:
        return scheme_of(routing, priorities, hosts=tuple(HOSTS.items()))
    least = {"dcqcn_min_bps": setting.least_mbps * 1_000_000} if setting.least_mbps else {}
    scheme = scheme_of(routing, priorities, setting.ecn, tuple((HOSTS | least).items()))
    return replace(scheme, control=setting.control)


def _lossy(routing: str, setting: TransportSetting | None) -> schemes.Scheme:
    if routing == SPRAYING:
        setting = setting or _SPRAY
    hosts = schemes.SPRAY_LERP.hosts if setting else ()
    return schemes.Scheme(
        routing, "lerp", "dctcp", "pinned", setting.ecn if setting else schemes.STEP_MARKING, hosts=hosts
    )


class Carrier(NamedTuple):
    """A transport: what a routing's hosts and switches do, by its setting, and the memory of switches."""

    scheme: Callable[[str, TransportSetting | None], schemes.Scheme]
    memory: schemes.SwitchMemory = schemes.SwitchMemory()


TRANSPORTS = {"lossless": Carrier(_lossless), "lossy": Carrier(_lossy), "shallow": Carrier(_lossy, SHALLOW)}


class Ways(NamedTuple):
    """The paths of messages: `lists` (n, 2), 0 for by address; `links` (n,) between switches; and the same for UGAL's
    second choice, with the first `port` of (n, 2) ways."""

    lists: NDArray[np.int64]
    links: NDArray[np.int64]
    other: NDArray[np.int64] | None = None
    other_links: NDArray[np.int64] | None = None
    ports: NDArray[np.int64] | None = None
    """(n, 2) (device id, port) as device * 1024 + port: of the first links of both ways"""


class Fed(NamedTuple):
    """Messages that have arrived: `links` (n,) of the ways that were taken, how many are detours of UGAL's, and the
    bytes that had arrived when each of `RATE_INTERVALS` was over."""

    links: NDArray[np.int64]
    detours: int
    arrived: list[int]


def run(point: TransportPoint) -> TransportPoint:
    """Messages of one pattern by one routing over one transport."""
    network = expander.fcplus(point.n, point.s, hosts=point.hosts, seed=point.seed)
    demand = demand_of(point.pattern, network, point.seed)
    messages = draw(network, demand, point.load, RATE_BPS, point.us * US, "equal", point.seed)
    pairs = messages.pairs
    setting = point.setting if isinstance(point.setting, TransportSetting) else None
    carrier = TRANSPORTS[point.transport]
    settings = schemes.RunSettings(
        schemes.LinkSettings(rate_bps=RATE_BPS), carrier.memory, window=WINDOW, seed=point.seed
    )
    scheme = carrier.scheme(point.routing, setting)
    if point.routing == BY_SWITCHES:
        # They have a program for it, and go-back-N a receiver that reorders.
        threshold = round((setting.bias_bytes if setting else 0) / PACKET_BYTES)
        reorder = scheme.transport == "gbn"
        scheme = replace(scheme, paths="shortest", routing=f"ugal-graph:threshold={threshold}", reorder=reorder)
    with ExpanderFabric(network, scheme, settings, queue_pairs=len(pairs)) as fabric:
        if point.routing == SPRAYING:
            sets, links = _sprays(point, network, demand)
            fabric.connect(pairs)
            fabric.give_sets(np.arange(len(pairs)), np.array(pairs, np.int64), messages.pair, sets, "spray")
            fed = _feed(fabric, messages, point.us * US)
        else:
            ways = _ways(point, network, demand, messages, pairs)
            fabric.connect_routed(pairs, ways.lists)
            fed = _feed(fabric, messages, point.us * US, ways, setting.bias_bytes if setting else 0)
        while fabric.unfinished() and not fabric.deadlock() and fabric.now_ps < (1 + DRAIN_TIMES) * point.us * US:
            fabric.run(fabric.now_ps + POLL_PS)
        if point.routing == BY_SWITCHES:
            return _result(point, fabric, messages, *_chosen_by_switches(fabric, fed))
        if point.routing == SPRAYING:
            links = links[messages.pair]
            weights = fabric.hs.candidate["packets"][fabric.flows.sender, : links.shape[1]]
        else:
            links, weights = fed.links, messages.size
        return _result(point, fabric, messages, fed, float(np.average(links, weights=weights)))


def _sprays(point: TransportPoint, network: Expander, demand: Demand) -> tuple[PathSets, NDArray[np.int64]]:
    """FC+ 2L's lists of every pair, the shortest first, and their links (pairs, lists); which of them count as shortest
    says the setting."""
    policy = PathPolicy(point.k, LOSSLESS_PRIORITIES[SPRAYING], max_hops=FCPLUS_MAX_HOPS)
    routes = compute(network, policy, demand.pairs)
    paths = pair_paths(routes)
    by_length = point.setting.shortest_first if isinstance(point.setting, TransportSetting) else True
    return path_sets(routes, paths, shortest_first=by_length), paths.links


def _chosen_by_switches(fabric: ExpanderFabric, fed: Fed) -> tuple[Fed, float]:
    """Return the arrivals with the packets that took a detour, and the mean number of links of a packet."""
    states = fabric.states.values()
    detours = sum(int(state.counters[schema.DECISIONS].read(1)[0]) for state in states)
    taken = [sum(int(state.counters[schema.LINKS_TAKEN].read(n)[0]) for state in states) for n in range(MOST_LINKS + 1)]
    return fed._replace(detours=detours), float(np.average(np.arange(MOST_LINKS + 1), weights=taken))


def _ways(
    point: TransportPoint, network: Expander, demand: Demand, messages: MessageArrivals, pairs: list[tuple[int, int]]
) -> Ways:
    far = hop_distances(network)[demand.pairs[:, 0], demand.pairs[:, 1]].astype(np.int64)
    if point.routing == "ECMP":
        return Ways(np.zeros((len(pairs), 2), np.int64), far[messages.pair])
    if point.routing == BY_SWITCHES:
        # Lists name the last switch and the host, and leave the path to the switches.
        topology = network.topology
        targets = [topology.hosts[target] for _, target in pairs]
        lists = [to_words(usid_address((topology.switches[one.switch].node_id, one.node_id))) for one in targets]
        return Ways(np.array(lists, np.int64), far[messages.pair])
    routes, fractions = _routes(point, network, demand)
    rows = choose_paths(routes, fractions, messages)
    lists, links = lists_of(routes, pairs, rows.tolist()), routes.length[rows].astype(np.int64)
    ways = Ways(lists, links)
    return _with_detours(point, routes, rows, messages, ways) if point.routing == "UGAL-L" else ways


def _routes(point: TransportPoint, network: Expander, demand: Demand) -> tuple[ExpanderRoutes, NDArray[np.float64]]:
    """The paths of the pairs that send, and how a pair's messages are split among them."""
    if point.routing in ("FC+ 1L", "FC+ 2L", "KSP"):
        policy = PathPolicy(point.k, LOSSLESS_PRIORITIES[point.routing], max_hops=FCPLUS_MAX_HOPS)
        routes = compute(network, policy, demand.pairs)
        return routes, throughput.fractions(routes, demand, GAP)
    if point.routing not in _PATHS_ALIKE:
        raise DetourError(f"routing {point.routing!r}; there are {', '.join(LOSSLESS_PRIORITIES)}")
    return weighted_routes(_PATHS_ALIKE[point.routing], network, demand.pairs)


def _with_detours(
    point: TransportPoint, routes: ExpanderRoutes, rows: NDArray[np.int64], messages: MessageArrivals, ways: Ways
) -> Ways:
    """UGAL's second choice for every message: by a shortest path to a random switch and by one on from there. A message
    for which none is found that visits no switch twice has its first choice again."""
    rng, topology = np.random.default_rng([point.seed, 0x06A1]), routes.network.topology
    # [x][y]: neighbours of x that are nearer to y.
    distance, n = hop_distances(routes.network), routes.network.size
    near = [[int(z) for z in row if z >= 0] for row in routes.network.channels.neighbour]
    onward = [[[z for z in near[x] if distance[z, y] < distance[x, y]] for y in range(n)] for x in range(n)]
    lists, links, ports = ways.lists.copy(), ways.links.copy(), np.zeros((rows.size, 2), np.int64)
    for k, row in enumerate(rows.tolist()):
        host = topology.hosts[int(messages.target[k])]
        source = topology.hosts[int(messages.source[k])].switch
        first = second = tuple(routes.path(row, source)[0])
        for _ in range(DETOUR_TRIES):
            middle = int(rng.integers(routes.network.size))
            way = (*_walk(onward, source, middle, rng), *_walk(onward, middle, host.switch, rng)[1:])
            if len(set(way)) == len(way) <= FCPLUS_MAX_HOPS + 1 and middle not in (source, host.switch):
                second = way
                break
        usids = path_usids(topology, second, host)[:-1]
        lists[k], links[k] = to_words(usid_address((*usids, host.node_id))), len(second) - 1
        ports[k] = [_port(routes.network, way[0], way[1]) for way in (first, second)]
    return ways._replace(other=lists, other_links=links, ports=ports)


def _walk(onward: list[list[list[int]]], source: int, target: int, rng: np.random.Generator) -> list[int]:
    path = [source]
    while path[-1] != target:
        choices = onward[path[-1]][target]
        path.append(choices[int(rng.integers(len(choices)))])
    return path


def _port(network: Expander, a: int, b: int) -> int:
    """Return the port of a towards b, as device * 1024 + port."""
    column = int(np.flatnonzero(network.channels.neighbour[a] == b)[0])
    return (a + 1) * 1024 + int(network.hosts[a]) + 1 + column


def _feed(
    fabric: ExpanderFabric, messages: MessageArrivals, until_ps: int, ways: Ways | None = None, bias: int = 0
) -> Fed:
    """Let every message arrive at its time, and where there is a second way, take the one whose queue (with `bias` of
    the second) times links is less."""
    lists, links = (ways.lists.copy(), ways.links.copy()) if ways else (np.zeros((0, 2), np.int64),) * 2
    arrived, detours = [], 0
    some_of = dict(messages.by_time())
    ends = {until_ps * (i + 1) // RATE_INTERVALS for i in range(RATE_INTERVALS)}
    for tick in sorted(ends | some_of.keys()):
        fabric.run(tick)
        if tick in ends:
            arrived.append(received(fabric))
        some = some_of.get(tick)
        if some is None:
            continue
        if ways is not None and ways.other is not None and ways.other_links is not None and ways.ports is not None:
            stats = fabric.network.port_stats()
            keys = stats["device_id"].astype(np.int64) * 1024 + stats["port"]
            order = np.argsort(keys)
            waits = stats["queue_bytes"][order[np.searchsorted(keys, ways.ports[some], sorter=order)]].astype(np.int64)
            moved = some[(waits[:, 1] + bias) * ways.other_links[some] < waits[:, 0] * ways.links[some]]
            detours += moved.size
            if moved.size:
                lists[moved], links[moved] = ways.other[moved], ways.other_links[moved]
                fabric.lead(lists)
        fabric.send(messages.size[some], some)
    return Fed(links, detours, arrived)


def _result(
    point: TransportPoint, fabric: ExpanderFabric, messages: MessageArrivals, fed: Fed, hops: float
) -> TransportPoint:
    per_gbps = point.us * US / 8e3
    rates = np.diff([0, *fed.arrived]) * RATE_INTERVALS / per_gbps
    settled = judge(rates.tolist())
    return answered(
        point,
        **measure(fabric, messages)[1],
        offered_gbps=round(float(messages.size.sum()) / per_gbps, 1),
        goodput_gbps=round(fed.arrived[-1] / per_gbps, 1),
        mean_hops=round(hops, 3),
        deadlock=bool(fabric.deadlock()),
        detours=fed.detours,
        settled_gbps=round(settled.mean, 1),
        steady=settled.steady,
    )
