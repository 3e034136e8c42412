# SPDX-License-Identifier: Apache-2.0
"""The command line starts at once, and says what it does when it takes long."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from numba.core import event

from detour.base.compiling import TEXT, Compiling
from detour.base.progress import Once
from tests.waiting import until

MODULES = """
import contextlib, io, sys
from detour.cli import main
quiet = io.StringIO()
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
    main(sys.argv[1:])
print("\\n".join(sys.modules))
"""
HEAVY = {
    "numpy",
    "numba",
    "llvmlite",
    "scipy",
    "highspy",
    "finsy",
    "grpc",
    "google.protobuf",
    "rich",
    "prompt_toolkit",
    "yaml",
}


@pytest.mark.parametrize("argument", ["--version", "--help", "--no-such-option", "up --help", "fors route --wrong"])
def test_little_is_loaded(argument: str) -> None:
    """By what needs no fabric. It was 1.3 s of processor time and over a thousand modules."""
    command = [sys.executable, "-c", MODULES, *argument.split()]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "detour.cli.parser" in loaded
    assert not HEAVY & set(loaded)
    packages = ("detour.engine", "detour.experiments", "detour.hosts", "detour.control", "detour.topo")
    names_only = {"detour.control", "detour.control.expander"}  # what options offer, and no module below
    assert not [name for name in loaded if name.startswith(packages) and name not in names_only]
    assert len(loaded) < 200


def test_a_switch_loads_what_its_options_ask_for() -> None:
    code = "import sys, detour.engine.switch.run; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert {"detour.engine.network", "numpy", "grpc"} <= loaded
    assert not loaded & {"numba", "llvmlite", "thrift", "detour.engine.trace.recorder", "detour.engine.bmv2api.runtime"}


def test_next_to_nothing_is_loaded_before_interrupts_are_caught() -> None:
    """One that comes earlier ends in a traceback. `-S`: Python itself loads less."""
    code = f"import sys; sys.path[:] = {sys.path}; import detour.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert {name for name in loaded.split() if name.startswith("detour")} == {"detour", "detour.cli"}
    assert not {"typing", "re", "pkgutil", "argparse", "signal"} & set(loaded.split())


def compiled(seconds: float) -> None:
    """Announces it as Numba does, with a function that it needs within."""
    with event.trigger_event("numba:compile", data={}), event.trigger_event("numba:compile", data={}):
        time.sleep(seconds)


def watched(monkeypatch: pytest.MonkeyPatch, slow_s: float) -> list[str]:
    texts: list[str] = []
    notice = Once()
    notice.progress = texts.append
    monkeypatch.setitem(event._registered, "numba:compile", [Compiling(notice, slow_s)])
    return texts


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return watched(monkeypatch, 0.2)


def test_long_compilations_are_announced_while_they_go_on(said: list[str]) -> None:
    with event.trigger_event("numba:compile", data={}):
        until(lambda: said)
    compiled(0.5)
    assert said == [TEXT]


def test_many_short_ones_count_together(said: list[str]) -> None:
    for _ in range(30):
        compiled(0.02)
    assert said == [TEXT]


def test_what_is_short_is_not_worth_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = watched(monkeypatch, 1000.0)
    compiled(0.0)
    assert said == []
