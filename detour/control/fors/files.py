# SPDX-License-Identifier: Apache-2.0
"""Plans as CSV: `phase,src,dst,spine`, the spine empty for a flow inside a leaf.

Where several cables join leaf and spine, `up,down` come behind: which one at the sender's leaf, which one at the
receiver's; empty like the spine. On three levels it is `phase,src,dst,agg,core`; what a flow does not use is empty.

And sizes of messages that are unlike (all-to-all-v, tokens to experts), from files or drawn with a skew."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.files import new_text, read_text
from detour.base.quantities import whole_number_of
from detour.control.fors.fabric import FatTree
from detour.control.fors.paths import INSIDE
from detour.control.fors.plan import ForsPlan, UnequalPlan

HEADER = ["phase", "src", "dst", "spine"]
CABLES = ["up", "down"]
TIER_HEADER = ["phase", "src", "dst", "agg", "core"]
BYTES = "bytes"
_MOST = 2**31 - 1
_MOST_BYTES = 10**15
_DIGITS = str.maketrans("", "", "0123456789")


def write(plan: ForsPlan, path: Path) -> None:
    """Write a plan; bytes of messages of unlike size go into one more column. Raises `DetourError`: the file cannot be
    written."""
    over = [plan.spine, *([] if plan.core is None else [plan.core])]
    if plan.cables is not None:
        over += list(np.where(plan.spine == INSIDE, INSIDE, plan.cables))
    texts = [np.where(column == INSIDE, "", column.astype(str)).tolist() for column in over]
    columns = [plan.phase.tolist(), plan.src.tolist(), plan.dst.tolist(), *texts]
    header = _header(plan.fabric)
    if isinstance(plan, UnequalPlan):
        header, columns = [*header, BYTES], [*columns, plan.sent.tolist()]
    write_rows(path, header, (map(str, row) for row in zip(*columns, strict=True)))


def write_rows(path: Path, header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Write a file of values separated by commas. Raises `DetourError`: it cannot be written."""
    with new_text(path) as file:
        file.write(",".join(header) + "\n")
        file.writelines(",".join(row) + "\n" for row in rows)


def read(fabric: FatTree, path: Path, unreachable: tuple[tuple[int, int], ...] = ()) -> ForsPlan:
    """A plan from a file, rows in its order; phases are as many as it uses. Raises `DetourError`: the file cannot be
    read, or a line is not of that form."""
    text = read_text(path)
    header = _header(fabric)
    rows = _plain(text) if header == HEADER else None
    return _plan(fabric, _table(path, text, header) if rows is None else rows, unreachable)


def read_with_bytes(fabric: FatTree, path: Path) -> tuple[ForsPlan, np.ndarray]:
    """A plan from a file whose last column is `bytes`, and that column (flows,). Raises `DetourError`: the file cannot
    be read, or a line is not of that form."""
    rows = _table(path, read_text(path), [*_header(fabric), BYTES])
    return _plan(fabric, rows[:, :-1], ()), rows[:, -1]


def _header(fabric: FatTree) -> list[str]:
    if fabric.cores:
        return TIER_HEADER
    return HEADER + CABLES if fabric.cables > 1 else HEADER


def _table(path: Path, text: str, header: list[str]) -> np.ndarray:
    """(flows, columns) int64"""
    rows = [_row(path, number, line, header) for number, line in _lines(path, text, header)]
    return np.array(rows, np.int64).reshape(-1, len(header))


def _plan(fabric: FatTree, rows: np.ndarray, unreachable: tuple[tuple[int, int], ...]) -> ForsPlan:
    phase, src, dst, spine, *more = np.ascontiguousarray(rows.T, np.int32)
    phases = int(phase.max()) + 1 if len(phase) else 0
    if fabric.cores:  # numbers may be missing
        numbers, phase = np.unique(phase, return_inverse=True)
        columns = (phase.astype(np.int32), src, dst, spine)
        return ForsPlan(fabric, len(numbers), *columns, unreachable=unreachable, core=more[0])
    cables = np.where(spine == INSIDE, 0, np.stack(more)) if more else None
    return ForsPlan(fabric, phases, phase, src, dst, spine, method="file", unreachable=unreachable, cables=cables)


def _plain(text: str) -> np.ndarray | None:
    """(flows, 4) of a file as `write` makes it, or None if something is different (then `_row` says what)."""
    header, _, body = text.partition("\n")
    lines = body.count("\n")
    if header != ",".join(HEADER) or body.strip("0123456789,\n") or not body.endswith("\n") or "\n\n" in body:
        return None
    if body.translate(_DIGITS) != ",,,\n" * lines:
        return None
    values = body.replace(",\n", ",-1\n").replace("\n", ",").split(",")[:-1]
    try:
        rows = np.array(values, np.int32)
    except (ValueError, OverflowError):
        return None
    return rows.reshape(-1, 4)


def _lines(path: Path, text: str, header: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines behind the header that are not empty, with their numbers."""
    lines = csv.reader(text.splitlines(), skipinitialspace=True)
    try:
        first = next(lines, [])
        if [name.strip() for name in first] != header:
            raise DetourError(f"{path}, line 1: {','.join(first)!r} is not {','.join(header)!r}")
        yield from ((number, line) for number, line in enumerate(lines, 2) if line)
    except csv.Error as error:
        raise DetourError(f"{path} is not a CSV file: {error}") from error


def _row(path: Path, number: int, line: list[str], header: list[str]) -> tuple[int, ...]:
    """Numbers; `INSIDE` for what a flow does not go over: all behind `dst` inside a leaf, the core inside a pod."""
    fields = [field.strip() for field in line]
    if len(fields) == len(header):
        size = [fields.pop()] if header[-1] == BYTES else []
        over = [field for field in fields[3:] if field not in ("", "-1")]
        right = all(_is_number(field, _MOST) for field in (*fields[:3], *over))
        right &= header == TIER_HEADER or len(over) in (0, len(fields) - 3)
        if right and all(_is_number(field, _MOST_BYTES) for field in size):
            numbers = [INSIDE if field in ("", "-1") else int(field) for field in fields[3:]]
            return (*map(int, fields[:3]), *numbers, *map(int, size))
    raise DetourError(f"{path}, line {number}: {','.join(line)!r} is not {','.join(header)} (numbers from 0 on)")


def _is_number(field: str, most: int) -> bool:
    return field.isascii() and field.isdecimal() and int(field) <= most


SIZES_HEADER = ["src", "dst", "bytes"]
_MOST_SIZE = 10**12  # of a message


def read_sizes(fabric: FatTree, path: Path) -> Int64Array:
    """(n, n) bytes from each server that takes part to each other one. CSV has lines `src,dst,bytes` with servers'
    numbers, each pair at most once (others send nothing). JSON is a list of n lists of n numbers, servers that take
    part in order, by itself or under `sizes`. What a server has for itself does not count. Raises `DetourError`: the
    file cannot be read, or what in it is wrong."""
    text = read_text(path)
    sizes = _from_json(fabric, path, text) if text.lstrip()[:1] in ("[", "{") else _from_csv(fabric, path, text)
    np.fill_diagonal(sizes, 0)
    if not sizes.any():
        raise DetourError(f"{path}: no server sends to another one")
    return sizes


def _from_json(fabric: FatTree, path: Path, text: str) -> Int64Array:
    try:
        document: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise DetourError(f"{path}: {error}") from error
    rows: Any = document.get("sizes") if isinstance(document, dict) else document
    count = fabric.servers
    square = isinstance(rows, list) and len(rows) == count
    square = square and all(isinstance(row, list) and len(row) == count for row in rows)
    if not (square and all(type(value) is int and 0 <= value <= _MOST_SIZE for row in rows for value in row)):
        raise DetourError(
            f"{path} is not a list of {count} lists of {count} whole numbers of bytes (0..{_MOST_SIZE}), one for each "
            "server that takes part"
        )
    return np.array(rows, np.int64).reshape(count, count)


def _from_csv(fabric: FatTree, path: Path, text: str) -> Int64Array:
    ranks = {server: rank for rank, server in enumerate(np.flatnonzero(fabric.taking_part()).tolist())}
    sizes = np.zeros((len(ranks), len(ranks)), np.int64)
    seen: set[tuple[int, int]] = set()
    for number, line in _lines(path, text, SIZES_HEADER):
        fields = [field.strip() for field in line]
        try:
            src, dst = (whole_number_of(field, _MOST_SIZE, 0) for field in fields[:2])
            (size,) = (whole_number_of(field.removesuffix("B"), 10**13, 0) for field in fields[2:])
        except (ValueError, DetourError):
            text = f"{','.join(line)!r} is not src,dst,bytes (numbers from 0 on)"
            raise DetourError(f"{path}, line {number}: {text}") from None
        for server in (src, dst):
            if server not in ranks:
                raise DetourError(f"{path}, line {number}: server {server} does not participate in {fabric.name}")
        if size > _MOST_SIZE:
            raise DetourError(f"{path}, line {number}: {size} bytes exceed {_MOST_SIZE}")
        if (src, dst) in seen:
            raise DetourError(f"{path}, line {number}: {src} -> {dst} appears twice")
        seen.add((src, dst))
        sizes[ranks[src], ranks[dst]] = size
    return sizes


def drawn_sizes(servers: int, skew: str, mean: int, seed: int) -> Int64Array:
    """(servers, servers) bytes, `mean` on average over pairs, at least 1.

    `uniform`: all alike. `zipf:S`: the k-th largest message is k^-S of the largest, pairs in an order drawn by seed.
    `moe:S`: the k-th most wanted receiver gets k^-S of what the first one gets, from every sender alike up to a factor
    of 0.5 to 1.5 (experts that attract tokens); the order of receivers and these factors are drawn. Raises
    `DetourError`: the skew is none of these."""
    match = re.fullmatch(r"uniform|(zipf|moe):(\d{1,2}(?:\.\d{1,3})?)", skew.strip(), re.ASCII)
    if not match:
        raise DetourError(f"skew {skew!r} is not uniform, zipf:S or moe:S, like zipf:1.2")
    away = ~np.eye(servers, dtype=bool)
    rng = np.random.default_rng([seed, 23])
    share = np.ones((servers, servers))
    if match[1]:
        count = servers if match[1] == "moe" else servers * (servers - 1)
        ranked = np.arange(1, count + 1, dtype=float) ** -float(match[2])
        rng.shuffle(ranked)
        if match[1] == "moe":
            share = ranked[None, :] * rng.uniform(0.5, 1.5, (servers, servers))
        else:
            share[away] = ranked
    sizes = np.zeros((servers, servers), np.int64)
    if servers > 1:
        sizes[away] = np.clip(np.rint(share[away] / share[away].mean() * mean), 1, _MOST_SIZE)
    return sizes
