# SPDX-License-Identifier: Apache-2.0
"""Parts are found by their sources, built once however many ask, and loaded without Numba."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from detour.base import sources
from detour.base.jit import COMPILED
from detour.base.native import BUILD_COMMAND, Part, objects, parts
from detour.control.native import COLOURING, EXPANDER, FORS_PART, PLACEMENT, VERIFIER
from detour.engine.loop.entry import LOOP
from detour.fabric import warm
from detour.hosts.ip.stack import IP
from detour.hosts.rdma import RDMA

_PART = """
from __future__ import annotations
from typing import NamedTuple
import numpy as np
from detour.base.arrays import Bools1, Floats1, Int32s2
from detour.base.native import Part
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
_WITH_ARRAYS = """
class Scaled(NamedTuple):
    factor: float
    rows: Int32s2

@SMALL.entry
def sums(scaled: Scaled, chosen: Bools1, found: Floats1) -> int:
    waiting = [row for row in range(len(chosen)) if chosen[row]]
    pieces = np.zeros((len(chosen), scaled.rows.shape[1]))
    for row in waiting:
        for column in range(scaled.rows.shape[1]):
            pieces[row, column] = scaled.rows[row, column] * scaled.factor
        found[row] = pieces[row].copy().sum()
    return len(waiting)

@SMALL.entry
def many(count: int, found: Floats1) -> None:
    found[0] = np.zeros(count).sum()
"""
_USE = (
    "import sys, small; print(small.SMALL.cached, small.weighted(3, 0.5, True), small.is_odd(4),"
    " 'numba' in sys.modules)"
)
_TRY = "import small\ntry:\n    small.weighted(1, 1.0, True)\nexcept Exception as error:\n    print(repr(error))"
native = pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")


def _names(*modules: str) -> set[str]:
    return {str(path.relative_to(sources.PACKAGE)) for path in sources.files(*modules)}


def test_a_part_is_made_of_what_its_modules_import() -> None:
    loop, rdma, ip = (_names(*part.modules) for part in (LOOP, RDMA, IP))
    assert {"engine/loop/entry.py", "engine/loop/switch.py", "engine/phv.py", "base/memory.py"} <= loop
    assert not {name for name in loop if name.startswith(("hosts/", "engine/p4runtime/", "fabric/"))} - {
        "hosts/stacks.py", "hosts/__init__.py"
    }  # fmt: skip
    assert {"hosts/transport/multipath.py", "hosts/cc/control.py"} <= rdma
    by_address = {"hosts/transport/lerp.py", "hosts/transport/gbn.py", "hosts/cc/dctcp.py", "hosts/cc/cubic.py"}
    assert not by_address & rdma
    assert not {name for name in rdma | ip if name.startswith("engine/")}
    assert "hosts/transport/multipath.py" not in ip


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
    """A folder with a part of numbers, which takes half as long to build as one with arrays."""
    (tmp_path / "small.py").write_text(_PART.format(other="added"))
    (tmp_path / "added.py").write_text("ADDED = 10\n")
    return tmp_path


@pytest.fixture
def with_arrays(small: Path) -> Path:
    """The same with functions that take and make arrays."""
    with (small / "small.py").open("a") as part:
        part.write(_WITH_ARRAYS)
    return small


def _python(folder: Path, *arguments: str, warns: bool = False, **variables: str) -> str:
    """What it prints; `warns`: it says something about it besides. `variables` are set in its environment."""
    environment = os.environ | {
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}",
        **variables,
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    # Bytecode would hold for a source that is written again within a second.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, bool(done.stderr)) == (0, warns), done.stderr
    return done.stdout


@native
def test_it_is_built_once_and_then_loaded_without_numba(small: Path) -> None:
    for added, cached in ((10, "False"), (10, "True"), (20, "False"), (10, "True")):
        (small / "added.py").write_text(f"ADDED = {added}\n")
        assert _python(small, "-c", _USE) == f"{cached} {103 + added}.0 0 False\n"


@native
def test_a_process_that_runs_all_as_python_leaves_no_object_without_functions(small: Path) -> None:
    build = "from detour.base.native import ensure; import small; ensure([small.SMALL]); small.SMALL.load(); "
    as_python = _python(small, "-c", build + "print(small.weighted(3, 0.5, True))", NUMBA_DISABLE_JIT="1")
    assert as_python == "113.0\n"
    assert not list(small.glob("cache/**/*.o"))
    building = "from detour.base.native import build_side_by_side; print(*build_side_by_side([('small', 'small')]))"
    assert "'name': 'small'" in _python(small, "-c", building, NUMBA_DISABLE_JIT="1")
    assert _python(small, "-c", _USE) == "True 113.0 0 False\n"


@native
def test_it_is_built_where_numba_has_compiled_something_before(small: Path) -> None:
    before = "import numba; numba.njit(lambda x: x ** 2 / 3)(1); "
    assert _python(small, "-c", before + _USE) == "False 113.0 0 True\n"


@native
def test_what_cannot_be_built_is_one_line(small: Path) -> None:
    (small / "added.py").write_text("ADDED = object()\n")
    output = _python(small, "-c", _TRY)
    assert "DetourError" in output
    assert (
        "native code cannot be built (--object small small): SyntaxError: Unknown attribute 'ADDED'"
        in output.replace("\\", "")
    )
    assert output.count("\n") == 1


@native
def test_what_needs_numba_is_not_built(with_arrays: Path) -> None:
    part = (with_arrays / "small.py").read_text()
    (with_arrays / "small.py").write_text(part.replace("pieces[row].copy()", "pieces[row].reshape(1, -1)"))
    assert "which only Numba has" in _python(with_arrays, "-c", _TRY)


@native
def test_without_a_cache_it_is_built_and_used(small: Path) -> None:
    (small / "cache").write_text("no folder")
    assert _python(small, "-c", _USE, warns=True).startswith("False 113.0 0 False\n")


@native
def test_of_many_that_need_it_one_builds_it(small: Path) -> None:
    command = [sys.executable, *BUILD_COMMAND[1:], "small", "small"]
    environment = os.environ | {
        "XDG_CACHE_HOME": str(small / "cache"),
        "PYTHONPATH": f"{small}:{os.environ.get('PYTHONPATH', '')}",
    }
    environment.pop("NUMBA_CACHE_DIR", None)
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    parts = [json.loads(process.communicate()[0]) for process in processes]
    assert {(part["name"], part["functions"]) for part in parts} == {("small", 3)}
    assert [part["cached"] for part in parts].count(False) == 1


@native
def test_a_build_whose_parent_has_ended_does_not_begin(small: Path) -> None:
    another = subprocess.Popen(["true"])
    another.wait()
    environment = os.environ | {"XDG_CACHE_HOME": str(small / "cache"), parts.PARENT: str(another.pid)}
    command = [sys.executable, *BUILD_COMMAND[1:], "small", "small"]
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 1
    assert not (small / "cache").exists()


_ARRAYS = """
import numpy as np, small
rows, chosen, found = np.arange(12, dtype=np.int32).reshape(4, 3), np.array([True, False, True, True]), np.zeros(4)
for _ in range(100):
    count = small.sums(small.Scaled(0.5, rows), chosen, found)
print(count, found.tolist())
for wrong in (rows.T, rows[:, :2], rows.astype(np.int64), rows[0]):
    try:
        small.sums(small.Scaled(0.5, wrong), chosen, found)
    except TypeError as error:
        print(error)
try:
    small.many(1 << 44, found)
except MemoryError as error:
    print(error)
"""


@native
def test_arrays_and_named_tuples_of_them_are_passed(with_arrays: Path) -> None:
    sums, *wrong, memory = _python(with_arrays, "-c", _ARRAYS).splitlines()
    assert sums == "3 [1.5, 0.0, 10.5, 15.0]"
    taken = "sums takes an array of int32, 2 dimensions, C-contiguous"
    assert wrong == [
        f"{taken}, not int32, 2, strided", f"{taken}, not int32, 2, strided", f"{taken}, not int64, 2, C-contiguous",
        f"{taken}, not int32, 1, C-contiguous",
    ]  # fmt: skip
    assert memory == "many: there is no memory for its arrays"


def test_every_part_is_built_by_warm() -> None:
    named = {part.name for part in warm.ALL_PARTS}
    assert {"loop", "rdma", "ip", "driver", "expander", "fors", "placement", "verifier"} <= named
    assert len(named) == len(warm.ALL_PARTS)


@native
def test_a_part_names_the_modules_of_its_entries() -> None:
    for path in (sources.PACKAGE / "control").rglob("*.py"):
        importlib.import_module(".".join(("detour", *path.relative_to(sources.PACKAGE).with_suffix("").parts)))
    for part in (EXPANDER, FORS_PART, PLACEMENT, COLOURING, VERIFIER):
        assert {entry.py_func.__module__ for entry in part.entries.values()} == set(part.modules)


def test_threads_get_the_same_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to Python 3.11 `cached_property` has a lock. Without one the object is freed that another thread executes."""
    monkeypatch.setitem(parts.PARTS, "twice", LOOP)  # which is none of them afterwards
    part, together = Part("twice", "detour.base.native"), threading.Barrier(2)
    monkeypatch.setattr(parts, "stored", lambda names: b"object")

    def load(data: bytes) -> object:
        with suppress(threading.BrokenBarrierError):
            together.wait(timeout=0.2)  # until another thread loads it as well, if it may
        return object()

    monkeypatch.setattr(objects, "NativeCode", load)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: part.code, range(2))
    assert first is second
    assert together.broken
