# SPDX-License-Identifier: Apache-2.0
"""`detour up SCENARIO`: what a file says, what counts more, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.fabric.backends.bmv2 import switch
from detour.fabric.daemon import daemon
from detour.fabric.daemon.daemon import UpOptions

EXAMPLE = Path(__file__).parents[3] / "docs" / "scenarios" / "slow-fabric.yaml"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[UpOptions, str]]:
    """(what would be started, the fabric's name)."""
    starts: list[tuple[UpOptions, str]] = []

    def run(options: UpOptions, *more: Any) -> None:
        starts.append((options, os.environ["DETOUR_FABRIC"]))

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("DETOUR_FABRIC", "")
    monkeypatch.setattr(daemon, "run", run)
    return starts


def test_the_example(asked):
    assert cli.main(["up", str(EXAMPLE)]) == 0
    ((options, name),) = asked
    assert (options.target, options.topology, name) == ("engine", "dragonfly:p=1,a=2,h=1", "slow")
    assert (options.rate_bps, options.delay_ps, options.queue_packets) == (10_000_000, 50_000_000, 64)
    assert (options.load, options.loss, options.pcap) == ("permutation", None, None)


def test_the_engine_is_taken_unless_another_target_is_asked_for(asked):
    for more in ([], ["--pace", "2x"], ["--target", "bmv2"], ["--target", "auto"]):
        assert cli.main(["up", "--topo", "fat-tree:k=4", *more]) == 0
    assert [options.target for options, _ in asked] == ["engine", "virtual", "bmv2", "auto"]


@pytest.mark.parametrize(
    ("reason", "target", "says"),
    [
        (
            None,
            "auto",
            "BMv2's switches (simple_switch_grpc is installed and you are root); --target engine "
            "(`make run TARGET=engine`) runs on detour's engine",
        ),
        ("a tool is missing: x", "auto", "detour's engine (a tool is missing)"),
        (None, "engine", "detour's engine"),
    ],
)
def test_a_line_says_which_switches_run_and_why(reason, target, says, monkeypatch, capsys):
    def boot(options: UpOptions, progress: object) -> None:
        raise DetourError("not here")

    monkeypatch.setattr(switch, "missing", lambda: reason)
    monkeypatch.setattr(daemon, "boot", boot)
    assert cli.main(["demo", "--target", target, "--topo", "dragonfly:p=1,a=2,h=1"]) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == f"detour: running on {says}"
    assert rest == ["detour: not here"]
    assert cli.main(["demo", "--json", "--topo", "dragonfly:p=1,a=2,h=1"]) == 2
    assert capsys.readouterr().err == "detour: not here\n"


def test_the_command_line_counts_more(asked):
    assert cli.main(["up", str(EXAMPLE), "--rate", "20M", "--topo", "fat-tree:k=4", "--loss", "0.1"]) == 0
    ((options, _),) = asked
    assert (options.rate_bps, options.topology, options.loss) == (20_000_000, "fat-tree:k=4", 0.1)
    assert options.queue_packets == 64


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topo: d1\nspeed: 5\n", "line 2: there is no 'speed'; allowed: target, topo"),
        ("topo: d1\nrate: fast\n", "line 2: argument --rate: 'fast' is not a rate"),
        ("rate: [1M, 2M]\n", "line 1: rate must be a text or a number"),
        ("rate: 1M\nrate: 2M\n", "line 2: rate appears twice"),
        ("- a\n", "expected lines `key: value`"),
        ("a: [\n", "line 2"),
        ("target: moon\n", "line 1: argument --target: invalid choice: 'moon'"),
        ("name: a/b\n", "'a/b' is not a fabric name"),
    ],
)
def test_what_is_refused(capsys, monkeypatch, tmp_path, text, says):
    monkeypatch.setenv("DETOUR_FABRIC", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    file = tmp_path / "lab.yaml"
    file.write_text(text)
    assert cli.main(["up", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


def test_a_file_that_is_not_there(capsys):
    assert cli.main(["up", "/no/such.yaml"]) == 2
    assert capsys.readouterr().err == "detour: /no/such.yaml: No such file or directory\n"
