# SPDX-License-Identifier: Apache-2.0
"""Result files: whole, or what was there before; and nobody writes them in another way."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from detour.base.errors import DetourError, WriteError
from detour.base.files import new_text, write_file
from detour.base.places import PACKAGE, modules
from tests.full_disk import small_files

_WRITES = re.compile(r"\.write_(text|bytes)\(|open\(.*\"[wax]b?\"|savefig\(|to_csv\(|\.dump\(")
_OTHERS = {
    "base/files.py": "what this is about",
    "base/reports.py": "a log, appended to",
    "engine/capture.py": "captures grow by whole packets",
    "base/native/parts.py": "a lock",
    "experiments/bench/fast.py": "input, in a temporary folder",
    "experiments/bench/namespace.py": "a setting of the kernel",
    "experiments/bench/processes.py": "the log of a switch, in a temporary folder",
    "experiments/bench/trace.py": "input, in a temporary folder",
    "experiments/drawing.py": "into a `new_file`, and into memory",
    "experiments/rivals/htsim.py": "input, in a temporary folder",
    "experiments/store.py": "points are appended, and a line that was cut short is passed over",
    "fabric/daemon/daemon.py": "a pipe",
    "fabric/daemon/state_dir.py": "a record of the running process, which nobody needs",
    "fabric/linux/netns.py": "a setting of the kernel",
    "fabric/backends/bmv2/switch.py": "the log of a switch",
    "fabric/labs/controllers.py": "for controllers, as long as a lab is up; a setting of the kernel",
    "fabric/labs/script_runner.py": "an answer between processes, in a temporary folder",
    "fabric/linux/hosts.py": "for a namespace, as long as it is up",
}


def test_a_file_that_cannot_be_completed_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "result"
    for before in (None, "earlier"):
        with small_files(), pytest.raises(WriteError, match="result cannot be written: File too large"):
            write_file(path, "x" * 100_000)
        assert [each.read_text() for each in tmp_path.iterdir()] == ([] if before is None else [before])
        with pytest.raises(ZeroDivisionError), new_text(path) as file:
            file.write("half" * (1 // 0))
        assert [each.read_text() for each in tmp_path.iterdir()] == ([] if before is None else [before])
        write_file(path, "earlier")


def test_what_is_replaced_keeps_its_place_and_its_mode(tmp_path: Path) -> None:
    path, link = tmp_path / "result", tmp_path / "link"
    path.write_text("earlier")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, b"later")
    assert (path.read_bytes(), path.stat().st_mode & 0o777, link.is_symlink()) == (b"later", 0o640, True)
    assert len(list(tmp_path.iterdir())) == 2


def test_devices_and_pipes_are_written_to(tmp_path: Path) -> None:
    write_file(Path(os.devnull), "nothing")
    with pytest.raises(WriteError, match="/dev/full cannot be written: No space left"):
        write_file(Path("/dev/full"), "something")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_file(tmp_path / "pipe", "text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)


def test_a_wrong_path_is_no_lack_of_room(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "file", tmp_path / ("n" * 300)):
        with pytest.raises(DetourError, match="cannot be written") as caught:
            write_file(path, "")
        assert caught.value.exit_code == 2


def test_nobody_writes_results_in_another_way() -> None:
    writers = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if any(_WRITES.search(line) for line in path.read_text().splitlines())
    }
    assert writers == set(_OTHERS)
