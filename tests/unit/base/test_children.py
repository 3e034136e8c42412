# SPDX-License-Identifier: Apache-2.0
"""A parent that is killed leaves no child behind, not even one that it had only just started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S

PARENT = """
import os, sys
from detour.base.children import end_with_parent, ending_with_parent

how, orphan = sys.argv[1], sys.argv[2] == "orphan"
parent = os.getpid()
work = ["sh", "-c", "echo begun; exec sleep 1000"]
command = ending_with_parent(work) if how == "command" else work
if os.fork() == 0:
    while orphan and os.getppid() == parent:
        pass
    if how == "function":
        end_with_parent(parent)
    os.execvp(command[0], command)
if not orphan:
    sys.stdin.read()
os.kill(parent, 9)
"""
"""a program; its child keeps standard output open while it lives"""

both = pytest.mark.parametrize("how", ["command", "function"])


def start(how: str, when: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PARENT, how, when]
    return subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@both
def test_a_child_ends_with_its_parent(how: str) -> None:
    with start(how, "later") as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "begun\n"
        assert parent.communicate(timeout=PATIENCE_S) == ("", None)


@both
def test_a_child_whose_parent_has_ended_does_not_begin(how: str) -> None:
    with start(how, "orphan") as parent:
        assert parent.communicate(timeout=PATIENCE_S) == ("", None)
