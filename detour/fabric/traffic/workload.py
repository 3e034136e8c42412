# SPDX-License-Identifier: Apache-2.0
"""Traffic patterns of the non-shortest-path paper (section IV), and what a fabric carries of them over verbs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from detour.base import plugins
from detour.base.errors import DetourError
from detour.fabric.backends.clock import PS, ps
from detour.fabric.traffic.flows import Choice, Flow, PatternSink, PatternSource, Pump
from detour.hosts.verbs import Path
from detour.topo import Topology
from detour.topo.spec import check_keys, split_spec, whole_number
from detour.topo.topology import HostPair

_Counts: TypeAlias = tuple[float, int, int, int]
"""time in seconds, payload bytes that have arrived, sum of delay samples in ticks, their number"""

Pattern: TypeAlias = Callable[[Topology, random.Random], list[HostPair]]
"""Pairs of source and destination host; what is random comes from the second argument. One's own is found by entry
point (group `detour.patterns`) or as `FILE.py:NAME` (`base.plugins`)."""


def _between_groups(name: str) -> Pattern:
    """`adv1` all traffic from one group to one other, `adv2` from all groups to one, `unf` any to any outside its
    group."""

    def pairs(topology: Topology, rng: random.Random) -> list[HostPair]:
        groups = sorted({host.group for host in topology.hosts})
        if len(groups) < 2:
            raise DetourError(f"pattern {name} needs two groups of hosts; {topology.spec} has one")
        to = rng.choice(groups)
        sources = rng.choice([group for group in groups if group != to])
        return [
            (a.index, b.index)
            for a, b in product(topology.hosts, topology.hosts)
            if a.group != b.group
            and (name == "unf" or b.group == to)
            and (name != "adv1" or a.group == sources)
        ]  # fmt: skip

    return pairs


def _adopt(name: str, value: Any) -> Pattern:
    function = plugins.function_of(value, "topology and generator")

    def pairs(topology: Topology, rng: random.Random) -> list[HostPair]:
        hosts = len(topology.hosts)
        with plugins.blaming(name):
            chosen = [(int(a), int(b)) for a, b in function(topology, rng)]
            wrong = next((p for p in chosen if p[0] == p[1] or not all(0 <= host < hosts for host in p)), None)
            if wrong is not None:
                raise DetourError(f"{wrong} is not a pair of the {hosts} hosts of {topology.spec}")
            return chosen

    return pairs


def _permutation(topology: Topology, rng: random.Random) -> list[HostPair]:
    """Every host sends to one, and receives from one."""
    hosts = len(topology.hosts)
    order = rng.sample(range(hosts), hosts)
    return list(zip(order, order[1:] + order[:1], strict=True))


PATTERN_REGISTRY: plugins.Registry[Pattern] = plugins.Registry(
    "patterns",
    "traffic pattern",
    {**{name: _between_groups(name) for name in ("adv1", "adv2", "unf")}, "permutation": _permutation},
    _adopt,
)


def pairs_of(topology: Topology, pattern: str, seed: int = 0, count: int | None = None) -> list[HostPair]:
    """Pairs of hosts of a pattern (`PATTERN_REGISTRY`). `count`: that many of them, drawn without repetition (default:
    all). Raises DetourError: there is no such pattern, not so many pairs, or only one group."""
    rng = random.Random(f"{pattern} {seed}")
    pairs = PATTERN_REGISTRY.find(pattern)(topology, rng)
    if count is None:
        return pairs
    if not 0 < count <= len(pairs):
        raise DetourError(f"pattern {pattern} has 1 to {len(pairs)} pairs in {topology.spec}, not {count}")
    return rng.sample(pairs, count)


def load_pairs(topology: Topology, text: str, seed: int) -> list[HostPair]:
    """Pairs of a pattern with parameters, `adv1`, `unf:pairs=100` or `permutation:seed=3`. `pairs`: drawn from those of
    the pattern, as many as there are hosts if nothing is said; of a permutation the first ones. Raises DetourError: no
    such pattern or parameter, or more pairs than there are."""
    name, values = split_spec(text)
    check_keys(text, values, (), ("pairs", "seed"))
    numbers = {key: whole_number(text, key, value) for key, value in values.items()}
    seed = numbers.get("seed", seed)
    there = pairs_of(topology, name, seed)
    count = numbers.get("pairs", min(len(topology.hosts), len(there)))
    drawn = pairs_of(topology, name, seed, count)
    return there[:count] if name == "permutation" else drawn


@dataclass(frozen=True)
class WorkloadResult:
    """The result of a workload. `throughput_mbps`: payload that arrived for the first time, in the measured window."""

    throughput_mbps: float
    bytes_sent: int
    bytes_ok: int
    pairs: int
    pairs_ok: int
    paths: tuple[tuple[int, int, Path], ...]
    """source host, destination host and path of every connection at the end of the window"""
    reroutes: int
    retransmitted: int
    ecn_marked: int
    delay_ms: float | None
    """mean queuing delay of data packets in the window"""


class Workload:
    """Streams between pairs of hosts, all at once. `run` it once."""

    def __init__(
        self,
        pump: Pump,
        pairs: Sequence[HostPair],
        choose: Callable[[int, int], Choice],
        *,
        seed: int,
        message_bytes: int,
    ) -> None:
        """`choose(source, target)`: how that flow finds its path. Throughput is measured by the fabric's clock: on a
        machine that is too slow it falls behind the wall clock, and so do the links."""
        self._pump = pump
        self._clock = pump.clock
        self.flows: list[Flow] = []
        try:
            for i, (a, b) in enumerate(pairs):
                stream = PatternSource(seed + i), PatternSink(seed + i)
                self.flows.append(pump.open(a, b, choose(a, b), stream, slot_bytes=message_bytes))
        except BaseException:
            self.close()
            raise

    def run(self, warm_up: float, seconds: float, progress: Callable[[float], None] = lambda _: None) -> WorkloadResult:
        """Let traffic converge for `warm_up`, measure for `seconds`, then wait for what is under way. `progress` is
        called with the fraction of the time that has passed. Raises DetourError: a connection fails or does not
        finish."""
        begin, total_ps = self._clock.now_ps, ps(warm_up + seconds)

        def failed() -> bool:
            progress(min((self._clock.now_ps - begin) / total_ps, 1.0))
            return any(flow.failure for flow in self.flows)

        self._pump.run(self.flows, failed, warm_up)
        before = self._snapshot()
        self._pump.run(self.flows, failed, seconds)
        after = self._snapshot()
        paths = tuple((flow.source_host, flow.target_host, flow.current_path) for flow in self.flows)
        self._pump.drain(self.flows, 30.0 + 10 * seconds)
        for flow in self.flows:
            if flow.failure:
                raise DetourError(f"connection {' to '.join(flow.ends)}: {flow.failure}")
        return self._outcome(before, after, paths)

    def _snapshot(self) -> _Counts:
        qp = self.flows[0].qp.context.hs.qp
        senders = [flow.qp.index for flow in self.flows]
        receivers = [flow.peer.index for flow in self.flows]
        delays = int(qp["st_delay_sum"][senders].sum()), int(qp["st_delay_samples"][senders].sum())
        return self._clock.now_ps / PS, int(qp["st_rx_bytes"][receivers].sum()), *delays

    def _outcome(self, before: _Counts, after: _Counts, paths: tuple[tuple[int, int, Path], ...]) -> WorkloadResult:
        seconds, received, delay, samples = (b - a for a, b in zip(before, after, strict=True))
        tick_ms = int(self.flows[0].qp.context.hs.cfg[0]["tick_ps"]) / 1e9
        stats = [flow.stats() for flow in self.flows]
        return WorkloadResult(
            throughput_mbps=received * 8 / seconds / 1e6,
            bytes_sent=sum(flow.bytes_sent for flow in self.flows),
            bytes_ok=sum(flow.bytes_ok for flow in self.flows),
            pairs=len(self.flows),
            pairs_ok=sum(flow.bytes_ok == flow.bytes_sent for flow in self.flows),
            paths=paths,
            **{name: sum(each[name] for each in stats) for name in ("reroutes", "retransmitted", "ecn_marked")},
            delay_ms=delay / samples * tick_ms if samples else None,
        )

    def close(self) -> None:
        for flow in self.flows:
            self._pump.close_flow(flow)
