# SPDX-License-Identifier: Apache-2.0
"""Measurements of nccl-tests: their logs, and the figures that are kept here (measured.csv); predictions of ASTRA-sim
for these (astra_sim.csv).

Figures: `h100x10`, xxrjun/nccl-tests-cluster (Apache-2.0), example-cluster01: ten nodes of H100 GPUs, NCCL 2.29.2, and
`h100x10-pairs`, the median of all pairs of these nodes; `h100x4`, ZiyanIshani/vpbenchmarking (figures only), four nodes
of eight H100 GPUs, NCCL 2.24.3. Times are those out of place.

ASTRA-sim: commit 518bd51, analytical backend without congestion (599a047), its own configurations of H100 machines
(inputs/network/hgx_h100_*gpu.yml, inputs/system/analytical/hgx_h100_32gpu.json): machines are a ring, whose rate and
latency are fitted on what ours are. Left out is what it does not have (broadcast, reduce) or cannot time without
congestion: all-to-all, and send/recv of several GPUs a machine, which takes NVLink's rate.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.placement.nccl.rules import OPERATIONS

_NAMED = re.compile(r"^# Collective test starting: (\w+)_perf", re.MULTILINE)
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s.*? on\s+(\S+)\s+device", re.MULTILINE)
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+\w+\s+\S+\s+-?\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s", re.MULTILINE)

ASTRA_SIM_RATE, ASTRA_SIM_LATENCY_US = 23.05, 4.12
"""fitted: GB/s in each direction of the ring, and us"""
Operation = tuple[str, str, int, int, int]
"""set, operation, GPUs, nodes, bytes"""


@dataclass(frozen=True)
class Series:
    """The times of an operation on machines of equal kind, by size. `gpus` of all machines."""

    set: str
    op: str
    gpus: int
    nodes: int
    bytes: tuple[int, ...]
    us: tuple[float, ...]


def kept() -> list[Series]:
    """The figures that are kept here."""
    times: dict[tuple[str, str, int, int], dict[int, float]] = defaultdict(dict)
    for (folder, op, gpus, nodes, size), us in _table("measured.csv").items():
        times[folder, op, gpus, nodes][size] = us
    return [_series(name, sizes) for name, sizes in times.items()]


def astra_sim() -> dict[Operation, float]:
    """Times in us that ASTRA-sim predicts for these figures."""
    return _table("astra_sim.csv")


def _table(file: str) -> dict[Operation, float]:
    rows = csv.DictReader(Path(__file__).with_name(file).read_text().splitlines())
    return {
        (row["set"], row["op"], int(row["gpus"]), int(row["nodes"]), int(row["bytes"])): float(row["us"])
        for row in rows
    }


def read_logs(folder: Path) -> list[Series]:
    """The logs in a folder and those below it. Runs of equal shape count as one, with their median. Raises
    `DetourError`: there are none, or one cannot be read."""
    if not folder.is_dir():
        raise DetourError(f"--logs {folder}: there is no such folder")
    found: dict[tuple[str, str, int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(path for path in folder.rglob("*") if path.suffix in (".log", ".txt", ".out")):
        for op, gpus, nodes, rows in _tests(read_text(file), file):
            for size, us in rows:
                found[folder.name, op, gpus, nodes][size].append(us)
    if not found:
        raise DetourError(
            f"--logs {folder}: no file there (.log, .txt, .out) is a log of nccl-tests on two nodes or more"
        )
    return [_series(name, {size: _median(us) for size, us in sorted(sizes.items())}) for name, sizes in found.items()]


def _series(name: tuple[str, str, int, int], sizes: dict[int, float]) -> Series:
    return Series(*name, tuple(sizes), tuple(sizes.values()))


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _tests(text: str, file: Path) -> Iterator[tuple[str, int, int, list[tuple[int, float]]]]:
    """(operation, GPUs, nodes, sizes and times) of the tests in a log that ran on nodes of equal kind."""
    starts = [match.start() for match in _NAMED.finditer(text)]
    for begin, end in zip(starts or [0], [*starts[1:], len(text)], strict=True):
        part = text[begin:end]
        match = _NAMED.search(part)
        op = match[1] if match else next((name for name in OPERATIONS if name.replace("_", "") in _plain(file)), "")
        hosts = [host for _, host in _RANK.findall(part)]
        gpus, nodes = len(hosts), len(set(hosts))
        rows = [(int(size), float(us)) for size, _, us, _, _ in _ROW.findall(part) if int(size)]
        even = nodes > 1 and all(hosts.count(host) * nodes == gpus for host in set(hosts))
        if op in OPERATIONS and even and rows:
            yield op, gpus, nodes, rows


def _plain(file: Path) -> str:
    return file.name.lower().replace("_", "").replace("-", "")
