# SPDX-License-Identifier: Apache-2.0
"""`detour fcplus`: what it prints."""

from __future__ import annotations

import json

import pytest

from detour import cli

SMALL = ("--n", "12", "--s", "6", "--v", "3", "--hosts", "1")
PROVEN = {"acyclic", "channels", "dependencies", "seconds"}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.main(["fcplus", *arguments, *SMALL])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "keys"),
    [
        (("build",), 0, {"spec", "switches", "hosts", "links", "layers", "seconds"}),
        (("paths", "--k", "2"), 0, {"pairs", "paths", "k2_mean", "n_p4", "seconds"}),
        (("throughput", "--k", "2"), 0, {"theta", "upper_bound", "gap", "seconds"}),
        (("prove", "--k", "2"), 0, PROVEN),
        (("prove", "--k", "2", "--tagger"), 0, PROVEN | {"tagger_priorities"}),
        (("prove", "--k", "8", "--priorities", "0"), 1, PROVEN | {"tagger_priorities", "cycle"}),
    ],
)
def test_json(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, keys: set[str]) -> None:
    ended, out = run(capsys, *options, "--json")
    assert (ended, json.loads(out).keys()) == (code, keys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("build",), ("fcplus:n=12,s=6,v=3,hosts=1,seed=1", "layers")),
        (("paths", "--k", "2"), ("k2 mean", "mean length")),
        (("throughput", "--k", "2"), ("upper bound", "exact")),
        (("prove", "--k", "8", "--priorities", "0"), ("NO", "a cycle: s", "Tagger needs")),
    ],
)
def test_people_read(capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: tuple[str, ...]) -> None:
    out = run(capsys, *options)[1]
    assert all(word in out for word in words)
