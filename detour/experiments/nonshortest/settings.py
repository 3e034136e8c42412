# SPDX-License-Identifier: Apache-2.0
"""The settings of each scheme where the paper leaves them open, and how they were chosen.

Every scheme gets the best of the settings that are tried for it (`CANDIDATES`), by topology, in one sweep on equal
terms: the six cells of Table III, the same virtual time, a draw of pairs that no result uses. What the sweep found lies
in `chosen.json`, with the score of everything that was tried; `detour reproduce nonshortest --tune` makes it again. A
topology that is not in there takes the setting of the one whose number of hosts is nearest.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.records import as_json, from_json
from detour.control.policy import Ecn, RedMarking, StepMarking, marking
from detour.experiments.nonshortest import paper
from detour.fabric.backends.virtual.scheme import (
    BENCHMARK,
    BENCHMARK_DCTCP,
    SHORTEST_PATH,
    TELEMETRY_GBN,
    TELEMETRY_LERP,
    Control,
    Scheme,
)
from detour.topo import Topology, parse_topology

FILE = Path(__file__).parent / "chosen.json"
TUNING_SEED = 101
"""the draw of pairs of the sweep; results begin with draw 1"""
THRESHOLDS = (0, 10, 20, 30)
"""T of Benchmark in packets"""


@dataclass(frozen=True)
class Setting:
    """Settings of congestion control and marking. `ecn_bytes`: K of marking by a step, or Kmin and Kmax, between
    which the probability rises to `pmax`; `threshold`: T of PiggyBack's rule in packets."""

    control: Control
    ecn_bytes: tuple[int, ...]
    pmax: float = 1.0
    threshold: int = 0

    @property
    def ecn(self) -> Ecn:
        """The marking."""
        return marking(self.ecn_bytes, self.pmax)

    def of(self, scheme: Scheme) -> Scheme:
        """The scheme with this setting."""
        return replace(scheme, control=self.control, ecn=self.ecn).with_threshold(self.threshold)

    def text(self, scheme: str) -> str:
        """In a few words."""
        sizes = " to ".join(f"{size / 1e3:g}" for size in self.ecn_bytes)
        rise = f", {self.pmax:g}" if len(self.ecn_bytes) > 1 else ""
        wait = f", T = {self.threshold}" if scheme.startswith(BENCHMARK.name) else ""
        return f"{self.control.upper()}, ECN {sizes} kB{rise}{wait}"


def setting_of(scheme: Scheme) -> Setting:
    """Return the setting that a scheme is defined with."""
    if isinstance(scheme.ecn, StepMarking):
        return Setting(scheme.control, (scheme.ecn.k.value,), threshold=scheme.threshold)
    assert isinstance(scheme.ecn, RedMarking), "all schemes of the paper mark"
    return Setting(scheme.control, (scheme.ecn.kmin.value, scheme.ecn.kmax.value), scheme.ecn.pmax, scheme.threshold)


def _dcqcn(kmin_kb: int, kmax_kb: int, threshold: int = 0) -> Setting:
    return Setting("dcqcn", (kmin_kb * 1000, kmax_kb * 1000), 0.2, threshold)


def _dctcp(k_kb: int, threshold: int = 0) -> Setting:
    return Setting("dctcp", (k_kb * 1000,), threshold=threshold)


CANDIDATES: dict[str, tuple[Setting, ...]] = {
    TELEMETRY_LERP.name: tuple(_dctcp(k) for k in (80, 125, 175, 250)),
    TELEMETRY_GBN.name: tuple(_dcqcn(*k) for k in ((100, 400), (40, 200), (20, 100), (10, 50))),
    BENCHMARK.name: tuple(_dcqcn(*k, t) for k in ((200, 800), (100, 400), (40, 200)) for t in THRESHOLDS),
    BENCHMARK_DCTCP.name: tuple(_dctcp(k, t) for k in (30, 80, 150, 220) for t in THRESHOLDS),
    SHORTEST_PATH.name: tuple(_dcqcn(*k) for k in ((400, 1600), (200, 800), (100, 400), (40, 200))),
}
"""what is tried. PFC's XOFF on an empty switch of D1 is at 244 kB of an ingress, so marking from 400 kB on (the default
of HPCC's simulator) would come after pauses: it is an ablation, and 100 to 400 kB are ConWeave's at 100 Gb/s"""


@dataclass(frozen=True)
class TriedSetting:
    """`cells`: wire rate by pattern and pairs, as a fraction of the ceiling; `score`: their mean."""

    setting: Setting
    score: float
    cells: dict[str, float]


@dataclass(frozen=True)
class ChosenSetting:
    """The best of what was tried, and all of it, best first."""

    setting: Setting
    tried: list[TriedSetting]


@dataclass(frozen=True)
class TopologySettings:
    """Settings on one topology, by scheme. `virtual_us`: time of a run by pattern."""

    topology: str
    seed: int
    virtual_us: dict[str, int]
    schemes: dict[str, ChosenSetting] = field(default_factory=dict)


@dataclass(frozen=True)
class StoredSettings:
    """`chosen.json`: by the name of the topology."""

    topologies: dict[str, TopologySettings] = field(default_factory=dict)


@cache
def stored() -> StoredSettings:
    """Return the results of the repository's sweep."""
    return read(FILE)


def read(file: Path) -> StoredSettings:
    """Read a sweep's settings, empty if the file does not exist. Raises `DetourError`: the file cannot be read, or is
    of another kind."""
    try:
        return from_json(StoredSettings, json.loads(file.read_bytes()))
    except FileNotFoundError:
        return StoredSettings()
    except (OSError, ValueError) as error:
        raise DetourError(f"{file}: {error}") from None


def write(file: Path, choices: TopologySettings) -> None:
    """Put a topology's choices into a file, beside those of others. Raises `DetourError`: the file cannot be
    written."""
    topologies = read(file).topologies | {choices.topology: choices}
    ordered = {name: topologies[name] for name in sorted(topologies)}
    write_file(file, json.dumps(as_json(StoredSettings(ordered)), indent=1) + "\n")


@cache
def papers_topology(name: str) -> Topology:
    """The paper's, by its name. Selections of points look at it hundreds of times."""
    return parse_topology(paper.TOPOLOGIES[name])


def choices_for(topology: Topology, scheme: str) -> TopologySettings | None:
    """The stored choices of the topology nearest in its number of hosts, of those that a scheme was swept on."""
    swept = {name: choices for name, choices in stored().topologies.items() if scheme in choices.schemes}

    def distance(name: str) -> float:
        return abs(math.log(len(papers_topology(name).hosts) / len(topology.hosts)))

    return swept[min(swept, key=distance)] if swept else None


def chosen(topology: Topology, scheme: Scheme) -> Setting:
    """Return a scheme's setting on a topology: its best one, or its own if none was sought."""
    choices = choices_for(topology, scheme.name)
    return choices.schemes[scheme.name].setting if choices else setting_of(scheme)


def best(
    topology: str, virtual_us: dict[str, int], tried: Iterable[tuple[str, Sequence[TriedSetting]]]
) -> TopologySettings:
    """Return, by scheme, the tried settings with the highest score; the first of equal ones."""
    ordered = {scheme: sorted(some, key=lambda one: -one.score) for scheme, some in tried if some}
    schemes = {scheme: ChosenSetting(some[0].setting, some) for scheme, some in ordered.items()}
    return TopologySettings(topology, TUNING_SEED, virtual_us, schemes)


def tried(setting: Setting, cells: dict[str, float]) -> TriedSetting:
    """With its score."""
    rounded = {cell: round(value, 4) for cell, value in cells.items()}
    return TriedSetting(setting, round(statistics.fmean(rounded.values()), 4), rounded)
