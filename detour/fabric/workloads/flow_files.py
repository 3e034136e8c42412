# SPDX-License-Identifier: Apache-2.0
"""Flow files of ns-3's RDMA simulators: the number of flows, then one flow per line.

    3
    0 9 3 1000000 2.000000000           conweave-ns3's generator: src dst priority bytes start_seconds
    1 9 3 100 1000000 2.000000000       HPCC's: src dst priority destination_port bytes start_seconds

Which of the two it is says the number of columns, the same in all lines. Hosts are numbered from 0. Those generators
begin at 2 s; here time begins with the first flow. Priority and port are read and checked, and change nothing: the
scheme says what priority data have.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError, told_of
from detour.base.files import read_text
from detour.base.quantities import time_ps_of, whole_number_of
from detour.base.times import US
from detour.fabric.workloads.flow_table import FLOW, MOST_FLOW_BYTES, MOST_FLOWS, FlowTable, in_order

_S = 1_000_000 * US
_LONGEST_S = 10_000.0
_COLUMNS = {5: "src dst priority bytes start_seconds", 6: "src dst priority destination_port bytes start_seconds"}


def read_flow_file(file: Path, hosts: int) -> FlowTable:
    """The flows of a file, sorted by beginning, the first of which is at 0. Raises DetourError if it cannot be read, or
    a line is malformed: file, line and rule."""
    lines = [(number, line) for number, line in enumerate(read_text(file).splitlines(), 1) if line.strip()]
    if not lines:
        raise DetourError(f"{file}: it is empty; expected the number of flows, then one flow per line")
    count = _count(file, *lines[0])
    if len(lines) - 1 != count:
        raise DetourError(f"{file}, line {lines[0][0]}: it declares {count} flows and {len(lines) - 1} follow")
    columns = len(lines[1][1].split())
    if columns not in _COLUMNS:
        raise DetourError(
            f"{file}, line {lines[1][0]}: {columns} columns; expected 5 ({_COLUMNS[5]}) or 6 ({_COLUMNS[6]})"
        )
    table = np.empty(count, FLOW)
    for row, (number, line) in enumerate(lines[1:]):
        with told_of(f"{file}, line {number}"):
            table[row] = _flow(line.split(), columns, hosts)
    table["start_ps"] -= table["start_ps"].min()
    return in_order(table)


def _count(file: Path, number: int, line: str) -> int:
    words = line.split()
    if len(words) != 1 or not words[0].isascii() or not words[0].isdigit():
        raise DetourError(f"{file}, line {number}: {line.strip()!r:.60} is not the number of flows, alone on its line")
    if not 1 <= int(words[0][:12]) <= MOST_FLOWS:
        raise DetourError(f"{file}, line {number}: {words[0]:.20} flows; expected 1 to {MOST_FLOWS}")
    return int(words[0])


def _flow(words: list[str], columns: int, hosts: int) -> tuple[int, int, int, int]:
    if len(words) != columns:
        raise DetourError(f"{len(words)} columns; the first flow has {columns} ({_COLUMNS[columns]})")
    source, target = (
        _whole(word, what, 0, 10**9) for word, what in zip(words, ("source", "destination"), strict=False)
    )
    for what, host in (("source", source), ("destination", target)):
        if host >= hosts:
            raise DetourError(f"there is no {what} host {host}; the topology has 0 to {hosts - 1}")
    if source == target:
        raise DetourError(f"host {source} would send to itself")
    _whole(words[2], "priority", 0, 7)
    if columns == 6:
        _whole(words[3], "destination port", 0, 0xFFFF)
    size = _whole(words[-2], "bytes", 1, MOST_FLOW_BYTES)
    return source, target, size, _start(words[-1])


def _whole(word: str, what: str, low: int, high: int) -> int:
    with suppress(DetourError):
        value = int(word) if word.isascii() and word.isdigit() else whole_number_of(word.removesuffix("B"), high, low)
        if low <= value <= high:
            return value
    raise DetourError(f"{what} is {word!r:.30}; it must be a whole number from {low} to {high}")


def _start(word: str) -> int:
    with suppress(DetourError, ValueError):
        start = float(word) * _S if word[-1:].isdigit() else time_ps_of(word, "s")
        if 0 <= start <= _LONGEST_S * _S:
            return round(start)
    raise DetourError(f"start is {word!r:.30}; it must be seconds from 0 to {_LONGEST_S:g}")
