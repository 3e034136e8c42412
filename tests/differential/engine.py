# SPDX-License-Identifier: Apache-2.0
"""Runs a case on the engine: P4Runtime for entries and counters, virtual time for frames."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.engine.trace.recorder import Recorder
from detour.engine.trace.tree import Visit
from tests.differential import observe
from tests.differential.case import Case, Result
from tests.differential.packets import Frame
from tests.differential.reference import DROP_PORT, PRIORITIES
from tests.ptf.p4rt import Client

MICROSECOND = 1_000_000
GAP = 10 * MICROSECOND
"""Time between frames: what a frame causes happens in much less."""
PORTS = range(512)


class EngineSwitch:
    """One switch in virtual time, with a collector behind every port, and where it is served."""

    def __init__(self, network: Network, target: str) -> None:
        self._network = network
        self.target = target
        self._out: list[tuple[int, Frame]] = []
        for port in PORTS:
            network.attach_sink((1, port), lambda data, time, port=port: self._out.append((time, (port, data))))

    def run(self, frames: list[Frame]) -> list[list[Frame]]:
        """Sends frames one after the other; what came of each."""
        start = self._network.now_ps + GAP
        for number, (port, data) in enumerate(frames):
            self._network.inject((1, port), data, start + number * GAP)
        self._network.run(start + len(frames) * GAP)
        outputs: list[list[Frame]] = [[] for _ in frames]
        for time, frame in self._out:
            if frame[1]:  # as in `PacketStream.run`
                outputs[(time - start) // GAP].append(frame)
        self._out.clear()
        return outputs

    @contextmanager
    def recorded(self, visits: list[Visit] | None) -> Iterator[None]:
        """Traces all packets into `visits`, if that is a list."""
        if visits is None:
            yield
            return
        with Recorder(self._network, ring_bytes=1 << 28) as recorder:
            yield
            visits += recorder.collect()
            recorder.finish()
        assert not recorder.ring.missed
        assert not recorder.ring.lost


@contextmanager
def switch(priorities: int = PRIORITIES, drop_port: int = DROP_PORT) -> Iterator[EngineSwitch]:
    """An engine without a pipeline, for any number of cases. Port 510 is a port like any other, as in `reference`."""
    with tempfile.TemporaryDirectory(prefix="detour-diff-") as folder, Network(Virtual(), packets=1 << 14) as network:
        network.add_switch(1, priorities=priorities, cpu_port=0, drop_port=drop_port)
        with P4RuntimeServer(network, f"unix:{Path(folder)}/p4runtime") as server:
            server.add_device(1)
            yield EngineSwitch(network, server.target)


def run(case: Case, priorities: int = PRIORITIES, drop_port: int = DROP_PORT) -> Result:
    """Sets up an engine of its own and lets the frames through."""
    with switch(priorities, drop_port) as under_test:
        return run_on(under_test, case)


def run_traced(case: Case) -> tuple[Result, list[Visit]]:
    """The same with every packet traced."""
    visits: list[Visit] = []
    with switch() as under_test:
        return run_on(under_test, case, visits=visits), visits


def run_on(
    under_test: EngineSwitch, case: Case, digests: int | None = None, visits: list[Visit] | None = None
) -> Result:
    """Sets a switch up, which forgets the case before, and lets the frames through. `digests`: as of `reference.run`;
    `visits`: all packets are traced into it."""
    with Client(under_test.target) as client:
        client.set_pipeline(case.schema.config(case.json))
        for update in case.updates:
            client.write(update)
        outputs: list[list[Frame]] = []
        with under_test.recorded(visits):
            for at in range(0, len(case.frames), 1000):
                outputs += under_test.run(case.frames[at : at + 1000])
        expected = digests if case.schema.p4info.digests else 0
        return Result(outputs, observe.counters(client, case.schema), observe.digests(client, expected, 0.5))
