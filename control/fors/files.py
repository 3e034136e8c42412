# SPDX-License-Identifier: Apache-2.0
"""Plans as CSV: `phase,src,dst,spine`, the spine empty for a flow inside a leaf.

Where several cables join leaf and spine, `up,down` come behind: which one at the sender's leaf, which one at the
receiver's; empty like the spine.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import INSIDE, ForsPlan

HEADER = ["phase", "src", "dst", "spine"]
CABLES = ["up", "down"]
_MOST = 2**31 - 1
_DIGITS = str.maketrans("", "", "0123456789")


def write(plan: ForsPlan, path: Path) -> None:
    """Writes a plan.

    Raises:
        DetourError: the file cannot be written.
    """
    inside = plan.spine == INSIDE
    ways = [plan.spine] if plan.cables is None else [plan.spine, *plan.cables]
    texts = [np.where(inside, "", way.astype(str)).tolist() for way in ways]
    columns = [plan.phase.tolist(), plan.src.tolist(), plan.dst.tolist(), *texts]
    lines = (",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    try:
        with path.open("w") as file:
            file.write(",".join(HEADER if plan.cables is None else HEADER + CABLES) + "\n")
            file.writelines(lines)
    except OSError as error:
        raise DetourError(f"{path}: {error.strerror}") from error


def read(fabric: FatTree2, path: Path, unreachable: tuple[tuple[int, int], ...] = ()) -> ForsPlan:
    """A plan from a file, rows in its order; phases are as many as it uses.

    Raises:
        DetourError: the file cannot be read, or a line is not of that form.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise DetourError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DetourError(f"{path} is not a CSV file: {error}") from error
    header = HEADER if fabric.cables == 1 else HEADER + CABLES
    rows = _plain(text) if fabric.cables == 1 else None
    if rows is None:
        try:
            rows = np.array(list(_rows(path, text, header)), np.int32).reshape(-1, len(header))
        except csv.Error as error:
            raise DetourError(f"{path} is not a CSV file: {error}") from error
    phase, src, dst, spine, *ways = np.ascontiguousarray(rows.T, np.int32)
    phases = int(phase.max()) + 1 if len(phase) else 0
    cables = np.where(spine == INSIDE, 0, np.stack(ways)) if ways else None
    return ForsPlan(fabric, phases, phase, src, dst, spine, method="file", unreachable=unreachable, cables=cables)


def _plain(text: str) -> np.ndarray | None:
    """(flows, 4) of a file as `write` makes it, or None if something is different (then `_rows` says what)."""
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


def _rows(path: Path, text: str, header: list[str]) -> Iterator[tuple[int, ...]]:
    lines = csv.reader(text.splitlines(), skipinitialspace=True)
    found = next(lines, [])
    if [name.strip() for name in found] != header:
        raise DetourError(f"{path}, line 1: {','.join(found)!r} is not {','.join(header)!r}")
    for number, line in enumerate(lines, 2):
        if line:
            yield _row(path, number, line, header)


def _row(path: Path, number: int, line: list[str], header: list[str]) -> tuple[int, ...]:
    """Numbers; of a flow inside a leaf -1 for what comes behind `dst`."""
    fields = [field.strip() for field in line]
    if len(fields) == len(header):
        inside = all(field in ("", "-1") for field in fields[3:])
        numbers = fields[: 3 if inside else len(header)]
        if all(field.isascii() and field.isdecimal() and int(field) <= _MOST for field in numbers):
            return (*map(int, numbers), *([INSIDE] * (len(header) - len(numbers))))
    raise DetourError(f"{path}, line {number}: {','.join(line)!r} is not {','.join(header)} (numbers from 0 on)")
