# SPDX-License-Identifier: Apache-2.0
"""What each routing is set to over each transport (`transports.py`), and how that was chosen.

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
from detour.experiments.columns import row, shown
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
    """What is tried for a routing over a transport."""
    if routing == "SprayLERP":
        return [_dctcp(k, first) for k in (20, 40, 80) for first in (True, False)]
    some = _LOSSLESS if transport == "lossless" else _STEPS
    if not routing.startswith("UGAL-L"):
        return list(some)
    return [replace(one, bias_bytes=bias) for one in some for bias in _BIASES]


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
    """What was tried for a routing over a transport, best first."""

    transport: str
    routing: str
    tried: list[TriedTransportSetting]


def swept(results: Sequence[TransportPoint]) -> list[SweptSettings]:
    """What the runs of a sweep say, by transport and routing."""
    found: dict[tuple[str, str], dict[TransportSetting, list[TransportPoint]]] = {}
    for result in results:
        if isinstance(result.setting, TransportSetting) and result.seed == SETTINGS_SEED:
            mine = found.setdefault((result.transport, result.routing), {})
            mine.setdefault(result.setting, []).append(result)
    return [SweptSettings(*names, _ranked(some)) for names, some in found.items()]


def _ranked(some: dict[TransportSetting, list[TransportPoint]]) -> list[TriedTransportSetting]:
    """Best first; the first of equal ones. A setting of which a run is missing is left out."""
    most: dict[str, float] = {}
    for results in some.values():
        for one in results:
            most[one.pattern] = max(most.get(one.pattern, 0.0), one.goodput_gbps)
    tried = []
    for setting, results in some.items():
        gbps = {one.pattern: one.goodput_gbps for one in results}
        p99 = {one.pattern: one.slowdown.p99 for one in results}
        if gbps.keys() == most.keys():
            score = round(statistics.geometric_mean(p99.values()), 3)
            text = text_of(setting)
            tried.append(TriedTransportSetting(setting=setting, text=text, gbps=gbps, p99=p99, score=score))
    enough = {one.text: all(one.gbps[name] >= CLOSE_ENOUGH * most[name] for name in most) for one in tried}
    return sorted(tried, key=lambda one: (not enough[one.text], one.score))


@cache
def stored_settings() -> list[SweptSettings]:
    """What the repository's sweep found. Raises `DetourError`: the file cannot be read, or is none of these."""
    try:
        return from_json(list[SweptSettings], json.loads(TRANSPORT_SETTINGS_FILE.read_bytes()))
    except (OSError, ValueError) as error:
        raise DetourError(f"{TRANSPORT_SETTINGS_FILE}: {error}") from None


def chosen_setting(transport: str, routing: str) -> TransportSetting:
    """The best setting of a routing over a transport. Raises `DetourError`: none has been sought."""
    for one in stored_settings():
        if (one.transport, one.routing) == (transport, routing) and one.tried:
            return one.tried[0].setting
    raise DetourError(f"{TRANSPORT_SETTINGS_FILE}: nothing about {routing} over {transport}")
