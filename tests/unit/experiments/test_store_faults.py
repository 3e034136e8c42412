# SPDX-License-Identifier: Apache-2.0
"""A store that was cut short anywhere, by a kill or a full disk, holds whole points or none, and takes new ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detour.base import cache
from detour.experiments.store import Store
from tests.full_disk import small_files

_KEEP_ON = """
import sys
from pathlib import Path
from detour.experiments.store import Store
from tests.unit.experiments.test_store_faults import point, result
store = Store(Path(sys.argv[1]), "v")
for x in range(int(sys.argv[2]), 100_000):
    if point(x) not in store:
        store.add(point(x), result(x), 0.0)
        print(x, flush=True)
"""


def point(x: int) -> dict[str, Any]:
    return {"x": x}


def result(x: int) -> dict[str, Any]:
    """Long enough that its line is written in more than one page."""
    return {"numbers": [x] * (1 + x * 7919 % 3000), "text": "}\n{" * 3}


def whole(store: Store, count: int) -> list[int]:
    """Which of the first points are there; all of those are right."""
    there = [x for x in range(count) if point(x) in store]
    assert all(store.get(point(x)) == result(x) for x in there)
    return there


def test_a_store_cut_at_any_byte_holds_whole_points(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for x in range(3):
        Store(path, "v").add(point(x), {"x": x, "list": [1, 2, {"y": "}"}]}, 0.5)
    content = path.read_bytes()
    ends = [at for at, byte in enumerate(content) if byte == 10]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        store = Store(path, "v")
        complete = sum(end <= size for end in ends)  # the newline itself may be missing
        assert [x for x in range(3) if point(x) in store] == list(range(complete))
        store.add(point(7), "new", 0.5)
        again = Store(path, "v")
        assert again.get(point(7)) == "new"
        assert [x for x in range(3) if point(x) in again] == list(range(complete))


@pytest.mark.parametrize("junk", [b"12\n", b"[]\n", b'{"version":"v"}\n', b"\0" * 64, b"\xff\xfe\n"])
def test_what_is_no_record_is_passed_over(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "store"
    path.write_bytes(junk)
    Store(path, "v").add(point(1), result(1), 0.0)
    assert whole(Store(path, "v"), 3) == [1]


def test_a_process_killed_while_it_writes(tmp_path: Path) -> None:
    path, rng, before = tmp_path / "store", random.Random(17), 0
    for _ in range(8):
        command = [sys.executable, "-c", _KEEP_ON, str(path), "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            options = [int(process.stdout.readline()) for _ in range(rng.randrange(1, 30))]
            process.send_signal(signal.SIGKILL)
            options += [int(line) for line in process.stdout.read().split("\n")[:-1]]
        there = whole(Store(path, "v"), before + len(options) + 100)
        assert set(options) <= set(there)  # what it said to be kept is kept
        assert there == list(range(len(there)))  # and nothing was computed twice or left out
        assert options[0] == before
        before = len(there)


def test_a_full_disk_costs_one_line_and_no_result(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_said", set())
    path = tmp_path / "store"
    store = Store(path, "v")
    store.add(point(0), result(0), 0.0)
    with small_files(path.stat().st_size + 10):
        for x in (1, 2):
            store.add(point(x), result(x), 0.0)
    assert caplog.messages == [f"detour: going on without keeping points in {path}: File too large"]
    assert whole(store, 3) == [0, 1, 2]
    assert whole(Store(path, "v"), 3) == [0]
    store.add(point(3), result(3), 0.0)  # there is room again
    assert whole(Store(path, "v"), 4) == [0, 3]


def test_a_place_that_cannot_be_written_costs_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_said", set())
    (tmp_path / "file").touch()
    store = Store(tmp_path / "file" / "store", "v")
    store.add(point(1), result(1), 0.0)
    assert len(caplog.messages) == 1
    assert whole(store, 2) == [1]
    assert os.listdir(tmp_path) == ["file"]
