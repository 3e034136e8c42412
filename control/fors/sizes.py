# SPDX-License-Identifier: Apache-2.0
"""Messages of unlike size: all-to-all-v, tokens to experts (MoE). Read from files, or drawn with a skew."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.fors.fabric import FatTree

SIZES_HEADER = ["src", "dst", "bytes"]
_MOST_BYTES = 10**12  # of a message


def read_sizes(fabric: FatTree, path: Path) -> Int64Array:
    """(n, n) bytes from each server that takes part to each other one. CSV has lines `src,dst,bytes` with servers'
    numbers, each pair at most once (others send nothing). JSON is a list of n lists of n numbers, servers that take
    part in order, by itself or under `sizes`. What a server has for itself does not count. Raises `DetourError`: the
    file cannot be read, or what in it is wrong."""
    text = read_text(path)
    sizes = _from_json(fabric, path, text) if text.lstrip()[:1] in ("[", "{") else _from_csv(fabric, path, text)
    np.fill_diagonal(sizes, 0)
    if not sizes.any():
        raise DetourError(f"{path}: nobody sends anything to another server")
    return sizes


def _from_json(fabric: FatTree, path: Path, text: str) -> Int64Array:
    try:
        document: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise DetourError(f"{path}: {error}") from error
    rows = document.get("sizes") if isinstance(document, dict) else document
    count = fabric.servers
    if not (isinstance(rows, list) and len(rows) == count and all(_is_row(row, count) for row in rows)):
        raise DetourError(
            f"{path} is not a list of {count} lists of {count} whole numbers of bytes (0..{_MOST_BYTES}), one for each "
            "server that takes part"
        )
    return np.array(rows, np.int64).reshape(count, count)


def _is_row(row: Any, count: int) -> bool:
    return (
        isinstance(row, list)
        and len(row) == count
        and all(type(value) is int and 0 <= value <= _MOST_BYTES for value in row)
    )


def _from_csv(fabric: FatTree, path: Path, text: str) -> Int64Array:
    ranks = {server: rank for rank, server in enumerate(np.flatnonzero(fabric.taking_part()).tolist())}
    sizes = np.zeros((len(ranks), len(ranks)), np.int64)
    seen: set[tuple[int, int]] = set()
    lines = csv.reader(text.splitlines(), skipinitialspace=True)
    header = [name.strip() for name in next(lines, [])]
    if header != SIZES_HEADER:
        raise DetourError(f"{path}, line 1: {','.join(header)!r} is not {','.join(SIZES_HEADER)!r}")
    for number, line in enumerate(lines, 2):
        fields = [field.strip() for field in line]
        if not fields:
            continue
        if len(fields) != 3 or not all(re.fullmatch(r"[0-9]{1,13}", field) for field in fields):
            raise DetourError(f"{path}, line {number}: {','.join(line)!r} is not src,dst,bytes (numbers from 0 on)")
        src, dst, size = (int(field) for field in fields)
        for server in (src, dst):
            if server not in ranks:
                raise DetourError(f"{path}, line {number}: no server {server} takes part in {fabric.name}")
        if size > _MOST_BYTES:
            raise DetourError(f"{path}, line {number}: {size} bytes are more than {_MOST_BYTES}")
        if (src, dst) in seen:
            raise DetourError(f"{path}, line {number}: {src} -> {dst} is there twice")
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
        sizes[away] = np.clip(np.rint(share[away] / share[away].mean() * mean), 1, _MOST_BYTES)
    return sizes
