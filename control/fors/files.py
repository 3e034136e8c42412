# SPDX-License-Identifier: Apache-2.0
"""Plans as CSV: `phase,src,dst,spine`, the spine empty for a flow inside a leaf."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree2
from detour.control.fors.plan import INSIDE, ForsPlan

HEADER = ["phase", "src", "dst", "spine"]
_MOST = 2**31 - 1
_DIGITS = str.maketrans("", "", "0123456789")


def write(plan: ForsPlan, path: Path) -> None:
    """Writes a plan.

    Raises:
        DetourError: the file cannot be written.
    """
    spine = np.where(plan.spine == INSIDE, "", plan.spine.astype(str))
    lines = (
        f"{phase},{src},{dst},{over}\n"
        for phase, src, dst, over in zip(
            plan.phase.tolist(), plan.src.tolist(), plan.dst.tolist(), spine.tolist(), strict=True
        )
    )
    try:
        with path.open("w") as file:
            file.write(",".join(HEADER) + "\n")
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
    rows = _plain(text)
    if rows is None:
        try:
            rows = np.array(list(_rows(path, text)), np.int32).reshape(-1, 4)
        except csv.Error as error:
            raise DetourError(f"{path} is not a CSV file: {error}") from error
    phase, src, dst, spine = np.ascontiguousarray(rows.T, np.int32)
    phases = int(phase.max()) + 1 if len(phase) else 0
    return ForsPlan(fabric, phases, phase, src, dst, spine, method="file", unreachable=unreachable)


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


def _rows(path: Path, text: str) -> Iterator[tuple[int, ...]]:
    lines = csv.reader(text.splitlines(), skipinitialspace=True)
    header = next(lines, [])
    if [name.strip() for name in header] != HEADER:
        raise DetourError(f"{path}, line 1: {','.join(header)!r} is not {','.join(HEADER)!r}")
    for number, line in enumerate(lines, 2):
        if line:
            yield _row(path, number, line)


def _row(path: Path, number: int, line: list[str]) -> tuple[int, ...]:
    fields = [field.strip() for field in line]
    if len(fields) == 4:
        fields[3] = fields[3] or "-1"
        inside = fields[3] == "-1"
        if all(field.isascii() and field.isdecimal() and int(field) <= _MOST for field in fields[: 3 if inside else 4]):
            return tuple(int(field) for field in fields)
    raise DetourError(f"{path}, line {number}: {','.join(line)!r} is not phase,src,dst,spine (numbers from 0 on)")
