# SPDX-License-Identifier: Apache-2.0
"""Limits of open files, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest


def limited(soft: int, hard: int, code: str) -> subprocess.CompletedProcess[str]:
    prelude = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))\n"
    prelude += "from detour.base.descriptors import Reserve, require\n"
    return subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True, timeout=120)


def test_the_soft_limit_is_raised() -> None:
    done = limited(40, 300, "require(64, 'x'); print(resource.getrlimit(resource.RLIMIT_NOFILE))")
    assert (done.stdout, done.stderr) == ("(300, 300)\n", "")


def test_too_low_a_limit_is_said_in_one_line() -> None:
    code = "from detour.base.errors import DetourError\ntry: require(64, 'a fabric')\nexcept DetourError as e: print(e)"
    done = limited(40, 40, code)
    assert done.stdout == "a fabric needs 64 open files, the limit is 40: raise it with ulimit -n\n"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("up", "--target", "engine", "--topo", "dragonfly:p=1,a=2,h=1"), "a fabric"),
        (("up", "--detach", "--target", "engine"), "a fabric"),
        (("switch", "--no-p4"), "detour switch"),
    ],
)
def test_commands_say_so_and_exit_with_2(arguments: tuple[str, ...], what: str, tmp_path) -> None:
    command = ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", sys.executable, "-m", "detour.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={"XDG_RUNTIME_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{what} needs 64 open files, the limit is 12: raise it with ulimit -n" in done.stderr


def test_a_reserve_gives_what_it_has_and_takes_what_it_can() -> None:
    code = """
import os
reserve = Reserve(3)
taken = []
try:
    while True: taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError: pass
for _ in range(3):
    assert reserve.release()
    taken.append(os.open(os.devnull, os.O_RDONLY))
assert not reserve.release()
reserve.refill()
assert not reserve.release()
os.close(taken.pop()); os.close(taken.pop())
reserve.refill()
assert reserve.release() and reserve.release() and not reserve.release()
reserve.close()
print("fine")
"""
    assert limited(40, 40, code).stdout == "fine\n"
