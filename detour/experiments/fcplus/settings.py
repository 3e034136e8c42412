# SPDX-License-Identifier: Apache-2.0
"""The settings of each routing over each transport (`transports.py`), and how they were chosen.

Every routing gets the best of the settings that are tried for it (`candidates`), in one sweep on equal terms: the
network, the patterns and the time of the results, a draw that no result uses. The score is the 99th percentile of
slowdowns, the geometric mean over the patterns; a setting that carries less than `CLOSE_ENOUGH` of what the best one
carries under a pattern comes behind all that do not. `chosen.json` has all that was tried; `detour reproduce fcplus
--part settings --json` gives it anew, as `settings`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.records import from_json
from detour.experiments.columns import grouped, row, shown
from detour.experiments.fcplus.results import TransportPoint, TransportSetting

TRANSPORT_SETTINGS_FILE = Path(__file__).parent / "chosen.json"
SETTINGS_SEED = 101
"""wiring and draw of the sweep; results begin with 1"""
CLOSE_ENOUGH = 0.98
_BIASES = (0, 11_000)
"""ten packets"""


def _dcqcn(kmin_kb: int, kmax_kb: int, pmax: float, least_mbps: int) -> TransportSetting:
    return TransportSetting("dcqcn", (kmin_kb * 1000, kmax_kb * 1000), pmax, least_mbps)


def _dctcp(k_kb: int, shortest_first: bool = False) -> TransportSetting:
    return TransportSetting("dctcp", (k_kb * 1000,), shortest_first=shortest_first)


_STEPS = tuple(_dctcp(k) for k in (20, 40, 80))
_LOSSLESS = (_dcqcn(5, 200, 0.01, 100), _dcqcn(5, 200, 0.01, 1000), _dcqcn(20, 100, 0.2, 1000), *_STEPS)
"""the FC+ paper's marks with the packet level's least rate and ten times that; marks as steep as at 100 Gb/s"""


def candidates(transport: str, routing: str) -> list[TransportSetting]:
    """Return the settings to try for a routing over a transport."""
    if routing == "SprayLERP":
        return [_dctcp(k, first) for k in (20, 40, 80) for first in (True, False)]
    some = _LOSSLESS if transport == "lossless" else _STEPS
    if not routing.startswith("UGAL-L"):
        return list(some)
    return [replace(setting, bias_bytes=bias) for setting in some for bias in _BIASES]


def text_of(setting: TransportSetting) -> str:
    """In a few words."""
    sizes = " to ".join(f"{size / 1e3:g}" for size in setting.ecn_bytes)
    parts = [f"{setting.control.upper()} {sizes} kB"]
    if len(setting.ecn_bytes) > 1:
        parts.append(f"{setting.pmax:g}")
    if setting.least_mbps:
        parts.append(f"from {setting.least_mbps} Mb/s")
    if setting.bias_bytes:
        parts.append(f"bias {setting.bias_bytes / 1e3:g} kB")
    if setting.shortest_first:
        parts.append("shortest first")
    return ", ".join(parts)


def _by_pattern(digits: int) -> Callable[[dict[str, float]], str]:
    return lambda values: " / ".join(f"{value:.{digits}f}" for value in values.values())


@row
class TriedTransportSetting:
    """A setting and what came of it in the draw of the sweep, by pattern: Gb/s and the 99th percentile of slowdowns.
    `score`: see the module; less is better."""

    setting: TransportSetting
    text: str = shown("setting")
    gbps: dict[str, float] = shown("Gb/s", _by_pattern(0), means="by pattern")
    p99: dict[str, float] = shown("p99", _by_pattern(1))
    score: float = shown("score", means="geometric mean of p99; less is better")


@dataclass(frozen=True)
class SweptSettings:
    """The settings tried for a routing over a transport, best first."""

    transport: str
    routing: str
    tried: list[TriedTransportSetting]


def swept(results: Sequence[TransportPoint]) -> list[SweptSettings]:
    """Rank the settings of a sweep, by transport and routing."""
    runs = [r for r in results if isinstance(r.setting, TransportSetting) and r.seed == SETTINGS_SEED]
    by_routing = grouped(runs, lambda run: (run.transport, run.routing))
    return [SweptSettings(*names, _ranked(mine)) for names, mine in by_routing.items()]


def _ranked(runs: Sequence[TransportPoint]) -> list[TriedTransportSetting]:
    """Best first; the first of equal ones. A setting of which a run is missing is left out."""
    most = {name: max(run.goodput_gbps for run in mine) for name, mine in grouped(runs, lambda r: r.pattern).items()}
    tried = []
    for setting, mine in grouped(runs, lambda run: run.setting).items():
        gbps = {run.pattern: run.goodput_gbps for run in mine}
        p99 = {run.pattern: run.slowdown.p99 for run in mine}
        if isinstance(setting, TransportSetting) and gbps.keys() == most.keys():
            score = round(statistics.geometric_mean(p99.values()), 3)
            text = text_of(setting)
            tried.append(TriedTransportSetting(setting=setting, text=text, gbps=gbps, p99=p99, score=score))

    def rank(row: TriedTransportSetting) -> tuple[bool, float]:
        return any(row.gbps[name] < CLOSE_ENOUGH * most[name] for name in most), row.score

    return sorted(tried, key=rank)


@cache
def stored_settings() -> list[SweptSettings]:
    """Return the results of the repository's sweep. Raises `DetourError`: the file cannot be read, or is of another
    kind."""
    try:
        return from_json(list[SweptSettings], json.loads(TRANSPORT_SETTINGS_FILE.read_bytes()))
    except (OSError, ValueError) as error:
        raise DetourError(f"{TRANSPORT_SETTINGS_FILE}: {error}") from None


def chosen_setting(transport: str, routing: str) -> TransportSetting:
    """The best setting of a routing over a transport. Raises `DetourError`: none has been sought."""
    for swept in stored_settings():
        if (swept.transport, swept.routing) == (transport, routing) and swept.tried:
            return swept.tried[0].setting
    raise DetourError(f"{TRANSPORT_SETTINGS_FILE}: nothing about {routing} over {transport}")
