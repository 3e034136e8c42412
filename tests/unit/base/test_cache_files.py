# SPDX-License-Identifier: Apache-2.0
"""The cache may be damaged, full, missing or somebody else's: everything goes on, and nobody else's code is run."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from detour.base import cache, secure_dir
from detour.base.cache import Cache
from detour.engine.compiler.program import Program
from tests.unit.base.native_script import ROOT, output_lines, run, written

pytestmark = pytest.mark.timeout(1800)  # it compiles, on a machine that may be busy
PROGRAM = Path(__file__).resolve().parents[2] / "programs" / "compiler" / "faults.json"
HITS = "print(size(), loaded())"


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _replace(path: Path) -> None:
    """What Numba would have unpickled."""
    path.write_bytes(b"\x80\x05cos\nsystem\n(Vtouch owned\ntR.")


DAMAGES = pytest.mark.parametrize("damage", [_cut, _garble, _empty, _replace])


@pytest.fixture(autouse=True)
def forget_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_said", set())


@pytest.fixture(scope="module")
def used_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    assert output_lines(HITS, folder) == ["1102 0"]
    assert output_lines(HITS, folder) == ["1102 1"]
    return folder


@pytest.fixture
def compiled(used_cache: Path, tmp_path: Path) -> Path:
    """A cache that has been used, to be damaged."""
    return shutil.copytree(used_cache, tmp_path / "cache")


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "detour").rglob("*") if path.is_file() and path.suffix != ".lock"]


@DAMAGES
def test_a_damaged_file_is_not_read(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    kept = Cache("one", top=lambda: tmp_path)
    kept.put("name", b"content" * 100)
    damage(tmp_path / "one" / "name")
    assert kept.get("name") is None


def test_damaged_native_code_is_compiled_anew(compiled: Path) -> None:
    files = _files(compiled)
    assert files
    for path in files:
        _garble(path)
    assert output_lines(HITS, compiled) == ["1102 0"]
    assert output_lines(HITS, compiled) == ["1102 1"]


@DAMAGES
def test_a_damaged_program_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    Program.from_json(PROGRAM)
    (path,) = _files(tmp_path)
    good = path.read_bytes()
    damage(path)
    Program.from_json(PROGRAM)
    assert path.read_bytes() == good


def test_what_is_not_used_for_a_month_is_forgotten(tmp_path: Path) -> None:
    kept = Cache("one", top=lambda: tmp_path / "top")
    for name in ("used", "unused", "new"):
        kept.put(name, b"content")
    for name in ("used", "unused"):
        os.utime(tmp_path / "top" / "one" / name, (1e9, 1e9))
    assert kept.get("used") == b"content"
    kept.prune()
    assert {path.name for path in (tmp_path / "top" / "one").iterdir()} == {"used", "new"}


# -- where nothing can be written ---------------------------------------------------------------------------


def _no_file_may_grow() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def test_a_limit_for_the_size_of_files_costs_one_line(tmp_path: Path) -> None:
    done = run(HITS, tmp_path, _no_file_may_grow, XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "1102 0\n")
    assert _lines(done.stderr) == ["detour: going on without the cache: File too large"]
    assert _files(tmp_path) == []


@pytest.mark.parametrize("home", ["/dev/null", "/proc/nowhere"])
def test_a_home_that_cannot_be_written_costs_one_line(tmp_path: Path, home: str) -> None:
    done = run(HITS, tmp_path, HOME=home, XDG_CACHE_HOME="")
    assert (done.returncode, done.stdout) == (0, "1102 0\n")
    (line,) = _lines(done.stderr)
    assert line.startswith(f"detour: going on without the cache: {home}")


def test_a_user_without_a_home_costs_one_line(tmp_path: Path) -> None:
    script = "import pathlib\ndef home(): raise RuntimeError('Could not determine home directory.')\n"
    script += f"pathlib.Path.home = home\n{HITS}"
    done = run(script, tmp_path, HOME="", XDG_CACHE_HOME="")
    assert (done.returncode, done.stdout) == (0, "1102 0\n")
    assert _lines(done.stderr) == ["detour: going on without the cache: Could not determine home directory."]


@pytest.mark.kernel
def test_a_full_disk_costs_one_line(tmp_path: Path) -> None:
    """A file system of one page, which is taken, in a mount namespace of its own."""
    full = tmp_path / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=4k tmpfs {full} && head -c 4096 /dev/zero > {full}/rest"
    line = f"{mount} && XDG_CACHE_HOME={full} PYTHONPATH={ROOT}:{tmp_path} {sys.executable} {written(HITS, tmp_path)}"
    command = ["unshare", "--mount", "sh", "-e", "-c", line]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
    assert (done.returncode, done.stdout) == (0, "1102 0\n")
    assert _lines(done.stderr) == ["detour: going on without the cache: No space left on device"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_every_way_of_not_being_able_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(secure_dir.os, "replace", fail)
    Program.from_json(PROGRAM)
    Program.from_json(PROGRAM)
    assert caplog.messages == [f"detour: going on without the cache: {os.strerror(number)}"]
    assert _files(tmp_path) == []


# -- who may write there ------------------------------------------------------------------------------------


def test_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    base = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        Cache("one", "two", top=lambda: base).put("name", b"content")
    finally:
        os.umask(before)
    made = [tmp_path / "a", base, base / "one", base / "one" / "two"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in made] == [0o700] * 4
    assert stat.S_IMODE((base / "one" / "two" / "name").stat().st_mode) == 0o600


@pytest.mark.parametrize("which", [(), ("one",), ("one", "two")])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, which: tuple[str, ...], mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Cache("one", "two", top=lambda: tmp_path / "top")
    kept.put("name", b"content")
    assert kept.get("name") == b"content"
    open_one = (tmp_path / "top").joinpath(*which)
    open_one.chmod(mode)
    assert kept.get("name") is None
    kept.put("other", b"content")
    open_one.chmod(0o700)
    assert not (tmp_path / "top" / "one" / "two" / "other").exists()
    (line,) = caplog.messages
    assert f"{open_one} can be written by others" in line


@pytest.mark.parametrize("which", [(), ("one",), ("one", "two")])
def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, which: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Cache("one", "two", top=lambda: tmp_path / "top")
    kept.put("name", b"content")
    if os.geteuid() == 0:
        os.chown((tmp_path / "top").joinpath(*which), 4711, -1)
    else:
        monkeypatch.setattr(secure_dir.os, "geteuid", lambda: 4711)
    assert kept.get("name") is None
    (line,) = caplog.messages
    assert "belongs to user" in line


def test_a_link_below_the_cache_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "two").mkdir(parents=True, mode=0o700)
    (tmp_path / "top").mkdir(mode=0o700)
    (tmp_path / "top" / "one").symlink_to(tmp_path / "elsewhere")
    kept = Cache("one", "two", top=lambda: tmp_path / "top")
    kept.put("name", b"content")
    assert list((tmp_path / "elsewhere" / "two").iterdir()) == []


def test_native_code_of_others_is_not_run(compiled: Path) -> None:
    """The same content in a folder that others can write to."""
    (compiled / "detour" / "numba").chmod(0o777)
    done = run(HITS, compiled, XDG_CACHE_HOME=str(compiled))
    assert (done.returncode, done.stdout) == (0, "1102 0\n")
    (line,) = _lines(done.stderr)
    assert "can be written by others (mode 0777; chmod go-w)" in line


def test_a_relative_cache_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So says the XDG Base Directory Specification."""
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_dir() == tmp_path / ".cache" / "detour"


# -- native code is made without any program of the machine, and loaded without LLVM -------------------------


_PROGRAMS = """
import shutil
assert not any(shutil.which(name) for name in ("cc", "gcc", "clang", "ld", "as", "sh", "p4c-bm2-ss"))
from detour.engine.compiler.program import Program
program = Program.from_json(sys.argv[1])
print(size(), loaded(), program.parse_addr != 0, 'llvmlite' in sys.modules)
"""


def test_nothing_on_path(tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[2] / "programs" / "compiler" / "faults.json"
    script = f"sys.argv.append({str(source)!r})\n{_PROGRAMS}"
    for hits in (0, 1):
        done = run(script, tmp_path, PATH="/nonexistent", XDG_CACHE_HOME=str(tmp_path))
        assert (done.returncode, done.stdout, done.stderr) == (0, f"1102 {hits} True {not hits}\n", "")
