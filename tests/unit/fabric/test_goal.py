# SPDX-License-Identifier: Apache-2.0
"""GOAL schedules: what they mean, and what is refused, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.base.times import MS, NS
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP
from detour.fabric.traffic.tasks import TaskResult, connections_of, run_tasks
from detour.fabric.workloads.goal import is_goal, read_goal
from detour.fabric.workloads.tasks import TaskGraph
from detour.topo import parse_topology

TOPOLOGY = parse_topology("leaf-spine:leaves=2,spines=2,hosts=2")

SAMPLE = """// two ranks, and one that does nothing
num_ranks 3

rank 0 { /* a comment
  over lines */
l1: calc 100 cpu 0
l2: send 5000b to 1 tag 3 cpu 0 nic 1
l2 requires l1
l3: send 70b to 1 tag 4
l3 irequires l2
l4: recv 1b from 1
l5: calc 40
l6: calc 70 cpu 3
l5 requires l4
l6 requires l4
l7: calc 40
l7 requires l4
}
rank 1 {
a: recv 70b from 0 tag 4
b: recv 5000b from 0 tag 3
c: send 1b to 0
c requires a
c requires b
send 0b to 2
}
rank 2 { recv 0b from 1 }
"""


def read(folder: Path, text: str, hosts: int = 4) -> TaskGraph:
    file = folder / "s.goal"
    file.write_text(text)
    return read_goal(file, hosts)


def run(graph: TaskGraph) -> TaskResult:
    with VirtualFabric(TOPOLOGY, SHORTEST_LERP, queue_pairs=connections_of(graph)) as fabric:
        return run_tasks(fabric, graph, 10 * MS)


def test_a_schedule_happens_as_it_says(tmp_path: Path) -> None:
    graph = read(tmp_path, SAMPLE)
    at = {name: k for k, name in enumerate(("l1", "l2", "l3", "l4", "l5", "l6", "l7", "a", "b", "c", "zero", "got"))}
    assert len(graph) == len(at)
    assert graph.tasks["bytes"][[at["l2"], at["l3"], at["c"], at["zero"]]].tolist() == [5000, 70, 1, 1]
    result = run(graph)
    assert result.completed
    end, begin = result.finish_ps, result.start_ps
    assert end[at["l1"]] == begin[at["l2"]] == begin[at["l3"]] == 100 * NS
    assert end[at["b"]] == end[at["l2"]]
    assert end[at["a"]] == end[at["l3"]]
    assert begin[at["c"]] == max(end[at["a"]], end[at["b"]])
    assert end[at["l4"]] == end[at["c"]]
    after = [int(end[at[name]] - end[at["l4"]]) for name in ("l5", "l6", "l7")]
    assert after == [40 * NS, 70 * NS, 80 * NS], "those of one cpu follow each other"
    assert begin[at["zero"]] == 0
    assert end[at["got"]] == end[at["zero"]]


def test_messages_with_a_tag_match_in_order(tmp_path: Path) -> None:
    text = """num_ranks 2
rank 0 { send 3000b to 1 tag 1
send 1b to 1 tag 2
send 2b to 1 tag 1
}
rank 1 { x: recv 1b from 0 tag 2
y: recv 3000b from 0 tag 1
z: recv 2b from 0 tag 1
}
"""
    graph = read(tmp_path, text)
    assert sorted(graph.dependencies.tolist()) == [[0, 4], [1, 3], [2, 5]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("rank 0 {\n}", "line 1: it does not begin with `num_ranks`"),
        ("num_ranks 5", "line 1: 5 ranks; the topology has 4 hosts"),
        ("num_ranks 2\n\nfoo", "line 3: 'foo'; expected `rank 0 {`"),
        ("num_ranks 2\nrank 2 {\n}", "line 2: rank 2; there are 2, from 0 on"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "line 4: rank 0 appears twice"),
        ("num_ranks 2\nrank 0 {\ncalc 5", "the braces of rank 0 are not closed"),
        ("num_ranks 2\nrank 0 {\ncopy 5b to 1\n}", "line 3: 'copy 5b to 1'; expected"),
        ("num_ranks 2\nrank 0 {\n/*\n*/ send 5b from 1\n}", "line 4: send ... from; a send goes `to`"),
        ("num_ranks 2\nrank 0 {\nrecv 5b from -1\n}", r"line 3: any source \(-1\): .* not supported"),
        ("num_ranks 2\nrank 0 {\nrecv 5b from 1 tag -1\n}", r"line 3: any tag \(-1\)"),
        ("num_ranks 2\nrank 0 {\nsend 5b to 7\n}", "line 3: rank 7; there are 2"),
        ("num_ranks 2\nrank 0 {\nsend 5b to 0\n}", "line 3: rank 0 would send to itself"),
        ("num_ranks 2\nrank 0 {\nsend 99999999999999999b to 1\n}", "line 3: a message of .* bytes; expected at most"),
        ("num_ranks 2\nrank 0 {\ncalc 99999999999999999\n}", "line 3: calc .*; expected at most"),
        ("num_ranks 2\nrank 0 {\ncalc 9 cpu 99999999\n}", "line 3: there is no unit 99999999"),
        ("num_ranks 2\nrank 0 {\nl: calc 5\nl: calc 6\n}", "line 4: label l appears twice in rank 0"),
        ("num_ranks 2\nrank 0 {\nl: calc 5\nl requires m\n}", "line 4: label m is not defined in rank 0"),
        ("num_ranks 2\nrank 0 {\nsend 5b to 1 tag 2\n}", "line 3: rank 1 has no recv from 0 with tag 2"),
        ("num_ranks 2\nrank 1 {\nrecv 5b from 0\n}", "line 3: rank 0 has no send to 1 with tag 0"),
        (
            "num_ranks 2\nrank 0 {\nsend 5b to 1\n}\nrank 1 {\nrecv 6b from 0\n}",
            "line 6: recv of 6 bytes, but line 3 sends it 5",
        ),
        (
            "num_ranks 1\nrank 0 {\nl: calc 1\nm: calc 2\nl requires m\nm requires l\n}",
            r"in a cycle: .*s.goal, line 3 \(l\) -> .*line 4 \(m\) -> .*line 3 \(l\)",
        ),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DetourError, match=says) as refused:
        read(tmp_path, text)
    assert str(tmp_path / "s.goal") in str(refused.value)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DetourError, match="neither text nor a binary schedule"):
        read_goal(tmp_path / "s.bin", 4)
    with pytest.raises(DetourError, match="No such file"):
        read_goal(tmp_path / "none.goal", 4)


def test_schedules_are_known_by_their_beginning() -> None:
    assert is_goal(SAMPLE)
    assert not is_goal("3\n0 1 3 1000 2.0\n")
    assert not is_goal("")
