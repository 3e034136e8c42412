# SPDX-License-Identifier: Apache-2.0
"""Parts are found by their sources, built once however many ask, and loaded without Numba."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detour.base import sources
from detour.base.jit import COMPILED
from detour.base.parts import BUILD_COMMAND
from detour.engine.loop.entry import LOOP
from detour.fabric import warm
from detour.hosts.ip.stack import IP
from detour.hosts.rdma import RDMA

_PART = """
from detour.base.parts import Part
from detour.base.jit import inner
import {other}

SMALL = Part("small", __name__)

@inner
def _twice(a):
    return 2 * a

@SMALL.entry
def weighted(count: int, share: float, whole: bool) -> float:
    return _twice(count) * share + {other}.ADDED + (100 if whole else 0)

@SMALL.entry
def is_odd(count: int) -> bool:
    return count % 2 == 1
"""
_USE = "import sys, small; print(small.weighted(3, 0.5, True), small.is_odd(4), 'numba' in sys.modules)"


def _names(*modules: str) -> set[str]:
    return {str(path.relative_to(sources.PACKAGE)) for path in sources.files(*modules)}


def test_a_part_is_made_of_what_its_modules_import() -> None:
    loop, rdma, ip = (_names(*part.modules) for part in (LOOP, RDMA, IP))
    assert {"engine/loop/entry.py", "engine/loop/switch.py", "engine/phv.py", "base/memory.py"} <= loop
    assert not {name for name in loop if name.startswith(("hosts/", "engine/p4runtime/", "fabric/"))} - {
        "hosts/stacks.py", "hosts/__init__.py"
    }  # fmt: skip
    assert {"hosts/transport/lerp.py", "hosts/cc/control.py"} <= rdma
    assert not {"hosts/cc/dctcp.py", "hosts/cc/cubic.py"} & rdma, "called by address"
    assert not {name for name in rdma | ip if name.startswith("engine/")}
    assert "hosts/transport/lerp.py" not in ip


def test_a_digest_is_of_contents_and_of_what_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alpha_of_test.py").write_text("from beta_of_test import (\n    one,\n    two,\n)\n")
    (tmp_path / "beta_of_test.py").write_text("one, two = 1, 2\n")
    (tmp_path / "gamma_of_test.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("alpha_of_test")
    __import__("gamma_of_test")
    before = sources.digest("alpha_of_test")
    (tmp_path / "gamma_of_test.py").write_text("three = 3\n")
    assert sources.digest("alpha_of_test") == before
    (tmp_path / "beta_of_test.py").write_text("one, two = 1, 3\n")
    assert sources.digest("alpha_of_test") != before


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "small.py").write_text(_PART.format(other="added"))
    (tmp_path / "added.py").write_text("ADDED = 10\n")
    return tmp_path


def _python(folder: Path, *arguments: str) -> str:
    environment = os.environ | {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}",
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")
def test_it_is_built_once_and_then_loaded_without_numba(small: Path) -> None:
    assert _python(small, "-c", _USE) == "113.0 0 True\n"
    assert _python(small, "-c", _USE) == "113.0 0 False\n"
    (small / "added.py").write_text("ADDED = 20\n")
    assert _python(small, "-c", _USE) == "123.0 0 True\n"
    (small / "added.py").write_text("ADDED = 10\n")
    assert _python(small, "-c", _USE) == "113.0 0 False\n"


@pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")
def test_of_many_that_need_it_one_builds_it(small: Path) -> None:
    command = [sys.executable, *BUILD_COMMAND[1:], "small", "small"]
    environment = os.environ | {
        "XDG_CACHE_HOME": str(small / "cache"),
        "PYTHONPATH": f"{small}:{os.environ.get('PYTHONPATH', '')}",
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [json.loads(process.communicate()[0]) for process in processes]
    assert {(part["name"], part["functions"]) for part in said} == {("small", 3)}
    assert [part["cached"] for part in said].count(False) == 1


def test_every_part_is_built_by_warm() -> None:
    named = {part.name for part in warm.FABRIC_PARTS}
    assert {"loop", "rdma", "ip", "driver"} <= named
    assert len(named) == len(warm.FABRIC_PARTS)
