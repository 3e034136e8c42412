# SPDX-License-Identifier: Apache-2.0
"""`detour bench p4rt-soak`: how much memory clients that mean no good, and a busy data plane, make a process take.

A process of its own serves devices whose tables are full. What it is made to do, all at the same time: Reads of all
tables hundreds of times over, cancelled or never read; streams that send packets of megabytes and read no refusal;
packet-ins faster than anybody takes them; Writes of megabytes from many connections; batches of empty updates;
roles without number, with names of any length; digests that nobody acknowledges. What counts is the highest resident
memory above that of the process before, and that an honest controller is served all the while. That one is a process
of its own too: the one that does all this has little time for it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control.p4runtime.pipeline import read_p4info
from detour.experiments.bench.client import Client
from detour.experiments.bench.p4runtime import updates_of
from detour.experiments.bench.processes import MIB, Child, resident
from detour.experiments.bench.report import BenchReport, Fact, Goal, report_of_facts

GOAL_MB = 512.0
SECONDS = 60.0
_DEVICES = 4
_ENTRIES = 20_000
_FRAME_BYTES = 60_000
_SAMPLE_S = 0.02
_UNLIMITED = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


# -- the process that is measured ----------------------------------------------------------------------------


def _serve(address: str) -> None:
    """Serves switches; for every line on standard input begins or ends a flood of packet-ins and digests."""
    from detour.engine import warm
    from detour.engine.network import Network
    from detour.engine.p4runtime import P4RuntimeServer

    warm.ensure(silent)
    with Network() as network, P4RuntimeServer(network, address) as server:
        network.start()
        for device in range(1, _DEVICES + 1):
            network.add_switch(device)
            server.add_device(device)
        print("ready", flush=True)
        flood = threading.Event()
        devices = list(server._service.devices.values())  # pyright: ignore[reportPrivateUsage]
        threading.Thread(target=_flood, args=(devices, flood), daemon=True).start()
        for _ in sys.stdin:
            (flood.clear if flood.is_set() else flood.set)()


def _flood(devices: list[Any], on: threading.Event) -> None:
    """Packet-ins and digests as fast as they can be handed over, as from the network's thread."""
    number = 0
    while on.wait():
        for device in devices:
            for _ in range(64):
                device._packet_in(bytes(_FRAME_BYTES), 0)
                number += 1
                device._digest(1, number.to_bytes(8, "big"), 0)
        time.sleep(0.001)


# -- what is done to it --------------------------------------------------------------------------------------

SoakWork = Callable[[p4r_grpc.P4RuntimeStub, threading.Event], object]
"""what a client does again and again: by its connection, until an event says that all of them end"""
_ALL_TABLES = [p4r.Entity(table_entry=p4r.TableEntry())] * 200
_NUMBERS = itertools.count()


class _Attack:
    """Threads that repeat some work until they are told to end, each with a connection of its own; refusals are
    counted."""

    def __init__(self, address: str, works: Mapping[str, tuple[SoakWork, int]]) -> None:
        """`works`: by name, and in how many threads."""
        self._address, self._ended = address, threading.Event()
        self.counts: Counter[str] = Counter()
        jobs = [(name, work) for name, (work, times) in works.items() for _ in range(times)]
        self._threads = [threading.Thread(target=self._repeat, args=job, daemon=True) for job in jobs]
        for thread in self._threads:
            thread.start()

    def _repeat(self, name: str, work: SoakWork) -> None:
        with grpc.insecure_channel(self._address, options=_UNLIMITED) as channel:
            stub = p4r_grpc.P4RuntimeStub(channel)
            while not self._ended.is_set():
                try:
                    work(stub, self._ended)
                    what = "done"
                except grpc.RpcError as error:
                    what = error.code().name  # type: ignore[attr-defined]
                except StopIteration:
                    what = "ended"
                self.counts[f"{name} {what}"] += 1
                self._ended.wait(0.01)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30.0)


def _cancelled_read(stub: p4r_grpc.P4RuntimeStub, ended: threading.Event) -> None:
    call = stub.Read(p4r.ReadRequest(device_id=1, entities=_ALL_TABLES))
    next(iter(call))
    time.sleep(1.0)
    call.cancel()


def _unread_reads(stub: p4r_grpc.P4RuntimeStub, ended: threading.Event) -> None:
    request = p4r.ReadRequest(device_id=2, entities=_ALL_TABLES)
    _leave_unread([stub.Read(request) for _ in range(50)], ended, 10.0)


def _leave_unread(calls: Sequence[Any], ended: threading.Event, seconds: float) -> None:
    ended.wait(seconds)
    for call in calls:
        call.cancel()


def _unread_streams(stub: p4r_grpc.P4RuntimeStub, ended: threading.Event) -> None:
    """A stream whose answers nobody reads, with packets of megabytes before any arbitration."""
    packet, end = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(4 << 20))), time.monotonic() + 10

    def requests() -> Iterator[p4r.StreamMessageRequest]:
        while not ended.is_set() and time.monotonic() < end:
            yield packet

    _leave_unread([stub.StreamChannel(requests())], ended, 10.0)


def _arbitration(device: int, role: str, election: int) -> p4r.StreamMessageRequest:
    update = p4r.MasterArbitrationUpdate(device_id=device, role=p4r.Role(name=role))
    update.election_id.low = election
    return p4r.StreamMessageRequest(arbitration=update)


def _unread_primaries(stub: p4r_grpc.P4RuntimeStub, ended: threading.Event) -> None:
    """Primaries of roles of their own, which get all packet-ins and digests and take none."""

    def requests(number: int) -> Iterator[p4r.StreamMessageRequest]:
        yield _arbitration(1 + number % _DEVICES, f"unread {number}", time.monotonic_ns())
        ended.wait(15.0)

    _leave_unread([stub.StreamChannel(requests(number)) for number in range(75)], ended, 15.0)


def _roles(stub: p4r_grpc.P4RuntimeStub, ended: threading.Event) -> None:
    """Streams with long and ever new names of roles."""
    for length in (8, 8, 8, 2_700_000):
        call = stub.StreamChannel(iter((_arbitration(3, f"{next(_NUMBERS)}".rjust(length, "x"), 1),)))
        with contextlib.suppress(grpc.RpcError, StopIteration):
            next(iter(call))
        call.cancel()


def _writes(updates: Sequence[p4r.Update]) -> SoakWork:
    request = p4r.WriteRequest(device_id=4, updates=updates)
    request.election_id.low = 1
    return lambda stub, ended: stub.Write(request, timeout=120.0)


# -- measuring -----------------------------------------------------------------------------------------------


class _Watch:
    """Samples a process's resident memory."""

    def __init__(self, process: int) -> None:
        self._process, self._ended = process, threading.Event()
        self.peak = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            with contextlib.suppress(OSError):
                self.peak = max(self.peak, resident(self._process))

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.peak


def _honest(address: str, seconds: float) -> None:
    """Small writes and reads for some time, by the primary of a role of its own, which takes what comes on its stream;
    prints a JSON object: how many, and the seconds of the slowest and of the median."""
    info = read_p4info(BUILD / "bench_tables.p4info.txtpb")
    first = updates_of(info, "lpm", 1)[0]
    with Client(address, 1, role="honest") as client:
        threading.Thread(target=_drain, args=(client,), daemon=True).start()
        modify = p4r.Update(type=p4r.Update.MODIFY, entity=first.entity)
        (request,) = client.requests([modify], 1)
        took: list[float] = []
        print("ready", flush=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.monotonic()
            client.write([request])
            client.read([first.entity])
            took.append(time.monotonic() - begun)
            time.sleep(0.05)
        print(json.dumps({"count": len(took), "slowest_s": max(took), "median_s": statistics.median(took)}), flush=True)


def _drain(client: Client) -> None:
    with contextlib.suppress(grpc.RpcError, StopIteration):
        while True:
            client.receive()


def run(seconds: float = SECONDS, progress: Progress = silent) -> BenchReport:
    """Does all of it at once for some time. The highest above the start counts."""
    info = read_p4info(BUILD / "bench_tables.p4info.txtpb")
    config = (BUILD / "bench_tables.json").read_bytes()
    updates = updates_of(info, "lpm", _ENTRIES)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        address = f"unix:{folder}/p4runtime"
        served = stack.enter_context(Child(__name__, "serve", address))
        served.answer()
        for client in [stack.enter_context(Client(address, device)) for device in range(1, _DEVICES + 1)]:
            client.set_pipeline(client.pipeline(info, config))
            client.write(client.requests(updates, 2_000))
        progress(f"{_DEVICES} switches with {_ENTRIES:,} entries each")
        before, watch = resident(served.pid), _Watch(served.pid)
        served.nudge()
        works: dict[str, tuple[SoakWork, int]] = {
            "cancelled reads:": (_cancelled_read, 4),
            "unread reads:": (_unread_reads, 4),
            "unread streams:": (_unread_streams, 8),
            "unread primaries:": (_unread_primaries, 4),
            "roles:": (_roles, 8),
            # All of these are refused: the entries are there.
            "writes of 11 MiB:": (_writes(updates * 9), 12),
            "writes of empty updates:": (_writes([p4r.Update()] * 200_000), 2),
        }
        attack = _Attack(address, works)
        progress("all begun")
        try:
            with Child(__name__, "honest", address, f"{seconds}") as honest:
                honest.answer()
                service = json.loads(honest.answer())
        finally:
            attack.end()
            served.nudge()
        time.sleep(1.0)
        memory = {"before": before, "peak": watch.end(), "after": resident(served.pid)}
    return _report(memory, seconds, service, dict(sorted(attack.counts.items())))


def _report(memory: dict[str, int], seconds: float, service: dict[str, float], counts: dict[str, int]) -> BenchReport:
    heads = {"before": "resident before, MiB", "peak": "highest, MiB", "after": "afterwards, MiB"}
    facts = (
        *(Fact("", head, memory[when] / MIB, ".0f") for when, head in heads.items()),
        *(Fact(f"{when}_bytes", "", size) for when, size in memory.items()),
        Fact("seconds", "", seconds),
        Fact("honest", "writes and reads of an honest controller meanwhile", service["count"], ","),
        Fact("honest_slowest_s", "the slowest of them, s", service["slowest_s"], ".2f"),
        Fact("honest_median_s", "the median of them, s", service["median_s"], ".3f"),
        Fact("outcomes", "", counts),
        *(Fact("", what, count, ",") for what, count in counts.items()),
    )
    above = (memory["peak"] - memory["before"]) / 1e6
    goal = Goal(f"MB above the start, in {seconds:g} s of everything at once,", above, GOAL_MB, True)
    return report_of_facts("p4rt-soak", ("what", "value"), facts, [goal])


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(sys.argv[2])
    else:
        _honest(sys.argv[2], float(sys.argv[3]))
