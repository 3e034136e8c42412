# SPDX-License-Identifier: Apache-2.0
"""The command line: what is refused, what is asked of the fabric, what is printed."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.base.tables import Table, left
from detour.cli.lifecycle import _command_of
from detour.cli.output import present
from detour.cli.parser import commands_of
from detour.control.graph_files import open_topology
from detour.fabric.daemon import control_socket
from tests.waiting import PATIENCE_S

SENT = {
    "bytes_ok": 1000, "throughput_mbps": 1.5, "paths": [{"path": "sport:0x8001", "packets": 1, "switches": ["s0"]}],
    "retransmitted": 0, "ecn_marked": 0, "queuing_delay_ns": {"min": 0.0, "mean": 1e6, "max": 2e6},
}  # fmt: skip
WRITTEN = {"entries": 5, "inserted": 1, "modified": 2, "deleted": 3, "unchanged": 0, "seconds": 0.5}
ANSWERS: dict[str, Any] = {
    "status": {
        "target": "engine", "topology": "d1", "switches": 2, "hosts": 2, "links": 3, "entries": 9, "failures": [],
        "rate_mbps": 20.0, "seconds_up": 3.2, "endpoints": {"s0": {"address": "127.0.0.1:9", "device_id": 1}},
        "lost": {}, "displaced": {}, "icmp_answered": 0,
    },
    "provision": WRITTEN | {"switches": 2},
    "verify": {
        "verified": True, "pairs": 2, "disconnected": 0, "proofs": 4, "ways": 4, "sids": 4, "failed": 0, "problems": [],
        "longest": {"shortest": 2, "detour": 3}, "bound": {"shortest": 2, "detour": 3}, "seconds": 0.1,
    },
    "entries": {"s0": [{"table": "a.route", "match": "x=1", "action": "forward(port=1)", "priority": 0}]},
    "counters": {"s0": {"ports": {"1": {f"{n}_{u}": 1 for n in ("rx", "tx", "enqueued", "marked") for u in ("packets",
        "bytes")}}, "verdicts": {"forwarded": 1}}},
    "watch": {"seconds": 1.0, "pipeline_drops": 0, "links": [
        {"link": "s0-s1", "from": "s0:1", "kind": "local", "up": True, "mbps": 5.0, "use": 0.25, "queue_packets": None,
         "drops": None, "marks": 0}]},
    "path": {"path": "sport:0x0000", "delivered": True, "outcome": "delivered to h1", "hops": [
        {"switch": "s0", "in_port": 1, "out_port": 2, "why": "because"}]},
    "fail": WRITTEN | {"failures": [], "failed": "s0-s1"},
    "heal": WRITTEN | {"failures": [], "healed": "s0-s1"},
    "send": SENT,
    "probe": {"source": "h0", "target": "h1", "paths": [
        {"path": "sport:0x0001", "delay_ns": None, "switches": ["s0"]}]},
    "flows": {"window_s": 0.1, "watching": False, "switch_window_s": 1.0, "flows": []},
    "watch_flows": {"window_s": 0.1, "watching": True, "switch_window_s": 1.0, "flows": []},
    "prove": {
        "deadlock_free": True, "topology": "fcplus:n=8,s=4", "switches": 8, "entries": 99, "lossless": [0, 1],
        "installed": {"acyclic": True, "channels": 9, "dependencies": 9},
        "senders": {"acyclic": True, "channels": 9, "dependencies": 9, "lists": 1},
        "plain_traffic": {"acyclic": True, "channels": 9, "dependencies": 9, "lossy": 0.1},
        "failed": {"acyclic": True, "channels": 9, "dependencies": 9, "links": ["s0-s1"], "unrouted": 2},
        "seconds": 1.0,
    },
    "load": {"pattern": "adv1", "pairs": 2, "bytes_ok": 1000, "bytes_wrong": 0, "reopened": 0, "seconds": 1.5},
    "capture": {"folder": "/tmp/x", "files": ["s0-1.pcapng"], "error": None},
    "trace": {"hops": [{"switch": "s0", "port": 1, "at_ns": 0, "trace": {"events": [
        {"kind": "stage", "stage": "parser", "source": None}], "outcome": {"output": {"port": 2, "hex": "00"}}}}],
        "outcomes": [{"fraction": 1.0, "dropped": None, "packets": [
            {"switch": "s0", "port": 2, "host": "h1", "hex": "00"}]}]},
    "trace_live": {"packets": [], "missed": 0},
    "reroute": {"flow": "h0-h9", "path": "usid:s9,s3", "switches": ["s0", "s9", "s3"]},
}  # fmt: skip


@pytest.fixture(autouse=True)
def _nameless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What `--name` sets does not outlive a test, nor is a fabric of the user's asked."""
    monkeypatch.setenv("DETOUR_FABRIC", "")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What commands ask of the fabric; it answers as in `ANSWERS`."""
    questions: list[tuple[str, dict[str, Any]]] = []

    def ask(do: str, progress: Any = None, state: Any = None, *, warn: Any = None, **arguments: Any) -> Any:
        questions.append((do, {key: value for key, value in arguments.items() if value is not None}))
        return ANSWERS[do]

    monkeypatch.setattr(control_socket, "ask", ask)
    return questions


@pytest.mark.parametrize(
    ("line", "do", "arguments"),
    [
        ("status", "status", {}),
        ("provision", "provision", {}),
        ("verify", "verify", {}),
        ("entries", "entries", {}),
        ("entries s0 --table route", "entries", {"switch": "s0", "table": "route"}),
        ("counters s0", "counters", {"switch": "s0"}),
        ("watch --once --interval 0.5", "watch", {"seconds": 0.5}),
        ("path h0 h1", "path", {"source": "h0", "target": "h1"}),
        ("path h0 h1 --sport 0x8001", "path", {"source": "h0", "target": "h1", "sport": 0x8001}),
        (
            "trace h0 h1 --sport 1 --all",
            "trace",
            {"source": "h0", "target": "h1", "sport": 1, "length": 1000, "all_ways": True},
        ),
        ("path h0 h1 --usid s1,s2", "path", {"source": "h0", "target": "h1", "usid": "s1,s2"}),
        ("fail s0-s1", "fail", {"name": "s0-s1"}),
        ("heal", "heal", {}),
        ("heal s3", "heal", {"name": "s3"}),
        ("send h0 h1 --bytes 1000", "send", {"source": "h0", "target": "h1", "length": 1000, "spray": False}),
        ("send h0 h1 --bytes 1k --spray", "send", {"source": "h0", "target": "h1", "length": 1000, "spray": True}),
        ("probe h0 h1", "probe", {"source": "h0", "target": "h1"}),
        ("fcplus prove --running --k 4", "prove", {"k": 4}),
        ("load adv1", "load", {"pattern": "adv1", "stop": False}),
        ("load --stop", "load", {"stop": True}),
        ("capture /tmp/x s3 s0-s4", "capture", {"folder": "/tmp/x", "where": ["s3", "s0-s4"], "stop": False}),
        ("capture --stop --name lab", "capture", {"stop": True}),
    ],
)
def test_commands_ask_and_print(asked, capsys, line, do, arguments):
    assert cli.main(line.split()) == 0
    assert asked == [(do, arguments)]
    assert capsys.readouterr().out.strip()
    assert cli.main([*line.split(), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == ANSWERS[do]
    assert (out.count("\n"), err) == (1, "")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("fly", "there is no command 'fly' (try `detour --help`)"),
        ("statsu", "there is no command 'statsu'; did you mean status? (try `detour --help`)"),
        ("fors rotue", "there is no command 'rotue'; did you mean route?; there are schedule, route, verify"),
        ("reproduce nosuch", "there is no command 'nosuch'; there are nonshortest, pfc-gain, "),
        ("bench nosuch", "there is no command 'nosuch'; there are switch, "),
        ("status --fast", "unrecognized arguments: --fast (try `detour status --help`)"),
        ("sim --tpo=d1", "unrecognized arguments: --tpo=d1; did you mean --topo? (try `detour sim --help`)"),
        ("reproduce loss --quik", "did you mean --quick? (try `detour reproduce loss --help`)"),
        ("reproduce all --from README.md", "--from: README.md is not a file of runs written by --keep"),
        ("reproduce rivals --from docs", "--from: docs: Is a directory"),
        ("fcplus build --n -3", "n=-3, but s=22 links to different switches take 23 or more"),
        ("--fast status", "unrecognized arguments: --fast"),
        ("send h0", "required: DST"),
        ("send h0 h1 --bytes zero", "'zero' is not a number of bytes"),
        ("send h0 h1 --bytes 0", "'0' is not a number of bytes, 1 to"),
        ("send h0 h1 --bytes -5", "--bytes"),
        ("send h0 h1 --byte 5", "unrecognized arguments: --byte"),
        ("send h0 h1 --sport 65536", "'65536' is not a UDP source port, 0 to 65535"),
        ("send h0 h1 --sport 1 --usid s1", "not allowed with argument"),
        ("send h0 h1 --bytes 5 --file x", "not allowed with argument"),
        ("send h0 h1 --store x", "--store needs --file"),
        ("send h0 h1 --file x --store ./x", "would be overwritten"),
        ("watch --interval 0", "'0' is not a time in seconds"),
        ("up --target moon", "invalid choice: 'moon'"),
        ("demo --target moon", "invalid choice: 'moon'"),
        ("demo --target engine --topo leaf-spine:leaves=2,spines=2,hosts=1", "pattern adv1 needs two groups of hosts"),
        ("up --rate fast", "'fast' is not a rate"),
        ("up --delay 5", "'5' is not a time up to 10000s with its unit"),
        ("up --queue 1", "'1' is not a number of packets, 2 to"),
        ("up --loss 1.5", "'1.5' is not a fraction from 0 to 1"),
        ("up --target engine --loss 1", "a loss of 1; expected 0 to below 1"),
        ("up --target engine --program x", "'x' is neither a P4 program"),
        ("up --target engine --program /no,/where", "/no: there is no such file"),
        ("up --target engine --load adv7", "there is no traffic pattern 'adv7'"),
        ("up --target engine --load unf:pairs=0", "pattern unf has 1 to"),
        ("status --name a/b", "'a/b' is not a fabric name"),
        ("path h0", "required: DST"),
        ("fail", "required: LINK|SWITCH"),
        ("trace h0", "trace needs SRC and DST"),
        ("trace h0 h1 --packet 00", "need --program"),
        ("trace --program x --packet 00", "'x' is neither a P4 program"),
        ("trace --program x --topo d1", "use --packet and --port"),
        ("trace h0 h0 --topo d1", "source and destination are both h0"),
        ("trace h0 h99 --topo d1", "host 'h99'"),
        ("trace h0 h1 --topo d1 --bytes 3", "a payload of 3 bytes"),
        ("trace --live udp --count 0", "--count: '0' is not a number of packets, 1 to 1000"),
        ("fcplus prove --running --n 12", "--n does not go with --running"),
        ("fcplus prove --running --max-hops 3", "--max-hops does not go with --running"),
    ],
)
def test_what_is_wrong_takes_one_line(refused, line, says):
    assert says in refused(*line.split())


@pytest.mark.parametrize(("line", "command"), [("", "place"), ("fors", "route"), ("fcplus", "prove")])
def test_without_a_command_help_lists_them(capsys, line, command):
    with pytest.raises(SystemExit) as ended:
        cli.main(line.split())
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    assert f"  {command} " in out


def test_topologies_of_files_go_by_their_names_but_not_in_json(capsys, refused, tmp_path):
    file = tmp_path / "ring.csv"
    file.write_text("a,b\nh0,s0\nh1,s0\n")
    assert f"host 'h9': {file} has h0 to h1" in refused("trace", "h0", "h9", "--topo", str(file))
    spec = open_topology(str(file)).spec
    assert "#" in spec
    options = argparse.Namespace(json=False)
    present({"topology": spec}, options, lambda page: page.table(Table([left("on", str)], [f"{spec},x"], f"of {spec}")))
    shown = capsys.readouterr().out
    assert f"of {file}" in shown
    assert f"{file},x" in shown
    assert "#" not in shown
    present({"topology": spec}, argparse.Namespace(json=True), lambda page: None)
    assert json.loads(capsys.readouterr().out) == {"topology": spec}


@pytest.mark.parametrize("line", ["status", "send h0 h1 --json", "verify", "shell s0", "watch --json"])
def test_without_a_fabric(capsys, monkeypatch, tmp_path, line):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert cli.main(line.split()) == 2
    assert capsys.readouterr() == ("", "detour: no fabric is up; `detour up --detach` starts one\n")


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("ring:n=4", "there is no 'ring'"),
        ("dragonfly:p=2,a=4", "h= missing|h missing"),
        ("dragonfly:p=2,a=4,h=x", "h=x is not a whole number"),
        ("fat-tree:k=5", "k"),
    ],
)
def test_bad_topologies_name_the_rule(capsys, monkeypatch, tmp_path, spec, says):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert cli.main(["up", "--target", "engine", "--topo", spec]) == 2
    _, err = capsys.readouterr()
    assert any(part in err for part in says.split("|"))
    assert not (tmp_path / "detour").exists()


def test_checks_that_fail_exit_with_1(asked, monkeypatch):
    monkeypatch.setitem(ANSWERS, "verify", ANSWERS["verify"] | {"verified": False, "failed": 1, "problems": ["oh"]})
    assert cli.main(["verify"]) == 1
    failed = ANSWERS["prove"]["failed"] | {"acyclic": False}
    monkeypatch.setitem(ANSWERS, "prove", ANSWERS["prove"] | {"deadlock_free": False, "failed": failed, "cycle": ["a"]})
    assert cli.main(["fcplus", "prove", "--running"]) == 1
    monkeypatch.setitem(ANSWERS, "send", SENT | {"bytes_ok": 999})
    assert cli.main(["send", "h0", "h1", "--bytes", "1000", "--json"]) == 1
    monkeypatch.setitem(ANSWERS, "path", ANSWERS["path"] | {"delivered": False})
    assert cli.main(["path", "h0", "h1"]) == 1


def test_missing_bmv2_is_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for line in ("demo --target bmv2", "up --target bmv2"):
        assert cli.main(line.split()) == 2
        err = capsys.readouterr().err.splitlines()[-1]
        assert err.startswith("detour: simple_switch_grpc is not on PATH: install p4lang-bmv2") or "p4lang-bmv2" in err


def test_the_engine_has_one_endpoint_and_bmv2_has_many(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert "--grpc needs --target engine" in refused("up", "--target", "bmv2", "--grpc", "127.0.0.1:1")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    script = (
        "import sys\nfrom detour import cli\nfrom detour.fabric.daemon import control_socket\n"
        "row = {'table': 't', 'match': 'm', 'action': 'a', 'priority': 0}\n"
        "control_socket.ask = lambda *a, **k: {f's{i}': [row] * 100 for i in range(100)}\n"
        "sys.exit(cli.main(['entries']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0


def test_help_has_every_command_in_one_group():
    named = [name for names in cli._HELP.values() for name in names]
    assert sorted(named) == sorted(commands_of(cli.make_parser()))
    assert "\nplanning:\n  topo " in cli.make_parser().format_help()


@pytest.mark.parametrize("name", sorted(commands_of(cli.make_parser())))
def test_a_command_needs_only_its_own_module(name):
    alone = commands_of(cli.make_parser(name))
    assert name in alone
    assert name in cli._OWN or len(alone) < len(commands_of(cli.make_parser())) / 2


def test_help_and_version(capsys):
    for line in ("--help", "send --help", "--version"):
        with pytest.raises(SystemExit) as exit_:
            cli.main(line.split())
        assert exit_.value.code == 0
    assert "detour 0." in capsys.readouterr().out


def test_commands_of_their_own_get_their_arguments(monkeypatch):
    from detour.cli import switch

    got: list[Any] = []
    monkeypatch.setattr(switch, "main", lambda arguments: got.append(arguments) or 7)
    assert cli.main(["switch", "-i", "1@veth0", "--", "--cpu-port", "510"]) == 7
    assert got == [["-i", "1@veth0", "--", "--cpu-port", "510"]]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [(KeyboardInterrupt(), 130, ""), (DetourError("d1 has h0 to h71"), 2, "detour: d1 has h0 to h71\n")],
)
def test_errors_of_the_fabric_are_one_line_and_an_interrupt_none(error, code, line, monkeypatch, capsys):
    def ask(*arguments: Any, **more: Any) -> Any:
        raise error

    monkeypatch.setattr(control_socket, "ask", ask)
    assert cli.main(["probe", "h0", "h99", "--json"]) == code
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("name", ["status", "switch"])
def test_a_mistake_of_ours_is_one_line_and_a_traceback_in_a_file(name, monkeypatch, capsys, tmp_path):
    def fail(*_: Any, **__: Any) -> None:
        raise TypeError("unexpected\nthing")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(control_socket, "ask", fail)
    monkeypatch.setattr("detour.engine.switch.options.parse", fail)
    assert cli.main([name]) == 70
    error = capsys.readouterr().err
    kept = tmp_path / "detour" / "errors.log"
    assert error.count("\n") == 1
    assert "internal error of detour" in error
    assert error.endswith(f"TypeError: unexpected thing; the traceback is in {kept}\n")
    assert "in fail" in kept.read_text()
    assert kept.parent.stat().st_mode & 0o77 == 0


def test_out_of_memory_says_what_it_lacked(monkeypatch, refused):
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 2.00 GiB for an array")

    monkeypatch.setattr(control_socket, "ask", fail)
    assert "out of memory: Unable to allocate 2.00 GiB for an array: " in refused("status")


def limited(mebibytes: int, *arguments: str) -> list[str]:
    """`detour` with so much address space. A shell limits it, since `preexec_fn` forks this process, in which gRPC may
    then complain into the command's standard error."""
    command = [sys.executable, "-m", "detour.cli", *arguments]
    return ["sh", "-c", f'ulimit -v {mebibytes << 10}; exec "$@"', "sh", *command]


@pytest.mark.parametrize("mebibytes", [250, 300, 600, 1000, 1300])
def test_a_switch_without_address_space_says_so(mebibytes, tmp_path):
    """`ulimit -v`: one line, no traceback, no signal."""
    done = subprocess.run(
        limited(mebibytes, "switch", "--no-p4", "--", "--grpc-server-addr", "127.0.0.1:0"),
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        timeout=250,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{mebibytes} MiB of address space (ulimit -v)" in done.stderr


@pytest.mark.parametrize("mebibytes", [250, 600, 1300])
@pytest.mark.parametrize("detach", [False, True])
def test_a_fabric_without_address_space_says_so(detach, mebibytes, tmp_path):
    """The same of `detour up`; nothing is left."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        limited(mebibytes, "up", "--topo", "dragonfly:p=1,a=2,h=1", *["--detach"] * detach),
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(runtime)},
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"{mebibytes} MiB of address space (ulimit -v)" in done.stderr
    assert not list(runtime.iterdir())


# -- detour exec: which words are the command ----------------------------------------------------------------


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
