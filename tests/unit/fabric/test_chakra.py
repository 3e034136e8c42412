# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces: both encodings, what nodes become, and what is refused, by name."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from detour.base.errors import DetourError
from detour.base.times import MS, US
from detour.experiments.sim.workloads import open_workload
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import SHORTEST_LERP
from detour.fabric.traffic.tasks import TaskResult, connections_of, run_tasks
from detour.fabric.workloads.chakra import read_chakra
from detour.fabric.workloads.chakra_nodes import COLLECTIVE_TYPES, NODE_TYPES, read_nodes
from detour.fabric.workloads.tasks import TaskGraph
from detour.topo import parse_topology

TOPOLOGY = parse_topology("leaf-spine:leaves=2,spines=2,hosts=2")

# -- an encoder of our own, by the rules of protobuf's wire format ------------------------------------------


def varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def chunk(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name: str, value: Any) -> bytes:
    head = chunk(1, name.encode())
    if isinstance(value, bool):
        return head + number(27, value)
    if isinstance(value, int):
        return head + number(9, value)
    if isinstance(value, float):
        return head + varint(3 << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, list):
        return head + chunk(28, chunk(1, bytes(value)))
    return head + chunk(29, value.encode())


Entry = dict[str, Any]


def entry(id_: int, kind: str, after: Sequence[int] = (), micros: int = 0, **attributes: Any) -> Entry:
    return {"id": id_, "kind": kind, "after": list(after), "micros": micros, "attributes": attributes}


def protobuf(nodes: Sequence[Entry]) -> bytes:
    messages = [chunk(1, b"1.0")]
    for node in nodes:
        data = number(1, node["id"]) + chunk(2, f"n{node['id']}".encode()) + number(3, NODE_TYPES.index(node["kind"]))
        data += number(4, 4711)  # the operator that called it
        data += chunk(5, b"".join(map(varint, node["after"]))) if node["after"] else b""
        data += number(7, node["micros"]) + chunk(8, chunk(1, b"[]"))
        data += b"".join(chunk(10, attribute(*pair)) for pair in node["attributes"].items())
        messages.append(data)
    return b"".join(varint(len(message)) + message for message in messages)


def dumped(nodes: Sequence[Entry]) -> bytes:
    """As `MessageToJson` writes it."""
    parts = [json.dumps({"version": "1.0"}, indent=2)]
    for node in nodes:
        attr = []
        for name, value in node["attributes"].items():
            if isinstance(value, bool):
                attr.append({"name": name, "boolVal": value})
            elif isinstance(value, int):
                attr.append({"name": name, "int64Val": str(value)})
            elif isinstance(value, float):
                attr.append({"name": name, "doubleVal": value})
            elif isinstance(value, list):
                attr.append({"name": name, "boolList": {"values": value}})
            else:
                attr.append({"name": name, "stringVal": value})
        one = {"name": f"n{node['id']}", "type": node["kind"], "ctrlDeps": ["4711"], "attr": attr}
        one |= {"id": str(node["id"])} if node["id"] else {}
        one |= {"dataDeps": [str(k) for k in node["after"]]} if node["after"] else {}
        one |= {"durationMicros": str(node["micros"])} if node["micros"] else {}
        parts.append(json.dumps(one, indent=2))
    return "".join(parts).encode()


def fed(nodes: Sequence[Entry]) -> bytes:
    """As Chakra's JSON feeder takes it."""
    graph = [
        {"Id": n["id"], "Name": f"n{n['id']}", "NodeType": NODE_TYPES.index(n["kind"]), "runtime": n["micros"]}
        | {"ctrlDeps": [4711], "data_deps": n["after"]}
        | n["attributes"]
        for n in nodes
    ]
    return json.dumps({"workload_graph": graph}).encode()


def write(folder: Path, npus: Sequence[Sequence[Entry]]) -> Path:
    for npu, nodes in enumerate(npus):
        (folder / f"t.{npu}.et").write_bytes(protobuf(nodes))
    return folder / "t.0.et"


def graph_of(folder: Path, npus: Sequence[Sequence[Entry]]) -> TaskGraph:
    return read_chakra(write(folder, npus), 4)


def run(graph: TaskGraph) -> TaskResult:
    with VirtualFabric(TOPOLOGY, SHORTEST_LERP, queue_pairs=connections_of(graph)) as fabric:
        return run_tasks(fabric, graph, 10 * MS)


def collective(id_: int, kind: str, size: int | None, after: Sequence[int] = (), **more: Any) -> Entry:
    sized = {} if size is None else {"comm_size": size}
    return entry(id_, "COMM_COLL_NODE", after, comm_type=COLLECTIVE_TYPES.index(kind), **sized, **more)


EVERYTHING = [
    entry(0, "METADATA_NODE", label="x", ratio=2.5),
    entry(300, "COMP_NODE", [0], 12, is_cpu_op=True, num_ops=5),
    collective(7, "ALL_REDUCE", 1 << 40, [300, 0], is_cpu_op=False, involved_dim=[True, False]),
]

# -- encodings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encode", [protobuf, lambda nodes: gzip.compress(protobuf(nodes)), dumped, fed], ids=["et", "gz", "dump", "feed"]
)
def test_all_encodings_say_the_same(tmp_path: Path, encode: Any) -> None:
    file = tmp_path / "t.0.et"
    file.write_bytes(encode(EVERYTHING))
    first, second, third = read_nodes(file)
    assert (first.number, first.kind, first.after) == (0, "METADATA_NODE", ())
    assert first.attributes == {"label": "x", "ratio": 2.5}
    assert (second.number, second.name, second.micros, second.after) == (300, "n300", 12, (0,))
    assert second.attributes == {"is_cpu_op": True, "num_ops": 5}
    assert third.after == (300, 0)
    assert third.attributes == {
        "is_cpu_op": False, "comm_type": 0, "comm_size": 1 << 40, "involved_dim": [True, False],
    }  # fmt: skip


def test_our_description_reads_what_generated_code_writes(tmp_path: Path) -> None:
    """Other types of numbers, and fields that nothing here asks for."""
    data = chunk(2, b"all") + number(3, 4)
    data += chunk(10, chunk(1, b"a") + number(7, (1 << 64) - 5)) + chunk(10, chunk(1, b"b") + number(15, 9))
    data += chunk(10, chunk(1, b"c") + varint(21 << 3 | 1) + struct.pack("<Q", 77))
    data += chunk(10, chunk(1, b"d") + chunk(10, chunk(1, b"\x01\x02")))
    (tmp_path / "t.0.et").write_bytes(b"\x00" + varint(len(data)) + data)
    (node,) = read_nodes(tmp_path / "t.0.et")
    assert node.attributes == {"a": -5, "b": -5, "c": 77, "d": None}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "there is no node"),
        (b"\x05ab", "its metadata is truncated"),
        (protobuf(EVERYTHING)[:-3], "node number 3 is truncated"),
        (b"\x00\x02\xff\xff", "node number 1 is not a protobuf message"),
        (b"\x00\xff\xff\xff", "node number 1 is truncated"),
        (b"\x1f\x8bxx", "Chakra trace .*t.0.et: "),
        (b"{", "line 1: Expecting"),
        (b'{"version": "1"} {"id": "x"}', "node number 1 is not of the schema"),
        (b'{"workload_graph": [{"Id": 1}]}', "node number 1 is not of the schema"),
        (b'{"workload_graph": [{"Id": 1, "Name": "", "NodeType": 12}]}', "node 1 .*there is no node type 12"),
        (protobuf([EVERYTHING[0]] * 2), "node 0 appears twice"),
    ],
)
def test_files_that_are_no_traces_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "t.0.et").write_bytes(data)
    with pytest.raises(DetourError, match=says):
        read_nodes(tmp_path / "t.0.et")


# -- what nodes become --------------------------------------------------------------------------------------


def test_computations_of_accelerator_and_processor_overlap(tmp_path: Path) -> None:
    nodes = [
        entry(1, "COMP_NODE", (), 5, is_cpu_op=False),
        entry(2, "COMP_NODE", (), 3, is_cpu_op=False),
        entry(3, "COMP_NODE", (), 4, is_cpu_op=True),
        entry(4, "COMP_NODE", [3, 2], 2, is_cpu_op=True),
        collective(5, "ALL_REDUCE", 10, [4], is_cpu_op=True) | {"micros": 6},
    ]
    result = run(graph_of(tmp_path, [nodes]))
    assert (result.finish_ps / US).tolist() == [5, 8, 4, 10, 16]


def test_sends_and_receives_match_by_tag_and_order(tmp_path: Path) -> None:
    graph = graph_of(
        tmp_path,
        [
            [
                entry(1, "COMM_SEND_NODE", comm_size=9000, comm_dst=1, comm_tag=2),
                entry(2, "COMM_SEND_NODE", comm_size=10, comm_src=0, comm_dst=1),
                entry(3, "COMP_NODE", [1], 1),
            ],
            [
                entry(1, "COMM_RECV_NODE", comm_size=10, comm_src=0, comm_dst=1),
                entry(2, "COMM_RECV_NODE", comm_size=9000, comm_src=0, comm_tag=2),
                entry(3, "COMP_NODE", [2], 1),
            ],
        ],
    )
    result = run(graph)
    big, small, after_ack, got_small, got_big, after = range(6)
    assert result.finish_ps[got_small] == result.finish_ps[small]
    assert result.finish_ps[got_big] == result.finish_ps[big]
    assert result.start_ps[after] == result.finish_ps[big]
    assert result.start_ps[after_ack] == result.acked_ps[big]


@pytest.mark.parametrize(
    ("kind", "each"),
    [
        ("ALL_REDUCE", 2 * 3 * 1000), ("ALL_GATHER", 3 * 4000), ("REDUCE_SCATTER", 3 * 1000), ("ALL_TO_ALL", 3 * 1000),
        ("REDUCE_SCATTER_BLOCK", 3 * 1000),
    ],
)  # fmt: skip
def test_collectives_send_what_their_algorithm_says(tmp_path: Path, kind: str, each: int) -> None:
    graph = graph_of(tmp_path, [[collective(1, kind, 4000)] for _ in range(4)])
    sent = np.bincount(graph.tasks["source"], weights=graph.tasks["bytes"])
    assert sent.tolist() == [each] * 4
    assert graph.steps == (f"{kind} n1 (1)",)
    assert run(graph).completed


def test_trees_carry_broadcast_reduce_and_barrier(tmp_path: Path) -> None:
    nodes = [collective(1, "BROADCAST", 500), collective(2, "REDUCE", 70, [1]), collective(3, "BARRIER", None, [2])]
    graph = graph_of(tmp_path, [nodes] * 4)
    sent = {
        name: graph.tasks["bytes"][graph.is_message & (graph.tasks["step"] == k)].tolist()
        for k, name in enumerate(graph.steps)
    }
    assert sent == {"BROADCAST n1 (1)": [500] * 3, "REDUCE n2 (2)": [70] * 3, "BARRIER n3 (3)": [1] * 6}
    assert run(graph).completed


def test_nobody_passes_a_collective_before_all_have_begun_it(tmp_path: Path) -> None:
    """Groups of their own go on meanwhile."""
    npus = [
        [
            entry(1, "COMP_NODE", (), 10 * (npu + 1)),
            collective(2, "ALL_REDUCE", 400, [1], pg_name="even" if npu % 2 == 0 else "odd"),
            collective(3, "BARRIER", None, [2]),
            entry(4, "COMP_NODE", [3], 5),
        ]
        for npu in range(4)
    ]
    graph = graph_of(tmp_path, npus)
    result = run(graph)
    pairs = {(int(r["source"]), int(r["destination"])) for r in graph.tasks if r["bytes"] > 1}
    assert pairs == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert result.completed
    last = [k for k in range(len(graph)) if graph.label(k).endswith("node 4 (n4)")]
    assert (result.start_ps[last] > 40 * US).all()
    spans = result.step_spans_ps()
    assert spans[graph.steps.index("ALL_REDUCE n2 (2)")][1] > 40 * US


# -- what is refused ----------------------------------------------------------------------------------------

SEND = entry(1, "COMM_SEND_NODE", comm_size=5, comm_dst=1)


@pytest.mark.parametrize(
    ("npus", "says"),
    [
        ([[]], "there is no node"),
        ([[entry(1, "COMP_NODE", [9], 5)]], r"t.0.et, node 1 \(n1\): it waits for node 9, which does not exist"),
        ([[entry(1, "MEM_LOAD_NODE", tensor_size=5)]], "MEM_LOAD_NODE is not supported"),
        ([[entry(1, "COMP_NODE", num_ops=5)]], "give the accelerator's TFLOP/s and GB/s"),
        ([[collective(1, "GATHER", 5)]], "collective GATHER is not supported; supported: ALL_REDUCE"),
        ([[entry(1, "COMM_COLL_NODE", comm_type=44, comm_size=5)]], "collective 44 is not supported"),
        ([[entry(1, "COMM_COLL_NODE", comm_size=5)]], "it has no `comm_type`"),
        ([[collective(1, "ALL_REDUCE", None)]], "it has no `comm_size`"),
        ([[collective(1, "ALL_REDUCE", 0)]], "`comm_size` is 0; it must be 1"),
        ([[collective(1, "ALL_REDUCE", 5, involved_dim=[True, False])]], "`involved_dim` leaves dimensions out"),
        ([[entry(1, "COMM_SEND_NODE", comm_size=5, comm_dst="x")]], "`comm_dst` is 'x', not a whole number"),
        ([[SEND]], "`comm_dst` is 1; there are NPUs 0 to 0"),
        ([[SEND], [entry(1, "COMP_NODE")]], "NPU 1 has no receive for it, tag 0"),
        ([[entry(1, "COMP_NODE")], [entry(4, "COMM_RECV_NODE", comm_size=5, comm_src=0)]], "NPU 0 has no send for it"),
        ([[SEND], [SEND]], "NPU 1 would send to itself"),
        ([[entry(1, "COMM_SEND_NODE", comm_size=5, comm_src=3, comm_dst=1)], [SEND]], "but the file is that of NPU 0"),
        (
            [[SEND], [entry(4, "COMM_RECV_NODE", comm_size=6, comm_src=0)]],
            r"t.1.et, node 4 .*`comm_size` is 6, but NPU 0 sends 5 \(node 1\)",
        ),
        (
            [[collective(1, "ALL_REDUCE", 5)], [entry(1, "COMP_NODE")]],
            "t.0.et, node 1 .*NPU 1 does not participate in this collective",
        ),
        (
            [[collective(1, "ALL_REDUCE", 5)], [collective(1, "ALL_GATHER", 5)]],
            r"t.1.et, node 1 .*`comm_type` is 2, but at NPU 0 \(node 1\) it is 0",
        ),
        ([[entry(k, "COMP_NODE", [3 - k], 1) for k in (1, 2)]], "in a cycle: .*node 1 .* -> .*node 2 "),
        ([[entry(1, "COMP_NODE")]] * 5, "5 NPUs; the topology has 4 hosts"),
    ],
)
def test_what_is_wrong_or_not_supported_is_refused_by_name(
    tmp_path: Path, npus: Sequence[Sequence[Entry]], says: str
) -> None:
    with pytest.raises(DetourError, match=says):
        graph_of(tmp_path, npus)


def test_traces_are_found_by_name_and_by_first_file(tmp_path: Path) -> None:
    write(tmp_path, [[entry(1, "COMP_NODE", (), 1)]] * 3)
    assert len(read_chakra(tmp_path / "t", 4)) == len(read_chakra(tmp_path / "t.0.et", 4)) == 3
    with pytest.raises(DetourError, match=r"there is no none.0.et and no .0.json"):
        read_chakra(tmp_path / "none", 4)


# -- STAGE --------------------------------------------------------------------------------------------------


def stage() -> list[list[Entry]]:
    """Two pipeline stages of two NPUs as STAGE (symbolic_tensor_graph, 3a7f49c) writes them: operations and sizes in
    place of durations, numbers as truth values, groups by name, sends that do not name their source, and nodes before
    those that they wait for."""
    npus: list[list[Entry]] = []
    for npu in range(4):
        peer = {"comm_dst": npu + 2} if npu < 2 else {"comm_src": npu - 2}
        passed = entry(403 + npu, "COMM_SEND_NODE" if npu < 2 else "COMM_RECV_NODE", [79] if npu < 2 else [])
        passed["attributes"] = {"comm_size": 65_536, "comm_tag": 339_742 + npu % 2, "is_cpu_op": 0} | peer
        gathered = collective(8, "ALL_GATHER", 65_536, [] if npu < 2 else [403 + npu], pg_name=str(npu // 2 + 1))
        gathered["attributes"]["is_cpu_op"] = 0
        computed = entry(79, "COMP_NODE", [8], num_ops=20_000_000, tensor_size=100_000, op_type="M")
        copied = entry(2, "COMP_NODE", [79], num_ops=1_000, tensor_size=4_000_000, op_type="E")
        npus.append([copied, computed, gathered, passed])
    return npus


def test_traces_of_stage_take_the_time_of_a_roofline(tmp_path: Path) -> None:
    workload = open_workload(f"{write(tmp_path, stage())},peak=2,memory=400", TOPOLOGY, 10**11, 1)
    tasks = workload.graph.tasks
    assert tasks["compute_ps"][tasks["compute_ps"] > 0].tolist() == [10 * US] * 8, "by operations and by memory"
    result = run(workload.graph)
    assert result.completed
    assert tasks["bytes"].sum() == 4 * 65_536 + 2 * 65_536
    # Both stages gather and compute, one after the other; the last one copies.
    message_ps = 65_536 * 8 * 10
    assert result.finish_ps.max() > 3 * message_ps + 3 * 10 * US
    without = open_workload(f"{tmp_path / 't.0.et'},peak=2", TOPOLOGY, 10**11, 1).graph.tasks["compute_ps"]
    assert sorted(set(without.tolist())) == [0, 500, 10 * US], "memory is as fast as need be"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("peak=0", "peak=0; it must be above 0"),
        ("peak=fast", "peak: 'fast' is not a number"),
        ("memory=3350", "peak missing"),
        ("speed=3", "there is no parameter speed"),
        ("", "not of the form key=value"),
    ],
)
def test_rooflines_that_mean_nothing(tmp_path: Path, values: str, message: str) -> None:
    with pytest.raises(DetourError, match=message):
        open_workload(f"{write(tmp_path, stage())},{values}", TOPOLOGY, 10**11, 1)
