# SPDX-License-Identifier: Apache-2.0
"""`detour exec`: which words are the command, and which are detour's."""

import os

import pytest

from detour.cli.lifecycle import _command_of


@pytest.mark.parametrize(
    ("words", "command", "fabric"),
    [
        (["--", "ping", "h1"], ["ping", "h1"], None),
        (["ping", "h1"], ["ping", "h1"], None),
        (["--name", "lab", "--", "ping"], ["ping"], "lab"),
        (["--name=lab", "--", "git", "log", "--", "x"], ["git", "log", "--", "x"], "lab"),
        (["git", "log", "--", "x"], ["git", "log", "--", "x"], None),
        (["--", "tool", "--name", "x"], ["tool", "--name", "x"], None),
        ([], [], None),
    ],
)
def test_the_command(words, command, fabric, monkeypatch):
    monkeypatch.setenv("DETOUR_FABRIC", "")
    assert _command_of(words) == command
    assert (os.environ["DETOUR_FABRIC"] or None) == fabric
