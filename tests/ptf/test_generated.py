# SPDX-License-Identifier: Apache-2.0
"""Tests that `detour test --format ptf` writes, run by pytest against `detour switch` and simple_switch_grpc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detour import cli
from detour.hosts.frames.sizes import ETHERNET
from tests.ptf.bmv2 import BINARY, Bmv2, missing
from tests.switch.running import no_namespaces
from tests.unit.testgen.test_command import KINDS
from tests.unit.testgen.test_generate import ODD

PORTS = range(8)
DETOUR = Path(sys.executable).with_name("detour")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "tests"
    assert cli.main(["test", str(KINDS), "--format", "ptf", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(params=["detour switch", pytest.param(BINARY, marks=pytest.mark.bmv2)])
def switch(request: pytest.FixtureRequest) -> Iterator[Bmv2]:
    ours = request.param != BINARY
    reason = no_namespaces() if ours else missing()
    if reason:
        pytest.skip(reason)
    binary, options = (str(DETOUR), ["switch"]) if ours else (BINARY, [])
    with Bmv2(PORTS, binary=binary, options=options) as switch:
        yield switch


def _run(switch: Bmv2, folder: Path) -> dict[str, int]:
    """How many tests passed, failed and were skipped."""
    ports = " ".join(f"{port}@t{port}" for port in PORTS)
    environment = os.environ | {"P4RUNTIME": switch.address, "DEVICE_ID": "1", "PORTS": ports}
    command = ["nsenter", f"--net=/proc/{switch.process.pid}/ns/net", sys.executable, "-m", "pytest", "-q", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    return {
        what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout.splitlines()[-1])
    }


def test_they_pass(switch: Bmv2, folder: Path, request: pytest.FixtureRequest) -> None:
    """But for those of a port that is not there, of frames that are too short, and of registers, which BMv2 does not
    take over P4Runtime."""
    tests = (folder / "test_kinds.py").read_text().split("def runTest")[1:]
    ports = [[int(port) for port in re.findall(r"\d+", test.split("need(")[1].split(")")[0])] for test in tests]
    calls = ["".join(re.findall(r"self.(?:send|expect)\(.*", test)) for test in tests]
    short = [min(map(len, re.findall(r"'([0-9a-f*]+)'", call))) < 2 * ETHERNET for call in calls]
    lacks = [max(needed) not in PORTS or less for needed, less in zip(ports, short, strict=True)]
    if request.node.callspec.params["switch"] == BINARY:
        lacks = [one or "P4RegisterEntry" in test for one, test in zip(lacks, tests, strict=True)]
    assert _run(switch, folder) == {"passed": lacks.count(False), "skipped": lacks.count(True)}
    assert lacks.count(False) > 20


def test_they_can_fail(switch: Bmv2, folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    source = (tmp_path / "test_kinds.py").read_text()
    wrong, count = re.subn(r"'I.to', port=(\d)\)", lambda found: f"'I.to', port={int(found[1]) ^ 1})", source)
    assert count > 5
    (tmp_path / "test_kinds.py").write_text(wrong)
    assert _run(switch, tmp_path)["failed"] > 5


def test_keys_whose_names_end_alike(switch: Bmv2, tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    assert cli.main(["test", str(ODD), "--format", "ptf", "--out", str(folder)]) == 0
    assert "'m_inner_z': " in (folder / "test_odd.py").read_text()
    done = _run(switch, folder)
    assert set(done) <= {"passed", "skipped"}, "of frames that are too short"
    assert done["passed"] > 5
