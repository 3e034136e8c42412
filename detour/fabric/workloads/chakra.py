# SPDX-License-Identifier: Apache-2.0
"""Chakra execution traces as tasks: one file an NPU, `trace.0.et` to `trace.15.et`; NPU k is host k.

What nodes become:

- COMP_NODE: `duration_micros` of computing; without it, but with `num_ops`, as in traces of STAGE, the time of a
  `Roofline` (Williams et al., CACM 2009), which is given with the file: `trace.0.et,peak=989,memory=3350`. A host has
  one unit for what its accelerator does and one for what its processor does (`is_cpu_op`); each does one thing at a
  time.
- COMM_SEND_NODE, COMM_RECV_NODE: a message of `comm_size` bytes from `comm_src` to `comm_dst` with `comm_tag`. The k-th
  send of two NPUs and a tag belongs to their k-th receive.
- COMM_COLL_NODE: a collective of all NPUs, or of those that have nodes with the same `pg_name`; the k-th one of a group
  at one of its NPUs is the k-th at all. ALL_REDUCE, ALL_GATHER and REDUCE_SCATTER go around a ring, BROADCAST, REDUCE
  and BARRIER along a tree, ALL_TO_ALL directly. `comm_size` is what each NPU has before (as in ASTRA-sim): after an
  ALL_GATHER each has as many times as much as there are NPUs.
- METADATA_NODE, and communication of a processor (`is_cpu_op`, the call of what the accelerator then does): the time
  that they took.

A node waits for all nodes that it names in `data_deps`; `ctrl_deps` name the operator that called it. Memory nodes need
a model of memory, and GATHER and SCATTER are not there: they are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError, told_of
from detour.base.quantities import number_of
from detour.base.times import US
from detour.fabric.workloads import collectives
from detour.fabric.workloads.chakra_nodes import COLLECTIVE_TYPES, ChakraNode, read_nodes
from detour.fabric.workloads.collectives import Ranks, RankWaits
from detour.fabric.workloads.tasks import MAX_MESSAGE, TaskGraph, TaskList
from detour.topo.spec import check_keys

ACCELERATOR, PROCESSOR = 0, 1
"""units of a host"""
_LONGEST_MICROS = 1 << 40
_MOST_STEPS = 64
"""collectives that are steps of the graph, each; of more than these none is"""


@dataclass(frozen=True)
class Roofline:
    """An accelerator: `peak` operations a second, and `memory` bytes a second of its memory (None: as fast as need
    be)."""

    peak: float
    memory: float | None = None

    @staticmethod
    def of(text: str, values: Mapping[str, str]) -> Roofline | None:
        """From what is behind a trace's name: TFLOP/s and GB/s. Raises DetourError: it means nothing."""
        check_keys(text, values, ("peak",) if values else (), ("memory",))
        rates = {}
        for name, unit in (("peak", 1e12), ("memory", 1e9)):
            if name in values:
                with told_of(f"{text!r}: {name}"):
                    rates[name] = number_of(values[name]) * unit
                if not 0 < rates[name] < math.inf:
                    raise DetourError(f"{text!r}: {name}={values[name]}; it must be above 0")
        return Roofline(**rates) if rates else None

    def time_ps(self, operations: int, size: int) -> int:
        """Return the time of so many operations with so many bytes."""
        return round(1e12 * max(operations / self.peak, size / self.memory if self.memory else 0.0))


_Key = tuple[int, int]
"""NPU and number of a node"""

_BY_TYPE: dict[str, Callable[[TaskList, Ranks, int], RankWaits]] = {
    "ALL_REDUCE": collectives.ring_all_reduce,
    "ALL_GATHER": lambda tasks, ranks, size: collectives.all_gather(tasks, ranks, size * len(ranks)),
    "REDUCE_SCATTER": collectives.reduce_scatter,
    "REDUCE_SCATTER_BLOCK": collectives.reduce_scatter,
    "ALL_TO_ALL": collectives.all_to_all,
    "BROADCAST": collectives.broadcast,
    "REDUCE": collectives.reduce,
    "BARRIER": lambda tasks, ranks, size: collectives.tree_all_reduce(tasks, ranks, 1),
}


def trace_files(file: Path) -> list[Path]:
    """The files of all NPUs, from that of NPU 0 (`trace.0.et`, `trace.0.json`) or from the trace's name (`trace`).
    Raises DetourError if there is no such file."""
    for ending in ("et", "json"):
        name = file.name.removesuffix(f".0.{ending}")
        files: list[Path] = []
        while (one := file.with_name(f"{name}.{len(files)}.{ending}")).is_file():
            files.append(one)
        if files:
            return files
    raise DetourError(f"Chakra trace {file}: there is no {file.name.removesuffix('.0.et')}.0.et and no .0.json")


def read_chakra(file: Path, hosts: int, roofline: Roofline | None = None) -> TaskGraph:
    """The tasks of a trace, on a fabric with so many hosts. `roofline`: of nodes that do not say how long they take.
    Raises DetourError with the file, the node and what is wrong or not supported."""
    files = trace_files(file)
    if len(files) > hosts:
        raise DetourError(f"Chakra trace {file}: {len(files)} NPUs; the topology has {hosts} hosts")
    return _Trace(files, [read_nodes(one) for one in files], hosts, roofline).graph()


@dataclass(frozen=True)
class _Call:
    """An NPU's part in a collective: what begins it and what is over when it is."""

    npu: int
    node: ChakraNode
    begin: int
    end: int


class _Trace:
    """A trace while it becomes tasks. Every node has a first task, which waits, and a last one, which is waited for."""

    def __init__(self, files: list[Path], nodes: list[list[ChakraNode]], hosts: int, roofline: Roofline | None) -> None:
        self._files, self._nodes, self._roofline = files, nodes, roofline
        self._tasks = TaskList(hosts)
        self._first: dict[_Key, int] = {}
        self._last: dict[_Key, int] = {}
        self._sends: dict[tuple[int, int, int], list[tuple[int, ChakraNode]]] = {}
        self._receives: dict[tuple[int, int, int], list[tuple[int, ChakraNode]]] = {}
        self._calls: dict[str, dict[int, list[_Call]]] = {}

    def graph(self) -> TaskGraph:
        for npu, nodes in enumerate(self._nodes):
            for node in nodes:
                self._add(npu, node)
        for npu, nodes in enumerate(self._nodes):
            for node in nodes:
                for number in dict.fromkeys(node.after):
                    if (npu, number) not in self._last:
                        raise self._error(npu, node, f"it waits for node {number}, which does not exist")
                    self._tasks.wait(self._first[npu, node.number], self._last[npu, number])
        self._match()
        self._collect()
        return self._tasks.graph()

    def _error(self, npu: int, node: ChakraNode, text: str) -> DetourError:
        return DetourError(f"Chakra trace {self._label(npu, node)}: {text}")

    def _label(self, npu: int, node: ChakraNode) -> str:
        return f"{self._files[npu]}, node {node.number} ({node.name:.60})"

    # -- nodes ------------------------------------------------------------------------------------------

    def _add(self, npu: int, node: ChakraNode) -> None:
        if node.micros > _LONGEST_MICROS:
            raise self._error(npu, node, f"a duration of {node.micros} us; expected at most 2**40")
        called = bool(node.attributes.get("is_cpu_op"))
        kind = node.kind
        if kind in ("COMM_SEND_NODE", "COMM_RECV_NODE") and not called:
            task = self._message(npu, node)
        elif kind == "COMM_COLL_NODE" and not called:
            self._call(npu, node)
            return
        elif kind in ("MEM_LOAD_NODE", "MEM_STORE_NODE"):
            raise self._error(npu, node, f"{kind} is not supported: there is no model of memory")
        else:
            task = self._computed(npu, node, PROCESSOR if called else ACCELERATOR)
        self._first[npu, node.number] = self._last[npu, node.number] = task

    def _computed(self, npu: int, node: ChakraNode, unit: int) -> int:
        time_ps = node.micros * US
        if node.kind == "COMP_NODE" and not time_ps and (operations := self._number(npu, node, "num_ops", 0)):
            if self._roofline is None:
                advice = f"give the accelerator's TFLOP/s and GB/s: {self._files[0].name},peak=989,memory=3350"
                raise self._error(npu, node, f"it has `num_ops` and no duration; {advice}")
            time_ps = self._roofline.time_ps(operations, self._number(npu, node, "tensor_size", 0))
        return self._tasks.compute(npu, time_ps, unit=unit, label=self._label(npu, node))

    def _message(self, npu: int, node: ChakraNode) -> int:
        sends = node.kind == "COMM_SEND_NODE"
        own, other = ("comm_src", "comm_dst") if sends else ("comm_dst", "comm_src")
        peer, me = self._number(npu, node, other), self._number(npu, node, own, npu)
        if me != npu:
            raise self._error(npu, node, f"`{own}` is {me}, but the file is that of NPU {npu}")
        if not 0 <= peer < len(self._files):
            raise self._error(npu, node, f"`{other}` is {peer}; there are NPUs 0 to {len(self._files) - 1}")
        if peer == npu:
            raise self._error(npu, node, f"NPU {npu} would send to itself")
        tag, size = self._number(npu, node, "comm_tag", 0), self._size(npu, node)
        label = self._label(npu, node)
        if sends:
            task = self._tasks.message(npu, peer, size, label=label)
            self._sends.setdefault((npu, peer, tag), []).append((task, node))
        else:
            task = self._tasks.compute(npu, 0, label=label)
            self._receives.setdefault((peer, npu, tag), []).append((task, node))
        return task

    def _number(self, npu: int, node: ChakraNode, name: str, default: int | None = None) -> int:
        value: Any = node.attributes.get(name, default)
        if value is None:
            raise self._error(npu, node, f"it has no `{name}`")
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._error(npu, node, f"`{name}` is {value!r:.40}, not a whole number")
        return value

    def _size(self, npu: int, node: ChakraNode) -> int:
        size = self._number(npu, node, "comm_size")
        if not 1 <= size <= MAX_MESSAGE:
            raise self._error(npu, node, f"`comm_size` is {size}; it must be 1 to 2**40 bytes")
        return size

    def _match(self) -> None:
        """Receive wait for their messages."""
        for key in dict.fromkeys([*self._sends, *self._receives]):
            source, to, tag = key
            for send, receive in zip_longest(self._sends.get(key, ()), self._receives.get(key, ())):
                if receive is None:
                    raise self._error(source, send[1], f"NPU {to} has no receive for it, tag {tag}")
                if send is None:
                    raise self._error(to, receive[1], f"NPU {source} has no send for it, tag {tag}")
                sent, got = (node.attributes["comm_size"] for _, node in (send, receive))
                if sent != got:
                    text = f"`comm_size` is {got}, but NPU {source} sends {sent} (node {send[1].number})"
                    raise self._error(to, receive[1], text)
                self._tasks.wait(receive[0], send[0])

    # -- collectives ------------------------------------------------------------------------------------

    def _call(self, npu: int, node: ChakraNode) -> None:
        which = self._number(npu, node, "comm_type")
        name = COLLECTIVE_TYPES[which] if 0 <= which < len(COLLECTIVE_TYPES) else str(which)
        if name not in _BY_TYPE:
            raise self._error(npu, node, f"collective {name} is not supported; supported: {', '.join(_BY_TYPE)}")
        if name != "BARRIER":
            self._size(npu, node)
        dimensions = node.attributes.get("involved_dim")
        if isinstance(dimensions, list) and not all(dimensions):
            raise self._error(npu, node, "`involved_dim` leaves dimensions out, which is not supported; use `pg_name`")
        label = self._label(npu, node)
        begin, end = (self._tasks.compute(npu, 0, label=label) for _ in range(2))
        self._tasks.wait(end, begin)
        self._first[npu, node.number], self._last[npu, node.number] = begin, end
        group = str(node.attributes.get("pg_name") or "")
        self._calls.setdefault(group, {}).setdefault(npu, []).append(_Call(npu, node, begin, end))

    def _collect(self) -> None:
        """Collectives, of every group in order."""
        count = sum(len(next(iter(calls.values()))) for calls in self._calls.values())
        for group, calls in self._calls.items():
            members = sorted(calls) if group else list(range(len(self._files)))
            most = max(calls.values(), key=len)
            for number in range(len(most)):
                together = [calls[npu][number] for npu in members if number < len(calls.get(npu, ()))]
                if len(together) < len(members):
                    missing = next(npu for npu in members if number >= len(calls.get(npu, ())))
                    raise self._error(
                        most[0].npu, most[number].node, f"NPU {missing} does not participate in this collective"
                    )
                self._collective(together, count <= _MOST_STEPS)

    def _collective(self, calls: Sequence[_Call], is_step: bool) -> None:
        first = calls[0]
        for call in calls[1:]:
            for name in ("comm_type", "comm_size"):
                mine, theirs = (each.node.attributes.get(name) for each in (call, first))
                if mine != theirs:
                    text = f"`{name}` is {mine}, but at NPU {first.npu} (node {first.node.number}) it is {theirs}"
                    raise self._error(call.npu, call.node, text)
        if len(calls) == 1:
            return
        name = COLLECTIVE_TYPES[first.node.attributes["comm_type"]]
        size = first.node.attributes.get("comm_size") or 1
        step = f"{name} {first.node.name:.60} ({first.node.number})" if is_step else None
        after = tuple((call.begin,) for call in calls)
        label = self._label(first.npu, first.node)
        waits = _BY_TYPE[name](self._tasks, Ranks(tuple(call.npu for call in calls), after, step, label=label), size)
        for call, over in zip(calls, waits, strict=True):
            for task in over:
                self._tasks.wait(call.end, task)
