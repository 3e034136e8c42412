# SPDX-License-Identifier: Apache-2.0
"""The runs behind docs/rivals.md, in a file that the repository keeps: more are added, and the page is made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.records import decoder
from detour.experiments.rivals import points as rivals
from detour.experiments.rivals.points import COMPARED, SIZES, RivalPoint, RivalSelection, usual
from detour.experiments.rivals.workloads import LOADS, RIVAL_PATTERNS
from detour.experiments.store import Store, archived, source_version

_POINT = decoder(RivalPoint)


def points_in(file: Path, wanted: RivalSelection, topologies: Iterable[str] | None = None) -> list[RivalPoint]:
    """The points of a file that a selection has, in order of the tables; of all topologies unless some are named.

    Raises:
        DetourError: the file cannot be read.
    """
    named = set(topologies or ())
    points: list[RivalPoint] = [_POINT(record["point"]) for record in archived(file).values()]
    chosen = [
        point
        for point in points
        if (not named or point.topology in named)
        and point.pattern in wanted.patterns
        and point.message_bytes in wanted.sizes
        and (point.scheme in wanted.schemes or point.scheme not in COMPARED)
        and point.seed <= wanted.draws
    ]
    return sorted(chosen, key=_place)


def _place(point: RivalPoint) -> tuple[object, ...]:
    scheme = COMPARED.index(point.scheme) if point.scheme in COMPARED else len(COMPARED)
    return (
        not point.topology.startswith("D"),
        point.topology,
        RIVAL_PATTERNS.index(point.pattern),
        LOADS.index(point.load) if point.load else 0,
        point.message_bytes,
        scheme,
        point.scheme,
        point.seed,
    )


def keep(file: Path, store: Path | None) -> int:
    """Adds what a store has of the present sources to a file; a run that both have is the store's. Returns how many
    runs the file has then.

    Raises:
        DetourError: the file cannot be read or written, or there is no store.
    """
    if store is None or not store.exists():
        raise DetourError(f"{store}: no finished runs to keep")
    return Store(store, source_version()).archive(file)


def selection(
    extent: str = "normal", *, source: Path | None = None, keep: Path | None = None, **asked: Sequence[Any] | int
) -> RivalSelection:
    """What is asked for: parts of a `RivalSelection`, the others as usual."""
    return replace(usual(extent), **{name: value for name, value in asked.items() if value})  # type: ignore[arg-type]


def select(
    extent: str = "normal", *, source: Path | None = None, keep: Path | None = None, **asked: Any
) -> list[RivalPoint]:
    """The points of what is asked for: of `source` all that it has, also of what is not usual; those that `keep` lacks.

    Raises:
        DetourError: no such topology, pattern, size or scheme, or a file that cannot be read.
    """
    wanted, topologies = selection(extent, **asked), asked.get("topologies")
    if source is not None:
        return points_in(source, replace(wanted, sizes=asked.get("sizes") or SIZES), topologies)
    known = set(points_in(keep, wanted, topologies)) if keep is not None and keep.exists() else ()
    return [point for point in rivals.select(wanted) if point not in known]
