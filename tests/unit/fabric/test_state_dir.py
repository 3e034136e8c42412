# SPDX-License-Identifier: Apache-2.0
"""The folder in which a running fabric is found."""

import fcntl
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.fabric.daemon.state_dir import NAME_VARIABLE, StateDir, all_fabrics, default_path


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "detour")


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert default_path() == Path("/run/user/7/detour")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_path() == Path(f"/tmp/detour-{os.getuid()}")


def test_fabrics_with_names_are_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    states = []
    for name in ("", "lab-2"):
        monkeypatch.setenv(NAME_VARIABLE, name)
        states.append(StateDir())
        states[-1].lock()
        states[-1].record({"target": "engine", "topology": name or "d1"})
    assert [state.path.name for state in states] == ["detour", "detour-lab-2"]
    assert {name: state.noted()["topology"] for name, state in all_fabrics().items()} == {"": "d1", "lab-2": "lab-2"}
    for state in states:
        state.release()
    assert all_fabrics() == {}


@pytest.mark.parametrize("name", ["a b", "../x", "x" * 33, "last.log"])
def test_what_is_no_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(NAME_VARIABLE, name)
    with pytest.raises(DetourError, match="is not a fabric name"):
        default_path()


def test_nobody_is_there_at_first(state: StateDir) -> None:
    assert not state.is_alive()
    assert not state.remove_stale()
    assert not state.path.exists()


def test_a_second_fabric_is_told_about_the_first(state: StateDir) -> None:
    state.lock()
    state.record({"target": "engine", "topology": "d1"})
    other = StateDir(state.path)
    assert other.is_alive()
    with pytest.raises(DetourError, match=r"is already running \(engine, d1, process \d+\)"):
        other.lock()
    state.release()
    state.release()
    assert not state.path.exists()
    other.lock()
    other.release()


def test_what_a_dead_fabric_left_is_removed(state: StateDir) -> None:
    script = (
        "import os, sys; from pathlib import Path; from detour.fabric.daemon.state_dir import StateDir\n"
        "s = StateDir(Path(sys.argv[1])); s.lock(); s.record({}); s.socket.touch(); s.scratch.mkdir()\n"
        "(s.scratch / 'x').touch(); os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(state.path)], check=True)
    assert state.socket.exists()
    assert not state.is_alive()
    assert state.remove_stale()
    assert not state.path.exists()


def test_a_process_that_is_exiting_is_dead_although_it_holds_the_lock(state: StateDir) -> None:
    # A child that has exited and is not waited for has the flag of one that is exiting; this process holds its lock.
    child = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    state.path.mkdir(mode=0o700)
    (state.path / "fabric.json").write_text(json.dumps({"pid": child.pid}))
    held = os.open(state.path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert not state.is_alive()
    with ThreadPoolExecutor(1) as pool:
        removed = pool.submit(state.remove_stale)
        assert not wait([removed], timeout=0.1).done
        assert state.path.exists()
        os.close(held)
        assert removed.result()
    child.wait()
    assert not state.path.exists()


def test_locking_clears_what_is_left(state: StateDir) -> None:
    state.path.mkdir(mode=0o700)
    state.socket.touch()
    state.lock()
    assert list(state.path.iterdir()) == []
    state.release()


def test_a_folder_that_others_may_enter_is_refused(state: StateDir) -> None:
    state.path.mkdir()
    state.path.chmod(0o755)
    with pytest.raises(DetourError, match="must belong only to you"):
        state.lock()


def test_a_link_is_not_followed(state: StateDir, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    (target / "precious").touch()
    state.path.symlink_to(target)
    with pytest.raises(DetourError, match="state folder"):
        state.lock()
    assert (target / "precious").exists()


def test_waiting_for_the_end(state: StateDir) -> None:
    state.lock()
    assert not StateDir(state.path).wait_until_gone(0.05)
    state.release()
    assert StateDir(state.path).wait_until_gone(0.05)
