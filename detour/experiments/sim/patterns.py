# SPDX-License-Identifier: Apache-2.0
"""Patterns by name: `permutation:bytes=1e6,seed=3`. One table says which there are and what each can be told.

Pairs are those of `nonshortest.workloads` and of `rivals.workloads`; here every pair gets one message, all at once or
spread at random over a time, and `poisson` flows that come whatever became of those before them (open loop).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.quantities import bytes_of, fraction_of, time_ps_of
from detour.base.times import MS
from detour.experiments.nonshortest import workloads as published
from detour.fabric.workloads.flow_table import FLOW, MOST_FLOWS, FlowTable, in_order
from detour.fabric.workloads.sizes import SYNTHETIC, SizeDistribution, poisson_starts, read_sizes
from detour.topo import Topology
from detour.topo.spec import check_keys, split_spec, whole_number
from detour.topo.topology import HostPair

_BYTES, _MEAN = 1_000_000, 100_000.0
_S = 1e12
_MOST_LOAD = 1.0

PatternValues = Mapping[str, Any]


@dataclass(frozen=True)
class DrawnFor:
    """The inputs of a drawn pattern: hosts of a topology with links of a rate, and a seed."""

    topology: Topology
    rate_bps: int
    seed: int


Draw = Callable[[DrawnFor, PatternValues], FlowTable]


@dataclass(frozen=True)
class PatternKind:
    """A named workload. `takes`: its parameters, each with what it is by default, in words; `readers` understand
    them."""

    draw: Draw
    text: str
    takes: Mapping[str, str]


def flows_of_pattern(kind: PatternKind, text: str, of: DrawnFor) -> FlowTable:
    """The flows of `name:parameter=value,...`, the name of which is that of `kind`. Raises `DetourError`: there is no
    such parameter, a value is none, or the topology has no such pattern."""
    _, given = split_spec(text)
    check_keys(text, given, (), tuple(kind.takes))
    values = {key: _read(text, key, value) for key, value in given.items()}
    return in_order(kind.draw(replace(of, seed=values.get("seed", of.seed)), values))


def _read(text: str, key: str, value: str) -> Any:
    try:
        return _READERS[key](text, key, value)
    except DetourError as error:
        raise DetourError(f"workload {text!r}: {key}: {error}") from None


def _number(least: int, text: str, key: str, value: str) -> int:
    number = whole_number(text, key, value)
    if number < least:
        raise DetourError(f"{value} is less than {least}")
    return number


def _load(text: str, key: str, value: str) -> float:
    load = fraction_of(value)
    if not 0 < load <= _MOST_LOAD:
        raise DetourError(f"{value} is not a load above 0 and up to {_MOST_LOAD:g}")
    return load


_READERS: dict[str, Callable[[str, str, str], Any]] = {
    "bytes": lambda text, key, value: bytes_of(value),
    "mean": lambda text, key, value: bytes_of(value),
    "spread": lambda text, key, value: time_ps_of(value),
    "time": lambda text, key, value: time_ps_of(value),
    "sizes": lambda text, key, value: value,
    "load": _load,
    "seed": partial(_number, 0),
    **dict.fromkeys(("pairs", "senders", "receivers"), partial(_number, 1)),
}


# -- patterns -----------------------------------------------------------------------------------------------


def _messages(pairs: list[HostPair], of: DrawnFor, values: PatternValues) -> FlowTable:
    """A message a pair, all at the beginning or at random times within `spread`."""
    table = np.zeros(len(pairs), FLOW)
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    table["source"], table["target"] = ends[:, 0], ends[:, 1]
    table["bytes"] = values.get("bytes", _BYTES)
    spread = values.get("spread", 0)
    if spread:
        table["start_ps"] = np.random.default_rng([of.seed, 31]).integers(0, spread, len(pairs))
    return table


def _bit_reverse(of: DrawnFor, values: PatternValues) -> FlowTable:
    """All pairs of that pattern."""
    count = published.pair_count(of.topology, "bit-reverse")
    if count > MOST_FLOWS:
        raise DetourError(f"bit-reverse on {of.topology.spec} has {count} pairs; expected at most {MOST_FLOWS}")
    return _messages(published.sample(of.topology, "bit-reverse", count, of.seed), of, values)


def _part(name: str, of: DrawnFor, values: PatternValues) -> FlowTable:
    """`pairs` of a pattern, drawn without repetition; by default as many as its light load has."""
    usual = published.pairs_of_load(of.topology, name, "light")
    return _messages(published.sample(of.topology, name, values.get("pairs", usual), of.seed), of, values)


def _permutation(of: DrawnFor, values: PatternValues) -> FlowTable:
    """One circle through all hosts in random order, so that nobody sends to itself; any topology has it."""
    order = random.Random(f"permutation {of.seed}").sample(range(len(of.topology.hosts)), len(of.topology.hosts))
    return _messages([*zip(order, order[1:] + order[:1], strict=True)], of, values)


def _incast(of: DrawnFor, values: PatternValues) -> FlowTable:
    """`senders` hosts send to one; `receivers` such groups, of different hosts."""
    hosts = len(of.topology.hosts)
    receivers = values.get("receivers", 1)
    senders = values.get("senders", min(8, hosts // receivers - 1))
    needed = (senders + 1) * receivers
    if senders < 1 or needed > hosts:
        text = f"incast of {senders} senders to each of {receivers} receivers needs {needed} hosts"
        raise DetourError(f"{text}; {of.topology.spec} has {hosts}")
    order = random.Random(f"incast {of.seed}").sample(range(hosts), needed)
    groups = [order[first : first + senders + 1] for first in range(0, needed, senders + 1)]
    return _messages([(sender, group[0]) for group in groups for sender in group[1:]], of, values)


def _poisson(of: DrawnFor, values: PatternValues) -> FlowTable:
    """Every host begins flows at random times to random others, so many that payload is `load` of what its link
    carries."""
    sizes = _sizes(values)
    hosts = len(of.topology.hosts)
    if hosts < 2:
        raise DetourError(f"flows need two hosts; {of.topology.spec} has {hosts}")
    generator = np.random.default_rng([of.seed, 37])
    rate = values.get("load", 0.5) * of.rate_bps * hosts / (8 * sizes.mean)
    starts = poisson_starts(rate, values.get("time", MS) / _S, generator, MOST_FLOWS)
    table = np.zeros(len(starts), FLOW)
    table["start_ps"] = np.round(starts * _S)
    table["source"] = generator.integers(0, hosts, len(starts))
    other = generator.integers(0, hosts - 1, len(starts))
    table["target"] = other + (other >= table["source"])
    table["bytes"] = sizes.draw(len(starts), generator)
    return table


def _sizes(values: PatternValues) -> SizeDistribution:
    name = values.get("sizes", "pareto")
    if name in SYNTHETIC:
        return SYNTHETIC[name](float(values.get("mean", _MEAN)))
    if not Path(name).exists():
        raise DetourError(f"sizes={name}: there is no such file; built in are {', '.join(SYNTHETIC)}")
    if "mean" in values:
        raise DetourError(f"mean= is for {', '.join(SYNTHETIC)}; {name} has a mean of its own")
    return read_sizes(Path(name))


_MESSAGES = {"bytes": "of every message (1e6)", "seed": "(that of the run)", "spread": "time of beginnings (0s)"}
_SOME = _MESSAGES | {"pairs": "how many are drawn (its light load)"}

NAMED_WORKLOADS: dict[str, PatternKind] = {
    "permutation": PatternKind(_permutation, "every host sends to one and gets from one", _MESSAGES),
    "unf": PatternKind(partial(_part, "unf"), "any host to any host of another group", _SOME),
    "adv1": PatternKind(partial(_part, "adv1"), "all from one group to one other", _SOME),
    "adv2": PatternKind(partial(_part, "adv2"), "from all groups to one", _SOME),
    "advc": PatternKind(partial(_part, "advc"), "from every group to the ones that follow it", _SOME),
    "two-jobs": PatternKind(partial(_part, "two-jobs"), "hosts of two random jobs, each among its own", _SOME),
    "bit-reverse": PatternKind(_bit_reverse, "to the host whose number has its bits reversed", _MESSAGES),
    "incast": PatternKind(_incast, "many to one", _MESSAGES | {"senders": "to each (8)", "receivers": "(1)"}),
    "poisson": PatternKind(
        _poisson,
        "flows that come at random, whatever became of those before",
        {
            "sizes": f"FILE of `bytes percent`, or {', '.join(SYNTHETIC)} (pareto)",
            "load": "payload, of hosts' links (0.5)",
            "time": "for how long they come (1ms)",
            "mean": "bytes of a synthetic flow (1e5)",
            "seed": "(that of the run)",
        },
    ),
}
