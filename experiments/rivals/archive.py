# SPDX-License-Identifier: Apache-2.0
"""The runs behind docs/rivals.md, in a file that the repository keeps: more are added, and the page is made again."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.records import decoder
from detour.experiments.rivals.points import COMPARED, RivalPoint, RivalSelection
from detour.experiments.rivals.workloads import LOADS, RIVAL_PATTERNS
from detour.experiments.store import Store, canonical, source_version

_POINT = decoder(RivalPoint)


def _records(file: Path) -> list[dict[str, Any]]:
    """Raises `DetourError` if the file cannot be read."""
    try:
        return [json.loads(line) for line in lzma.decompress(file.read_bytes()).splitlines()]
    except (OSError, ValueError, lzma.LZMAError) as error:
        raise DetourError(f"{file}: {error}") from None


def points_in(file: Path, wanted: RivalSelection, topologies: Iterable[str] | None = None) -> list[RivalPoint]:
    """The points of a file that a selection has, in order of the tables; of all topologies unless some are named.

    Raises:
        DetourError: the file cannot be read.
    """
    named = set(topologies or ())
    points: list[RivalPoint] = [_POINT(record["point"]) for record in _records(file)]
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
    version = source_version()
    known = {record["key"]: record for record in _records(file)} if file.exists() else {}
    found: Store[Any] = Store(store, version)
    for line in store.read_bytes().splitlines():
        record = json.loads(line) if line.endswith(b"}") else {}
        if record.get("version") == version and _POINT(record["point"]) in found:
            known[record["key"]] = {name: record[name] for name in ("key", "version", "point", "result")}
    text = b"".join(canonical(record).encode() + b"\n" for record in known.values())
    write_file(file, lzma.compress(text))
    return len(known)
