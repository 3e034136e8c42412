# SPDX-License-Identifier: Apache-2.0
"""Switches tracing on for switches of a network, and collects what it records."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.garbage import no_collection
from detour.engine.compiler.covering import COLLECTOR
from detour.engine.compiler.program import Program
from detour.engine.compiler.slots import TRACE_CONTROL, TRACED_COVERAGE
from detour.engine.compiler.tracing import TraceForm
from detour.engine.network import Network
from detour.engine.trace.build import ReplicaReader, TreeBuilder
from detour.engine.trace.entries import EntryReader
from detour.engine.trace.events import EventReader
from detour.engine.trace.filters import EVERYTHING, Filter
from detour.engine.trace.records import Execution, RecordReader
from detour.engine.trace.ring import RING_BYTES, Ring, TraceControl
from detour.engine.trace.tree import Visit
from detour.engine.wiring import WiredSwitch

_TRACED: dict[str, Program] = {}
"""Traced programs of this process, by the layout and text of the plain one."""


def traced(program: Program, covered: bool = False) -> Program:
    """The second compilation of a program; once in a process. `covered`: with counters of what packets reach."""
    key = f"{id(program.json)} {covered}"
    second = _TRACED.get(key)
    if second is None or second.json is not program.json:
        second = _TRACED[key] = Program(program.json, traced=True, covered=covered)
    return second


class Recorder:
    """Traces packets of a network, from `start` to `stop`; also a context manager. Packets that no filter wants run
    through the plain program. A collector of coverage, if there is one while the recorder starts, counts what traced
    packets reach. Whatever changes a pipeline must stop the recorder first and start it again."""

    def __init__(
        self,
        network: Network,
        packets: Filter = EVERYTHING,
        *,
        switches: Iterable[int] | None = None,
        count: int = 1 << 23,
        follow: bool = True,
        ring_bytes: int = RING_BYTES,
    ) -> None:
        """`switches`: device ids (default: all with a program). `count`: traces, at most. `follow`: a packet that one
        switch has traced is traced by the next one too, whatever has become of its headers."""
        self._network, self._follow = network, follow
        self._chosen = None if switches is None else list(switches)
        self.ring = Ring(ring_bytes)
        """what is recorded goes there: it counts traces, and says what there was no room for"""
        self.ring.allow(count)
        self.ring.set_filter(packets.words())
        self._controls: dict[int, TraceControl] = {}
        self._forms: list[TraceForm] = []
        self._readers: dict[int, EventReader] = {}
        self._drop_ports: dict[int, int] = {}
        self._plain: dict[int, tuple[Program, Any]] = {}
        self._coverage: dict[int, Int64Array] = {}
        self._replicas = ReplicaReader(network)
        self._marks = np.zeros(0, np.int32)
        self._builder: TreeBuilder | None = None
        self._records: RecordReader | None = None

    def start(self) -> None:
        """Switches tracing on, between two packets."""
        self._network.call(self._start)

    def _start(self) -> None:
        place = self._network.trace_place(self._chosen)
        self._marks = np.zeros(place.slots, np.int32)
        first: dict[int, int] = {}
        for switch in place.switches:
            code = self._code_for(switch)
            if id(code) not in first:
                first[id(code)] = len(self._forms)
                self._forms += code.trace_forms
            control = TraceControl(self.ring, switch.device_id, switch.program, first[id(code)])
            if self._follow:
                inner = self._network.inner_ports(switch.device_id)
                control.follow(self._marks, place.pool_bytes, place.pool_stride, inner)
            self._controls[switch.device_id] = control
            self._plain[switch.device_id] = switch.program, switch.state
            self._drop_ports[switch.device_id] = switch.drop_port
            self._readers[switch.device_id] = EventReader(switch.program.model, EntryReader(switch.state.tables))
            switch.state.block[TRACE_CONTROL] = control.address
            self._network.set_functions(switch.device_id, code)
        self._records = RecordReader(self._forms)
        base, stride = place.pool_bytes, place.pool_stride
        self._replicas.look(self._controls)

        def slot_of(address: int) -> int:
            return (address - base) // stride

        self._builder = TreeBuilder(self._readers, self._drop_ports, self._replicas, slot_of)

    def _code_for(self, switch: WiredSwitch) -> Program:
        """The traced program of a switch, and where it counts what packets reach."""
        plain, collector = switch.program, COLLECTOR.value
        code = traced(plain, covered=plain.covered or collector is not None)
        if collector is not None:
            counts = self._coverage[switch.device_id] = collector.counts_of(plain.json, code.coverage_sites)
            switch.state.block[TRACED_COVERAGE] = counts.ctypes.data
        return code

    def stop(self) -> None:
        """Switches tracing off. What was recorded can still be collected."""
        self._network.call(self._stop)

    def _stop(self) -> None:
        for device_id, (program, state) in self._plain.items():
            self._network.set_functions(device_id, program)
            state.block[TRACED_COVERAGE] = program.coverage.ctypes.data
        own = {id(counts): (counts, self._plain[device_id][0]) for device_id, counts in self._coverage.items()}
        for counts, program in own.values():
            if program.covered and counts is not program.coverage:
                program.coverage += counts  # whoever collects all that packets reach wants these as well

    def choose(self, choices: dict[int, Sequence[int]]) -> None:
        """Set the next choices of switches, by device id (`TraceControl.choose`)."""
        for device_id, control in self._controls.items():
            control.choose(choices.get(device_id, ()))

    def collect(self) -> list[Visit]:
        """The visits of packets so far, in the order in which they began. One that waits in a queue still has no
        outcome; it gets it when the packet goes on, by a later call."""
        taken = self._network.call(self._take)
        assert self._records is not None
        with no_collection():
            self._built.add(self._records.executions(taken))
        return self._built.visits

    def _take(self) -> Int64Array:
        self._replicas.look(self._controls)
        return self.ring.take()

    def executions(self) -> list[tuple[Execution, EventReader]]:
        """In place of `collect`: what functions did since the last call, in the order in which they ran, each with the
        reader of its switch."""
        taken = self._network.call(self.ring.take)
        assert self._records is not None
        with no_collection():
            return [(run, self._readers[run.switch]) for run in self._records.executions(taken)]

    def finish(self, why: str | None = None) -> None:
        """Nothing is under way any more: what came to no egress was dropped by a full queue, or because of `why`."""
        self._built.finish(why)

    def forget(self) -> None:
        self._built.visits = []

    def forget_traces(self, traces: Container[int]) -> None:
        """Let go of the visits of some packets."""
        self._built.visits = [visit for visit in self._built.visits if visit.trace not in traces]

    @property
    def _built(self) -> TreeBuilder:
        assert self._builder is not None, "the recorder was not started"
        return self._builder

    def take(self) -> tuple[Int64Array, Sequence[TraceForm]]:
        """The records so far as they are, for who needs no trees (`collect`), and the forms that say what they mean."""
        return self._network.call(self.ring.take), self._forms

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
