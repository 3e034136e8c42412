# SPDX-License-Identifier: Apache-2.0
"""Every option of every command changes something: those of `sim`, `reproduce` and the planners here, the others in the
tests of their commands."""

import argparse
import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from detour.base.places import BUILD
from detour.cli import main, make_parser
from detour.cli.asking import ANSWERED_BY
from detour.cli.lifecycle import up_options
from detour.cli.parser import Parser, actions_of, commands_of
from detour.experiments import reproduce
from detour.experiments.bench import fairness, gray
from detour.experiments.bench.report import BenchReport

ROOT = Path(__file__).resolve().parents[3]
SIM = "sim --topo leaf-spine:leaves=2,spines=2,hosts=2 --workload"
INCAST = f"{SIM} incast:bytes=100k"
MARKED = f"{SIM} incast:bytes=2M --scheme LERP-shortest"
JOB = f"{SIM} ring:bytes=2M --scheme LERP-shortest"
SMALL = "--n 16 --s 6 --p 8"
LAB = f"sim --lab {ROOT}/docs/labs/ecn --workload udp:src=h1,dst=h3,rate=20M,ecn=1,time=20ms"
MESSAGES = "--topo ft:m0=2,m1=3 --skew zipf:1.2"
PLACED = f"place {ROOT}/docs/jobs/ring16.yaml --topo leaf-spine:leaves=4,spines=4,hosts=4 --run"

PROGRAM = BUILD / "ugal"

RUN = [
    (INCAST, "--scheme LERP-shortest"), (MARKED, "--cc fixed"), (MARKED, "--ecn 10k"), (MARKED, "--ecn off"),
    (INCAST, "--rate 50G"), (INCAST, "--delay 5us"), (INCAST, "--buffer 20k"), (INCAST, "--loss 0.01"),
    (INCAST, "--fail s0-s2@3us"), (f"{INCAST} --scheme LERP-shortest --fail s0-s2@3us", "--reroute-after 20us"),
    (INCAST, "--duration 5us"), (f"{INCAST} --loss 0.01", "--seed 2"), (JOB, "--connections 2"),
    (f"{LAB} --trace marked --trace-count 1", "--tick 1ns"), (f"fcplus build {SMALL}", "--family jellyfish"),
    (f"fcplus build {SMALL} --family fc", "--layers 3"), (f"fcplus build {SMALL}", "--v 4"),
    (f"fcplus build {SMALL}", "--seed 2"), (f"fcplus build {SMALL}", "--hosts 1"), (f"fcplus paths {SMALL}", "--k 2"),
    (f"fcplus paths {SMALL} --k 4", "--max-hops 4"), (f"fcplus paths {SMALL}", "--disjoint"),
    (f"fcplus paths {SMALL}", "--priorities 2"),
    ("fcplus throughput --n 120 --s 22 --pattern near-worst", "--ties plain"),
    (f"fcplus throughput {SMALL} --k 4", "--pattern uniform"),
    (f"fcplus throughput {SMALL} --k 4 --method approximate", "--gap 0.2"),
    (f"fcplus throughput {SMALL} --k 4 --gap 0.2", "--method approximate"),
    (f"fcplus compare {SMALL} --k 4 --routings dfsssp,nue", "--trees 1"),
    (f"fcplus compare {SMALL} --k 4 --routings nue --bounds 1", "--order-seed 2"),
    (f"fors schedule {MESSAGES}", "--phase-cost 1M"), (f"fors schedule {MESSAGES}", "--message 1M"),
    (f"fors schedule {MESSAGES}", "--seed 2"), (f"{PLACED} --scheme placed", "--rate 50G"),
    (f"{PLACED} --scheme placed", "--at 20us fail:s0-s4"), (PLACED, "--scheme spray"),
    (f"{PLACED} --scheme placed --at 20us fail:s0-s4", "--reroute-after 50us"),
]  # fmt: skip
"""a command, and an option with which it prints another document"""

SELECTED = {
    "nonshortest": (
        "--topology D2", "--pattern unf", "--pairs 8", "--scheme LERP-shortest", "--seeds 2", "--threshold 9",
        "--delays 1,2,3", "--headroom 9000", "--message 2M", "--loss 0.01", "--set own_share=no", "--step 90000",
        "--preamble", "--cc fixed", "--quick", "--full", "--processes 7", "--ray auto", "--out FILE",
        "--settings", "--tune FILE",
    ),
    "pfc-gain": ("--connections 64", "--seeds 2", "--quick", "--full"),
    "deadlock": ("--seeds 2",),
    "path-placement": ("--footing real", "--seconds 2", "--part steps", "--quick", "--full"),
    "fors": ("--seed 2", "--message 1M", "--quick", "--full"),
    "fcplus": ("--seeds 2", "--part transports", "--sizes web-search", "--quick", "--full"),
    "flat": (
        "--part failures", "--topology slimfly:n=18,s=5", "--matrix ring", "--ways ksp/REPS", "--failures links:0.01",
        "--seeds 2", "--quick", "--full", "--from FILE",
    ),
    "qcn-switch": (
        "--topology dragonfly:p=1,a=2,h=1", "--routing VAL", "--pattern ADV", "--loads 0.2", "--windows 5,5",
        "--seed 2", "--transients", "--transients --pattern un:0.2,adv2:0.2@1ms", "--quick", "--full",
        "--from FILE", "--transients --from FILE",
    ),
    "loss": ("--loss 0.02", "--senders 3", "--seeds 2", "--quick", "--full"),
    "planes": ("--scheme REPS", "--seeds 2", "--quick", "--full"),
    "rivals": (
        "--topology D2", "--pattern unf", "--bytes 1000", "--scheme REPS", "--seeds 2", "--quick", "--full",
        "--from FILE",
    ),
    "queues": ("--load 0.2", "--seed 2", "--quick", "--full"),
    "tcp": ("--loss 0.02", "--flows 3", "--seed 2", "--quick", "--full"),
}  # fmt: skip
"""options of experiments, with which other points are run or the same by other means"""

NOT_FOR_A_TEST = {
    "--primary": "shell: needs p4runtime-shell, which is not installed for tests",
    "--source": "coverage: where P4 sources are that are not detour's",
    "--times": "bench start: how often each is repeated",
    "--turns": "bench lab and parallel: how often they are repeated",
    "--sets": "bench fors: size of its sample",
    "--speeds": "bench lab: what it measures",
}


@pytest.fixture(scope="module")
def plain() -> Callable[..., Any]:
    """`ask(command)`, asked once: several options are tried with the same command."""
    answers: dict[str, Any] = {}

    def once(ask: Callable[[str], Any], command: str) -> Any:
        if command not in answers:
            answers[command] = ask(command)
        return answers[command]

    return once


def document(capsys: pytest.CaptureFixture[str], command: str) -> Any:
    main([*command.split(), "--json"])
    report = json.loads(capsys.readouterr().out)
    return _without_seconds(report) if command.startswith(("fcplus", "place")) else report


def _without_seconds(answer: Any) -> Any:
    """Without how long a planner took, which is never the same."""
    if isinstance(answer, dict):
        return {key: _without_seconds(value) for key, value in answer.items() if key != "seconds"}
    return [_without_seconds(each) for each in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize(("command", "option"), RUN, ids=lambda text: text)
def test_an_option_changes_what_is_printed(command, option, plain, capsys):
    ask = partial(document, capsys)
    assert ask(f"{command} {option}") != plain(ask, command)


TEXTS = [
    ("trace h0 h5 --topo dragonfly:p=1,a=2,h=1", "--verbose"),
    (f"reproduce rivals --from {ROOT}/docs/rivals.jsonl.xz --topology D1 --pattern unf", "--wide"),
]


@pytest.mark.parametrize(("command", "option"), TEXTS, ids=lambda text: text)
def test_an_option_changes_what_people_read(command, option, capsys):
    main(command.split())
    plain = capsys.readouterr().out
    main(f"{command} {option}".split())
    assert capsys.readouterr().out != plain


def test_which_packet_of_a_run_is_traced(tmp_path, capsys):
    main(f"{MARKED} --ecn 5k --buffer 20k --record {tmp_path / 'run.gz'}".split())
    capsys.readouterr()
    options = ("--first-mark", "--first-drop", "--longest-wait", "--flow 0 --psn 3")
    shown = [document(capsys, f"trace --run {tmp_path / 'run.gz'} {option}") for option in options]
    assert all(one != other for one, other in itertools.combinations(shown, 2))


class Selected(Exception):
    """What would be run."""


def selection(monkeypatch: pytest.MonkeyPatch, command: str) -> tuple[Any, ...]:
    def select(experiment: Any, points: Any, means: Any, report: Any = None) -> None:
        raise Selected(experiment.collect, list(points), replace(means, processes=means.processes))

    monkeypatch.setattr(reproduce, "reproduce", select)
    options = make_parser().parse_args(command.split())
    with pytest.raises(Selected) as selected:
        options.run(options)
    return selected.value.args


@pytest.mark.parametrize(
    ("experiment", "option"), [(name, option) for name, options in SELECTED.items() for option in options]
)
def test_an_option_changes_what_is_run(experiment, option, plain, monkeypatch, tmp_path):
    file = tmp_path / "file"
    if "--from" in option:
        file = (
            ROOT
            / "docs"
            / {"rivals": "rivals.jsonl.xz", "qcn-switch": "qcn.jsonl.xz", "flat": "flat.jsonl.xz"}[experiment]
        )
    command = f"reproduce {experiment}"
    ask = partial(selection, monkeypatch)
    assert ask(f"{command} {option.replace('FILE', str(file))}") != plain(ask, command)


UP = (
    "--target virtual", "--topo d2", "--pcap DIR", "--rate 1G", "--delay 5us", "--queue 9", "--loss 0.1",
    f"--program {PROGRAM}.p4info.txtpb,{PROGRAM}.json", "--linux h0", "--netns h0=1", "--mtu 9000", "--pace max",
    "--load adv1", "--coverage FILE", "--grpc 127.0.0.1:1",
)  # fmt: skip


@pytest.mark.parametrize("option", UP)
def test_an_option_changes_what_is_booted(option, tmp_path):
    option = option.replace("DIR", str(tmp_path)).replace("FILE", str(tmp_path / "file"))
    parser = make_parser()
    assert up_options(parser.parse_args(["up", *option.split()])) != up_options(parser.parse_args(["up"]))


class Asked:
    """A fabric that notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *values, **more: self.calls.append((name, values, more))


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("impair s0-s1", "--clear"), ("trace --live dropped", "--switch s3"),
        ("trace --live dropped", "--count 2"), ("trace --live dropped", "--seconds 2"),
        ("send h0 h1", "--bytes 9"), ("send h0 h1", "--sport 0x8001"), ("path h0 h1", "--sport 0x8001"),
        ("path h0 h1", "--usid s1"),
    ],
)  # fmt: skip
def test_an_option_changes_what_a_fabric_is_asked_for(command, option):
    asked = Asked()
    with ANSWERED_BY.set_to(cast(Any, asked)):
        for text in (command, f"{command} {option}"):
            options = make_parser().parse_args(text.split())
            with contextlib.suppress(Exception):  # it answers nothing that could be shown
                options.run(options)
    plain, changed = asked.calls
    assert changed != plain


def test_threads_change_how_a_run_is_executed_and_nothing_else(capsys):
    plain, threaded = (document(capsys, f"{INCAST}{option}") for option in ("", " --threads 3"))
    assert plain == threaded
    main([*INCAST.split(), "--threads", "3"])
    assert "executed by 3 threads" in capsys.readouterr().out
    assert main([*INCAST.split(), "--threads", "0"]) == 2


def test_bench_sim_on_threads_and_without_memory(capsys):
    numbers = document(capsys, "bench sim --k 4 --message 20000 --threads 2 --no-memory")
    assert numbers["threads"] == 2
    assert numbers["packet_hops"] > 0
    assert "memory_bytes" not in numbers


@pytest.mark.parametrize(
    ("options", "parts"), [("", {"gray", "fairness"}), (" --gray", {"gray"}), (" --fairness", {"fairness"})]
)
def test_parts_of_a_benchmark(options, parts, monkeypatch, capsys):
    for module, name in ((gray, "gray"), (fairness, "fairness")):
        report = BenchReport(name, {name: []}, (), (), ())
        monkeypatch.setattr(module, "run", lambda progress, report=report: report)
    assert document(capsys, f"bench transport{options}").keys() == parts


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for below in commands_of(parser).values():
        yield from _options(below)
    for action in actions_of(parser):
        if action.option_strings:
            yield action.option_strings[-1]


def test_every_option_is_in_a_test():
    parser: Parser = make_parser()
    texts = "\n".join(path.read_text() for path in Path(__file__).parents[2].rglob("*.py"))
    assert not [option for option in set(_options(parser)) if option not in texts]
