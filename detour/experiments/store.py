# SPDX-License-Identifier: Apache-2.0
"""Store of a sweep's finished points: one JSON line each, appended and synced, so that a kill loses none.

A point is finished only under the sources that computed it: the key covers a version string, and results of
other versions stay in the file unread.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from detour.base.cache import without
from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.places import BUILD, PACKAGE, modules
from detour.base.records import as_json
from detour.base.secure_dir import make_folders

P = TypeVar("P")
R = TypeVar("R")


def unchanged(value: Any) -> Any:
    """Results that are kept as JSON says them."""
    return value


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


_WITHOUT_INFLUENCE = (
    "cli",
    "experiments/bench",
    "experiments/drawing.py",
    "experiments/prose.py",
    *(
        f"experiments/{paper}/{part}.py"
        for paper in ("fcplus", "fors", "nonshortest", "placement", "qcn")
        for part in ("figures", "tables")
    ),
    *(f"experiments/flat/{part}.py" for part in ("cells", "claims", "figures", "page", "selection", "settings")),
    "experiments/rivals/page.py",
    "experiments/rivals/tables.py",
    # What is run, and what is made of it; a point says by itself what it is.
    *(f"experiments/nonshortest/{part}" for part in ("ablation.py", "claims.py", "settings.py", "tuning.py")),
    "experiments/results.py",
)


def source_version() -> str:
    """Digest of everything that may change a result: detour's Python, but for what only shows results, and the compiled
    P4."""
    digest = hashlib.sha256()
    files = [path for path in modules() if not path.relative_to(PACKAGE).as_posix().startswith(_WITHOUT_INFLUENCE)]
    for path in sorted([*files, *BUILD.glob("*.json")]):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _records(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the records of complete lines."""
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the line that a kill cut short; no beginning of a record is a record
        if isinstance(record, dict) and record.keys() >= {"key", "version", "result"}:
            yield record


def archived(file: Path) -> dict[str, dict[str, Any]]:
    """Read an archive, by key. Raises `DetourError`: the file cannot be read."""
    try:
        return {record["key"]: record for record in _records(lzma.decompress(file.read_bytes()).splitlines())}
    except (OSError, lzma.LZMAError) as error:
        raise DetourError(f"{file}: {error}") from None


def points_in(file: Path, decode: Callable[[Any], P], **asked: Sequence[Any]) -> list[P]:
    """The points of an archive of which every field that is named has one of the values (none are given: any). Raises
    `DetourError`: the file cannot be read."""
    points = [record["point"] for record in archived(file).values()]
    return [decode(point) for point in points if all(not of or point.get(name) in of for name, of in asked.items())]


class Store(Generic[R]):
    """Finished points of one sweep in one file (`None`: in memory only). Points are records; results as well, which
    `decode` makes of their JSON."""

    def __init__(self, path: Path | None, version: str, decode: Callable[[Any], R] = unchanged) -> None:
        self.path = path
        self.version = version
        self._decode = decode
        self._kept: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            return without(error, "kept points")
        for record in _records(lines):
            if record.get("version") == self.version:
                self._kept[record["key"]] = record

    @classmethod
    def of_archive(cls, file: Path, decode: Callable[[Any], R] = unchanged) -> Store[R]:
        """Open what `archive` wrote, whatever the sources were. Raises `DetourError`: the file cannot be read."""
        store = cls(None, "", decode)
        store._kept = archived(file)
        return store

    def archive(self, file: Path, points: Iterable[Any] | None = None) -> int:
        """Add what is known of points (None: of all) to a compressed file, in place of what it has of them, and
        return how many runs it has then. Raises `DetourError`: the file cannot be read or written."""
        records = archived(file) if file.exists() else {}
        for key in self._kept if points is None else map(self.key, points):
            if key in self._kept:
                records[key] = {name: self._kept[key][name] for name in ("key", "version", "point", "result")}
        write_file(file, lzma.compress(b"".join(canonical(record).encode() + b"\n" for record in records.values())))
        return len(records)

    def key(self, point: Any) -> str:
        """Return the key that identifies a point."""
        return hashlib.sha256(canonical(as_json(point)).encode()).hexdigest()[:24]

    def __contains__(self, point: Any) -> bool:
        return self.key(point) in self._kept

    def get(self, point: Any) -> R | None:
        """The point's result, `None` if it has none yet."""
        record = self._kept.get(self.key(point))
        return None if record is None else self._decode(record["result"])

    def add(self, point: Any, result: R, seconds: float) -> None:
        """Keep a finished point; return after it is on disk. Where there is no room one line says so, and the point
        is known to this process only."""
        key, what, kept = self.key(point), as_json(point), as_json(result)
        record = {"key": key, "version": self.version, "point": what, "seconds": seconds, "result": kept}
        self._kept[key] = record
        if self.path is None:
            return
        try:
            line = canonical(record).encode() + b"\n"
            assert self.path is not None
            make_folders(self.path.parent)
            # A line that a kill or a full disk cut short must not swallow the next one.
            torn = self.path.exists() and self.path.stat().st_size > 0 and not self._ends_with_newline()
            with self.path.open("ab", buffering=0) as file:
                data = memoryview(b"\n" + line if torn else line)
                while data:
                    data = data[file.write(data) :]
                os.fsync(file.fileno())
        except OSError as error:
            without(error, f"keeping points in {self.path}")

    def _ends_with_newline(self) -> bool:
        assert self.path is not None
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
