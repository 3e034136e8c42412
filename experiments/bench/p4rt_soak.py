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
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from finsy.proto import p4i, p4r, p4r_grpc

from detour.base.errors import DetourError
from detour.base.p4build import BUILD
from detour.base.progress import Progress, silent
from detour.control.p4runtime.pipeline import read_p4info
from detour.experiments.bench.client import Client
from detour.experiments.bench.p4runtime import updates_of
from detour.experiments.bench.processes import Child, resident
from detour.experiments.bench.report import BenchReport, Fact, Goal, report_of_facts

GOAL_MB = 512.0
SECONDS = 60.0
_DEVICES = 4
_ENTRIES = 20_000
_FRAME_BYTES = 60_000
_SAMPLE_S = 0.02
_MIB = 1 << 20
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


@dataclass
class Attack:
    """Threads that go on until they are told to end, and what they got."""

    address: str
    ended: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def begin(self, name: str, work: Callable[[p4r_grpc.P4RuntimeStub], object], times: int = 1) -> None:
        """Repeats some work in threads, each with a connection of its own; refusals are counted."""
        for _ in range(times):
            thread = threading.Thread(target=self._repeat, args=(name, work), daemon=True)
            self.threads.append(thread)
            thread.start()

    def _repeat(self, name: str, work: Callable[[p4r_grpc.P4RuntimeStub], object]) -> None:
        with grpc.insecure_channel(self.address, options=_UNLIMITED) as channel:
            stub = p4r_grpc.P4RuntimeStub(channel)
            while not self.ended.is_set():
                try:
                    work(stub)
                    what = "done"
                except grpc.RpcError as error:
                    what = error.code().name  # type: ignore[attr-defined]
                except StopIteration:
                    what = "ended"
                key = f"{name} {what}"
                self.counts[key] = self.counts.get(key, 0) + 1
                self.ended.wait(0.01)

    def end(self) -> None:
        """Tells them, and waits."""
        self.ended.set()
        for thread in self.threads:
            thread.join(30.0)


def _cancelled_read(stub: p4r_grpc.P4RuntimeStub) -> None:
    entity = p4r.Entity(table_entry=p4r.TableEntry())
    call = stub.Read(p4r.ReadRequest(device_id=1, entities=[entity] * 200))
    next(iter(call))
    time.sleep(1.0)
    call.cancel()


def _unread_reads(attack: Attack) -> Callable[[p4r_grpc.P4RuntimeStub], None]:
    def work(stub: p4r_grpc.P4RuntimeStub) -> None:
        request = p4r.ReadRequest(device_id=2, entities=[p4r.Entity(table_entry=p4r.TableEntry())] * 200)
        calls = [stub.Read(request) for _ in range(50)]
        attack.ended.wait(10.0)
        for call in calls:
            call.cancel()

    return work


def _unread_streams(attack: Attack) -> Callable[[p4r_grpc.P4RuntimeStub], None]:
    """Streams whose answers nobody reads, with packets of megabytes before any arbitration."""
    packet = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=bytes(4 << 20)))

    def requests(begun: float) -> Iterator[p4r.StreamMessageRequest]:
        while not attack.ended.is_set() and time.monotonic() < begun + 10:
            yield packet

    def work(stub: p4r_grpc.P4RuntimeStub) -> None:
        call = stub.StreamChannel(requests(time.monotonic()))
        attack.ended.wait(10.0)
        call.cancel()

    return work


def _unread_primaries(attack: Attack) -> Callable[[p4r_grpc.P4RuntimeStub], None]:
    """Primaries of roles of their own, which get all packet-ins and digests and take none."""

    def work(stub: p4r_grpc.P4RuntimeStub) -> None:
        calls = []
        for number in range(75):
            role = p4r.Role(name=f"unread {number}")
            update = p4r.MasterArbitrationUpdate(device_id=1 + number % _DEVICES, role=role)
            update.election_id.low = time.monotonic_ns()

            def requests(update: p4r.MasterArbitrationUpdate = update) -> Iterator[p4r.StreamMessageRequest]:
                yield p4r.StreamMessageRequest(arbitration=update)
                attack.ended.wait(15.0)

            calls.append(stub.StreamChannel(requests()))
        attack.ended.wait(15.0)
        for call in calls:
            call.cancel()

    return work


def _roles(attack: Attack) -> Callable[[p4r_grpc.P4RuntimeStub], None]:
    """Streams with long and ever new names of roles."""
    count = iter(range(1 << 60))

    def work(stub: p4r_grpc.P4RuntimeStub) -> None:
        for length in (8, 8, 8, 2_700_000):
            name = f"{next(count)}".rjust(length, "x")
            update = p4r.MasterArbitrationUpdate(device_id=3, role=p4r.Role(name=name))
            update.election_id.low = 1
            call = stub.StreamChannel(iter((p4r.StreamMessageRequest(arbitration=update),)))
            with contextlib.suppress(grpc.RpcError, StopIteration):
                next(iter(call))
            call.cancel()

    return work


def _large_writes(info: p4i.P4Info) -> Callable[[p4r_grpc.P4RuntimeStub], object]:
    """Eleven megabytes of updates, all of which are refused: the entries are there."""
    updates = updates_of(info, "lpm", _ENTRIES)
    request = p4r.WriteRequest(device_id=4, updates=updates * 9)
    request.election_id.low = 1
    size = request.ByteSize()
    if not 8 * _MIB < size < 16 * _MIB:
        raise DetourError(f"bench p4rt-soak: a write of {size} bytes")
    return lambda stub: stub.Write(request, timeout=120.0)


def _empty_updates(stub: p4r_grpc.P4RuntimeStub) -> None:
    request = p4r.WriteRequest(device_id=4, updates=[p4r.Update()] * 200_000)
    request.election_id.low = 1
    stub.Write(request, timeout=120.0)


# -- measuring -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Soak:
    """Bytes that were resident; what the honest controller got done meanwhile."""

    before: int
    peak: int
    after: int
    seconds: float
    honest: int
    slowest_s: float
    median_s: float
    counts: dict[str, int]


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
        """The highest that was seen."""
        self._ended.set()
        self._thread.join()
        return self.peak


def _fill(stack: contextlib.ExitStack, address: str, info: p4i.P4Info, config: bytes) -> None:
    clients = [stack.enter_context(Client(address, device)) for device in range(1, _DEVICES + 1)]
    updates = updates_of(info, "lpm", _ENTRIES)
    for client in clients:
        client.set_pipeline(client.pipeline(info, config))
        client.write(client.requests(updates, 2_000))


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


def measure(seconds: float = SECONDS, progress: Progress = silent) -> Soak:
    """Does all of it at once for some time."""
    info = read_p4info(BUILD / "bench_tables.p4info.txtpb")
    config = (BUILD / "bench_tables.json").read_bytes()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        address = f"unix:{folder}/p4runtime"
        served = stack.enter_context(Child(__name__, "serve", address))
        served.answer()
        _fill(stack, address, info, config)
        progress(f"{_DEVICES} switches with {_ENTRIES:,} entries each")
        before, watch = resident(served.pid), _Watch(served.pid)
        attack = Attack(address)
        served.nudge()
        attack.begin("cancelled reads:", _cancelled_read, 4)
        attack.begin("unread reads:", _unread_reads(attack), 4)
        attack.begin("unread streams:", _unread_streams(attack), 8)
        attack.begin("unread primaries:", _unread_primaries(attack), 4)
        attack.begin("roles:", _roles(attack), 8)
        attack.begin("writes of 11 MiB:", _large_writes(info), 12)
        attack.begin("writes of empty updates:", _empty_updates, 2)
        progress("all begun")
        try:
            with Child(__name__, "honest", address, f"{seconds}") as honest:
                honest.answer()
                service = json.loads(honest.answer())
        finally:
            attack.end()
            served.nudge()
        time.sleep(1.0)
        return Soak(
            before=before,
            peak=watch.end(),
            after=resident(served.pid),
            seconds=seconds,
            honest=service["count"],
            slowest_s=service["slowest_s"],
            median_s=service["median_s"],
            counts=dict(sorted(attack.counts.items())),
        )


def run(seconds: float = SECONDS, progress: Progress = silent) -> BenchReport:
    """Measures."""
    return report(measure(seconds, progress))


def report(soak: Soak) -> BenchReport:
    """The highest above the start counts."""
    above = (soak.peak - soak.before) / 1e6
    facts = (
        Fact("", "resident before, MiB", soak.before / _MIB, ".0f"),
        Fact("", "highest, MiB", soak.peak / _MIB, ".0f"),
        Fact("", "afterwards, MiB", soak.after / _MIB, ".0f"),
        *(Fact(f"{when}_bytes", "", getattr(soak, when)) for when in ("before", "peak", "after")),
        Fact("seconds", "", soak.seconds),
        Fact("honest", "writes and reads of an honest controller meanwhile", soak.honest, ","),
        Fact("honest_slowest_s", "the slowest of them, s", soak.slowest_s, ".2f"),
        Fact("honest_median_s", "the median of them, s", soak.median_s, ".3f"),
        Fact("outcomes", "", soak.counts),
        *(Fact("", what, count, ",") for what, count in soak.counts.items()),
    )
    goal = Goal(f"MB above the start, in {soak.seconds:g} s of everything at once,", above, GOAL_MB, True)
    return report_of_facts("p4rt-soak", ("what", "value"), facts, [goal])


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(sys.argv[2])
    else:
        _honest(sys.argv[2], float(sys.argv[3]))
