# SPDX-License-Identifier: Apache-2.0
"""The command line starts at once, whatever packages are on PYTHONPATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import detour

MODULES = """
import contextlib, io, sys
from detour.cli import main
quiet = io.StringIO()
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
    main(sys.argv[1:])
print("\\n".join(sys.modules))
"""
HEAVY = {
    "numpy", "numba", "llvmlite", "scipy", "highspy", "finsy", "grpc", "google.protobuf", "rich",
    "prompt_toolkit", "yaml",
}  # fmt: skip


@pytest.mark.parametrize("argument", ["--version", "--help", "--no-such-option", "up --help", "fors route --wrong"])
def test_little_is_loaded(argument):
    """By what needs no fabric. It was 1.3 s of processor time and over a thousand modules."""
    command = [sys.executable, "-c", MODULES, *argument.split()]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "detour.cli.parser" in loaded
    assert not HEAVY & set(loaded)
    packages = ("detour.engine", "detour.experiments", "detour.hosts", "detour.control", "detour.topo")
    names_only = {"detour.control", "detour.control.expander"}  # what options offer, and no module below
    assert not [name for name in loaded if name.startswith(packages) and name not in names_only]
    # A command is a module; what they need besides is little.
    assert len([name for name in loaded if not name.startswith("detour.cli.")]) < 177


def test_a_switch_loads_what_its_options_ask_for():
    code = "import sys, detour.engine.switch.run; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert {"detour.engine.network", "numpy", "grpc"} <= loaded
    assert not loaded & {"numba", "llvmlite", "thrift", "detour.engine.trace.recorder", "detour.engine.bmv2api.runtime"}


def test_next_to_nothing_is_loaded_before_interrupts_are_caught():
    """One that comes earlier ends in a traceback. `-S`: Python itself loads less."""
    code = f"import sys; sys.path[:] = {sys.path}; import detour.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert {name for name in loaded.split() if name.startswith("detour")} == {"detour", "detour.cli"}
    assert not {"typing", "re", "pkgutil", "argparse", "signal"} & set(loaded.split())


def test_a_package_google_that_is_not_protobufs(tmp_path):
    """As BMv2's Python tools install it. What both have is protobuf's or ours."""
    (tmp_path / "google" / "rpc").mkdir(parents=True)
    (tmp_path / "google" / "__init__.py").touch()
    (tmp_path / "google" / "rpc" / "__init__.py").write_text("raise ImportError('not this one')\n")
    (tmp_path / "google" / "only_here.py").touch()
    code = "import detour, google.protobuf.text_format, google.only_here; from finsy.proto import p4r"
    folders = [str(tmp_path), str(Path(detour.__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
