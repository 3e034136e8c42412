# SPDX-License-Identifier: Apache-2.0
"""Packets of runs in virtual time: traced as they pass, and gone back to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.cli import main
from detour.engine.trace.tree import Dropped
from detour.experiments.sim.plan import SimPlan, plan_of
from detour.experiments.sim.replay.replay import Replay, ReplayedPacket
from detour.experiments.sim.replay.run_files import Checkpoints, RepeatableRun
from detour.experiments.sim.replay.stop_conditions import is_marked, packet_name
from detour.experiments.sim.replay.tracing import TracedPackets
from detour.experiments.sim.run import run_workload
from detour.experiments.sim.settings import SimOptions
from detour.fabric.tracing.live import packets
from detour.fabric.tracing.results import TracedPacket

OPTIONS = SimOptions(
    topo="leaf-spine:leaves=3,spines=2,hosts=3", workload="incast:bytes=4e4,senders=6", buffer="12k", ecn="8k"
)
MOST = 4_000


@cache
def plan() -> SimPlan:
    return plan_of(OPTIONS)


@cache
def everything() -> tuple[TracedPackets, list[list[Any]]]:
    """All packets of the run, traced as it went."""
    watcher = TracedPackets(plan().topology, "", MOST)
    run_workload(plan().topology, plan().workload, plan().settings, watcher=watcher)
    assert watcher.missed == 0
    return watcher, watcher.chains


def waits(chain: list[Any]) -> Iterator[int]:
    for visit in chain:
        for event in visit.tree.all_events():
            if event.kind == "queue":
                yield event.facts["wait_ticks"]


def hexes(replayed: ReplayedPacket) -> list[str]:
    return [visit.trace.events[0].kind for visit in replayed.followed.hops]


def events(followed: TracedPacket) -> list[Any]:
    return [hop["trace"]["events"] for hop in followed.as_json()["hops"]]


def same(replayed: ReplayedPacket, chain: list[Any]) -> None:
    """The packet is the one that was traced as the run went: all of its trace, but for how it ended."""
    (followed,) = packets(plan().topology, chain, 1_000)
    assert events(replayed.followed) == events(followed)
    assert replayed.sent_ps == chain[0].time_ticks * 1_000


def test_every_packet_is_traced_from_host_to_host() -> None:
    watcher, chains = everything()
    run = run_workload(plan().topology, plan().workload, plan().settings)
    data = [chain for chain in chains if (name := packet_name(chain[0].frame)) and name.is_data]
    assert len(data) == run.counts.packets.sum()
    for chain in chains:
        first = plan().topology.switches[chain[0].switch - 1].peer(chain[0].port)
        assert first is not None
        assert first.kind == "host"
        assert len({visit.switch for visit in chain}) == len(chain), "no switch twice"
    assert len(watcher.live_packets().packets) == len(chains)


def test_a_traced_run_is_the_run() -> None:
    plain, traced = Checkpoints(), Checkpoints()
    run_workload(plan().topology, plan().workload, plan().settings, watcher=plain)
    assert len(plain.taken) >= 1
    Replay(plan(), plain.taken).longest_wait()  # raises if the traced run differs
    run_workload(plan().topology, plan().workload, plan().settings, watcher=traced)
    assert traced.taken == plain.taken


@pytest.mark.parametrize(("flow", "psn"), [(0, 0), (2, 7), (5, 39)])
def test_a_packet_of_a_flow(flow: int, psn: int) -> None:
    replayed = Replay(plan()).packet(flow, psn)
    task = plan().workload.graph.tasks[flow]
    source, target = (plan().topology.hosts[task[name]] for name in ("source", "destination"))
    assert replayed.followed.hops[0].port == source.port
    arrived = [packet for ending in replayed.followed.outcomes for packet in ending.packets]
    assert [each.host for each in arrived] in ([target.name], [])
    sent = [
        (chain[0].time_ticks, name.psn)
        for chain in everything()[1]
        if (name := packet_name(chain[0].frame)) and name.is_data and name.source == source.address
    ]
    first: dict[int, int] = {}
    for at, number in sorted(sent):
        first.setdefault(number, at)
    assert replayed.sent_ps // 1_000 == first[(min(first) + psn)]


def test_the_first_drop() -> None:
    lost = []
    for chain in everything()[1]:
        for visit in chain:
            if any(isinstance(leaf.outcome, Dropped) for _, leaf in visit.tree.leaves()):
                lost.append((visit.time_ticks, chain))
    assert lost, "the buffer is small"
    replayed = Replay(plan()).first_drop()
    same(replayed, min(lost, key=lambda each: each[0])[1])
    (ending,) = replayed.followed.outcomes
    assert ending.dropped is not None
    assert "its queue was full" in ending.dropped.reason


def test_the_first_mark() -> None:
    replayed = Replay(plan()).first_mark()
    (ending,) = replayed.followed.outcomes
    assert is_marked(ending.packets[0].frame)
    marked = []
    for chain in everything()[1]:
        (followed,) = packets(plan().topology, chain, 1_000)
        ends = [packet for each in followed.outcomes for packet in each.packets]
        name = packet_name(chain[0].frame)
        if name and name.is_data and ends and is_marked(ends[0].frame) and not is_marked(chain[0].frame):
            last = chain[-1].time_ticks + sum(waits(chain[-1:]))
            marked.append((last, chain))
    same(replayed, min(marked, key=lambda each: each[0])[1])


def test_the_longest_wait() -> None:
    replayed = Replay(plan()).longest_wait()
    longest = max(max(waits(chain), default=0) for chain in everything()[1])
    alike = [chain for chain in everything()[1] if max(waits(chain), default=0) == longest]
    assert any(events(packets(plan().topology, chain, 1_000)[0]) == events(replayed.followed) for chain in alike)


def test_frames_that_links_lose() -> None:
    lossy = plan_of(
        SimOptions(topo="leaf-spine:leaves=2,spines=2,hosts=2", workload="permutation:bytes=1e6", loss="0.003")
    )
    (ending,) = Replay(lossy).first_drop().followed.outcomes
    assert ending.dropped is not None
    assert ending.dropped.reason.startswith("lost on the link s")


def test_nothing_was_lost() -> None:
    quiet = plan_of(SimOptions(topo="leaf-spine:leaves=2,spines=2,hosts=2", workload="permutation:bytes=1e4"))
    replay = Replay(quiet)
    with pytest.raises(DetourError, match="no switch dropped a frame"):
        replay.first_drop()
    with pytest.raises(DetourError, match="there is no flow 99"):
        replay.packet(99, 0)
    with pytest.raises(DetourError, match="flow 0 has packets 0 to 9"):
        replay.packet(0, 10)


def command(*arguments: str) -> int:
    return main(list(arguments))


@pytest.fixture
def recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "run.gz"
    given = {name: value for name, value in as_json(OPTIONS).items() if value}
    options = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    assert command("sim", *options, "--record", str(file)) == 0
    capsys.readouterr()
    return file


def test_the_command_goes_back(
    recorded: Path, capsys: pytest.CaptureFixture[str], run_json: Callable[..., Any]
) -> None:
    shown = run_json("trace", "--run", recorded, "--first-drop")
    assert set(shown) == {"hops", "outcomes"}
    assert shown["outcomes"][0]["dropped"]["switch"] == shown["hops"][-1]["switch"]
    assert command("trace", "--run", str(recorded), "--flow", "1", "--psn", "3") == 0
    assert "packet 3 of flow 1" in capsys.readouterr().out


def change(file: Path, **values: Any) -> None:
    lines = gzip.decompress(file.read_bytes()).splitlines()
    head = json.loads(lines[0]) | values
    file.write_bytes(gzip.compress(b"\n".join([json.dumps(head).encode(), *lines[1:]]) + b"\n"))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"detour_recorded_run": 99}, "format 99"),
        ({"program_version": "0.0.1"}, "a run of detour 0.0.1; this is"),
        ({"repeat": None}, "cannot be repeated"),
    ],
)
def test_runs_of_other_versions(recorded: Path, refused: Callable[..., str], values: dict[str, Any], text: str) -> None:
    change(recorded, **values)
    assert text in refused("trace", "--run", recorded, "--first-drop")


def test_a_run_that_is_another_one(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repeat = json.loads(gzip.decompress(recorded.read_bytes()).splitlines()[0])["repeat"]
    repeat["checkpoints"] = [[at, "0" * 16] for at, _ in repeat["checkpoints"]]
    change(recorded, repeat=repeat)
    assert command("trace", "--run", str(recorded), "--longest-wait") == 2
    assert "the run does not repeat: 20 us after the start" in capsys.readouterr().err


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    flows = tmp_path / "flows.csv"
    flows.write_text("a")
    run = RepeatableRun.of(SimOptions(topo="d1", workload=str(flows)), [])
    run.check_files()
    flows.write_text("b")
    with pytest.raises(DetourError, match=r"flows\.csv has changed since the run read it"):
        run.check_files()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--run", "nothing.gz"), "No such file"),
        (("--first-drop",), "--first-drop is about a run"),
        (("--run", "RUN"), "choose a packet"),
        (("--run", "RUN", "--flow", "1"), "must be given together"),
        (("--run", "RUN", "--topo", "d1", "--first-drop"), "--topo does not go with it"),
    ],
)
def test_bad_input(recorded: Path, refused: Callable[..., str], arguments: tuple[str, ...], text: str) -> None:
    given = [str(recorded) if each == "RUN" else each for each in arguments]
    assert text in refused("trace", *given)


def test_packets_as_they_pass(run_json: Callable[..., Any], refused: Callable[..., str]) -> None:
    arguments = ("sim", "--topo", "leaf-spine:leaves=2,spines=2,hosts=2", "--workload", "permutation:bytes=1e4")
    shown = run_json(*arguments, "--trace", "src h1", "--trace-count", "3")
    assert len(shown["traced"]["packets"]) == 3
    assert shown["completed"] == 4
    assert "position 5" in refused(*arguments, "--trace", "src nobody")


def test_packets_of_a_lab(capsys: pytest.CaptureFixture[str], run_json: Callable[..., Any]) -> None:
    lab = Path(__file__).parents[3] / "docs" / "labs" / "ecn"
    arguments = ("sim", "--lab", str(lab), "--workload", "h1 ping h3")
    traced = run_json(*arguments, "--trace", "src h1 and icmp", "--trace-count", "2")["traced"]
    assert [[hop["switch"] for hop in packet["hops"]] for packet in traced["packets"]] == [["s1", "s2"]] * 2
    assert all(packet["outcomes"][0]["packets"][0]["host"] == "h3" for packet in traced["packets"])
    assert command(*arguments, "--trace", "sort 3") == 2
    assert "position 1" in capsys.readouterr().err
