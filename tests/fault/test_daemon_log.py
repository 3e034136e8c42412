# SPDX-License-Identifier: Apache-2.0
"""A detached fabric that cannot start, dies, or finds its cache damaged: what the user is told, and what goes on."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.base.native import NATIVE_CACHE
from detour.fabric.daemon.control_socket import call
from detour.fabric.daemon.state_dir import StateDir
from tests.fault.world import SMALL, World
from tests.waiting import PATIENCE_S, until

UP = ["up", "--detach", "--target", "engine", *SMALL]


def plant(world: World, method: str, body: str) -> None:
    """Lets the daemon run with a defect: a method of the engine's fabric is replaced."""
    folder = world.folder / "planted"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'detour.fabric.daemon.daemon' in sys.orig_argv:\n"
        "    import os, signal\n"
        "    from detour.fabric.backends.engine import EngineFabric\n"
        f"    def {method}(self):\n        {body}\n"
        f"    EngineFabric.{method} = {method}\n"
    )
    world.environment["PYTHONPATH"] = str(folder)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise RuntimeError('planted')", "RuntimeError: planted"),
        ("print('last words', file=sys.stderr, flush=True); os.kill(os.getpid(), signal.SIGKILL)", "last words"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "(status -11)"),
    ],
)
def test_a_daemon_that_dies_before_its_first_step_is_not_up(world: World, body: str, words: str) -> None:
    plant(world, "first_step", body)
    code, out, err = world.run(*UP)
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith("detour: the fabric's process ended while it started (status ")
    assert words in last
    log = Path(last.partition("its log: ")[2].rstrip(")"))
    assert log == world.runtime / "detour-last.log"
    assert " starts\n" in log.read_text()
    until(lambda: not world.processes())


def test_a_daemon_that_dies_later_leaves_its_log(world: World) -> None:
    trigger = world.folder / "trigger"
    plant(world, "check", f"assert not os.path.exists({str(trigger)!r}), 'planted'")
    status = world.json(*UP)
    log = Path(status["log"])
    assert log == world.runtime / "detour" / "daemon.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert log.read_text().endswith(" INFO up\n")
    assert world.json("status")["log"] == str(log)
    code, out, _ = world.run("status")
    assert code == 0
    assert f"log: {log}" in out
    trigger.touch()
    until(lambda: not world.processes())
    kept = world.runtime / "detour-last.log"
    for _ in range(2):
        code, _, err = world.run("status")
        assert (code, err.count("\n")) == (2, 1)
        assert "has died" in err
        assert "AssertionError: planted" in err
        assert str(kept) in err
        assert "Traceback" in kept.read_text()
    del world.environment["PYTHONPATH"]
    world.json(*UP)
    assert not kept.exists()
    world.json("down")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _garbled(data: bytes) -> bytes:
    return data[: len(data) // 2] + b"?" + data[len(data) // 2 + 1 :]


def _empty(data: bytes) -> bytes:
    return b""


_DAMAGES = (_cut, _garbled, _empty)


@pytest.mark.slow
def test_a_damaged_cache_is_made_anew(world: World) -> None:
    """Of what a fabric takes from the cache, each file is damaged in one of three ways: compiled programs, and the
    smallest parts of native code. Larger parts are found and verified as these are and take half a minute to build."""
    private = world.folder / "cache"
    world.environment["XDG_CACHE_HOME"] = str(private)
    native = private / "detour" / "numba"
    native.mkdir(mode=0o700, parents=True)
    native.parent.chmod(0o700)
    if (built := NATIVE_CACHE.folder().path).is_dir():  # else this builds them, which takes minutes
        shutil.copytree(built, native, dirs_exist_ok=True)
        native.chmod(0o700)
    begun = world.folder / "begun"
    begun.touch()
    _use_a_fabric(world)
    used = [path for path in private.rglob("*") if path.is_file() and path.stat().st_mtime >= begun.stat().st_mtime]
    parts = sorted((path for path in used if path.suffix == ".o"), key=lambda path: path.stat().st_size)
    files = parts[: len(_DAMAGES)] + [path for path in used if path.stat().st_size and path.suffix != ".o"]
    assert {path.parent.name for path in files} == {"numba", "programs"}
    damaged = {path: damage(path.read_bytes()) for path, damage in zip(files, itertools.cycle(_DAMAGES), strict=False)}
    for path, data in damaged.items():
        path.write_bytes(data)
    _use_a_fabric(world)
    assert [path.name for path, data in damaged.items() if path.read_bytes() == data] == []


def _use_a_fabric(world: World) -> None:
    command = [sys.executable, "-m", "detour.cli", *UP, "--json"]
    done = subprocess.run(command, env=world.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    daemon = world.runtime / "detour" / "control.sock"
    assert call(daemon, "send", {"source": "h0", "target": "h5", "length": 30000})["bytes_ok"] == 30000
    assert call(daemon, "verify", {})["verified"] is True
    assert call(daemon, "status", {})["switches"] == 6
    assert world.json("down") == {"down": True}


def test_a_state_folder_without_room_for_files(world: World) -> None:
    """Sockets and folders take none."""
    command = f"ulimit -f 0; exec {sys.executable} -m detour.cli {' '.join(UP)} --json"
    done = subprocess.run(
        ["bash", "-c", command], env=world.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert world.json("send", "h0", "h5", "--bytes", "30000")["bytes_ok"] == 30000
    assert world.json("down") == {"down": True}


# -- the state folder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "good"), [(0o777, False), (0o775, False), (0o1777, True), (0o700, True)])
def test_the_state_folder_may_not_lie_where_others_can_exchange_it(tmp_path: Path, mode: int, good: bool) -> None:
    parent = tmp_path / "run"
    parent.mkdir()
    parent.chmod(mode)
    state = StateDir(parent / "detour")
    if good:
        state.lock()
        state.release()
        return
    with pytest.raises(DetourError, match="can be written by others"):
        state.lock()
    assert list(parent.iterdir()) == []


def test_folders_made_for_it_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        state = StateDir(tmp_path / "a" / "b" / "detour")
        state.lock()
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a" / "b", state.path)]
        assert modes == [0o700] * 3
        state.release()
    finally:
        os.umask(before)


@pytest.mark.parametrize("prepare", [lambda p, t: p.symlink_to(t), lambda p, t: p.write_text("")])
def test_a_link_or_a_file_in_its_place_is_refused(tmp_path: Path, prepare: Callable[[Path, Path], None]) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    (target / "precious").touch()
    prepare(tmp_path / "detour", target)
    with pytest.raises(DetourError, match="state folder"):
        StateDir(tmp_path / "detour").lock()
    assert (target / "precious").exists()


def test_the_log_of_another_user_is_not_shown(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "detour")
    (tmp_path / "elsewhere").write_text("their words\n")
    state.last_log.symlink_to(tmp_path / "elsewhere")
    assert state.last_words() is None
    state.last_log.unlink()
    state.last_log.write_text("my words\n")
    assert state.last_words() == ("my words", state.last_log)
    if os.geteuid() == 0:
        os.chown(state.last_log, 4711, -1)
        assert state.last_words() is None
