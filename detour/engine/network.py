# SPDX-License-Identifier: Apache-2.0
"""The fabric's loop: switches, links, hosts and sockets of one process, driven by one compiled event loop.

Time is an `int` of picoseconds since the loop began. A switch is named by its P4Runtime device id, a port by
`(device id, port number)`. Methods may be called from any thread; those that change the fabric run in the
loop's thread (`Network.call`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from detour.base.arrays import Int64Array, UInt8Array
from detour.base.errors import DetourError
from detour.engine import division, jitter, lossless, phv, sockets, stats, suspension, traffic_manager
from detour.engine.capture import Capture
from detour.engine.carrier import CarrierMonitor, CarrierState
from detour.engine.clock import Clock, RealTime, Virtual
from detour.engine.loop import entry
from detour.engine.loop.layout import MAX_TIME, SCRATCH_BYTES, TO_SINK, UP_DIGEST, UP_PACKET_IN, UP_SINK, SlotRecord
from detour.engine.loop.memory import Memory
from detour.engine.runner import Runner
from detour.engine.upcalls import Record, Upcalls
from detour.engine.wiring import Faults, Port, WiredSwitch, Wiring
from detour.engine.workers import Workers
from detour.hosts.frames.sizes import IPV6, MAX_FRAME, MAX_OVERHEAD
from detour.hosts.stacks import HostStack

P = ParamSpec("P")
T = TypeVar("T")

PacketInCallback = Callable[[bytes, int], None]
"""called with the frame that came to the CPU port and the loop time in ps"""

DigestCallback = Callable[[int, bytes, int], None]
"""called with the digest's field list id, its serialised fields and the loop time in ps"""

SinkCallback = Callable[[bytes, int], None]
"""called with a frame that left a port and the loop time in ps"""

PortCallback = Callable[[Port, bool], None]
"""called with a port and whether it is up now"""

MakeCapture = Callable[[Callable[[int], str]], Capture]
"""called with what names the loop's ports, `<switch name>-<port>`"""


class TracePlace(NamedTuple):
    """Switches to be traced, and the memory of frames: `slots` places of `pool_stride` bytes from `pool_bytes` on."""

    switches: list[WiredSwitch]
    pool_bytes: int
    pool_stride: int
    slots: int


_FUNCTIONS = (
    *("parse", "ingress", "egress", "deparse", "preserve", "digest", "prefetch"),
    *("egress_parse", "ingress_deparse"),
)
_FLUSH_S = 5.0


def _in_turn(function: Callable[Concatenate[Wiring, P], T]) -> Callable[Concatenate[Network, P], T]:
    """As a method: works on the loop's tables between two slices (`Network.call`)."""

    @wraps(function)
    def method(self: Network, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.call(lambda: function(self._wiring, *args, **kwargs))

    return method


def _between_slices(method: Callable[Concatenate[Network, P], T]) -> Callable[Concatenate[Network, P], T]:
    """The method runs in the loop's thread between two slices (`Network.call`)."""

    @wraps(method)
    def called(self: Network, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.call(lambda: method(self, *args, **kwargs))

    return called


def _timed(function: Callable[[Memory], dict[str, Any]]) -> Callable[[Network], dict[str, Any]]:
    """As a method: counters of the loop, and the number `time_ps` of when they were read."""

    @wraps(function)
    def method(self: Network, /) -> dict[str, Any]:
        return {"time_ps": self.now_ps} | function(self._memory)

    return method


class Network:
    """A fabric in one process. Build it, `start()` or `run()` it, `stop()` it; also a context manager.

    Callbacks run in a thread of their own in real time; in virtual time in the loop's thread, at the very event. A
    switch without a program, a port that nothing is attached to and a controller that does not listen drop
    packets and count them (`switch_stats`).
    """

    def __init__(
        self,
        clock: Clock | None = None,
        tick_ps: int | None = None,
        seed: int = 0,
        *,
        hosts: Any = None,
        packets: int = 1 << 16,
        frame_bytes: int | None = None,
        overhead_bytes: int = 0,
    ) -> None:
        """`clock`: `RealTime()` (default) or `Virtual()`. `tick_ps`: length of a P4 tick (default: the clock's).
        `seed`: everything random derives from it. `hosts`: the `Hosts` named tuple of native hosts.
        `packets`: packets that may be in the fabric at once. `frame_bytes`: longest Ethernet frame (default: of
        native hosts; if they elide payload, what of a frame is stored at least). `overhead_bytes`: what every frame
        takes on a link beside its own bytes (Ethernet's preamble and gap: 20)."""
        self.clock: Clock = clock or RealTime()
        self.tick_ps = tick_ps or self.clock.tick_ps
        self.seed = seed
        self.hosts = hosts
        elided = hosts is not None and bool(hosts.cfg[0]["elide_payload"])
        outer = IPV6 if hosts is not None and bool(hosts.cfg[0]["encapsulates"]) else 0
        needed = MAX_OVERHEAD + outer if elided else MAX_FRAME
        frame_bytes = needed if frame_bytes is None else frame_bytes
        if packets < 1 or frame_bytes < 64:
            raise DetourError(f"a pool of {packets} packets of {frame_bytes} bytes is too small")
        if hosts is not None and frame_bytes < needed:
            raise DetourError(f"frame_bytes is {frame_bytes}; native hosts need {needed}")
        threads = self.clock.threads if isinstance(self.clock, Virtual) else 1
        if threads < 1:
            raise DetourError(f"{threads} threads; expected at least 1")
        self._memory = Memory(packets, frame_bytes, elided, threads)
        self._memory.g["tick_ps"] = self.tick_ps
        self._memory.g["overhead_bytes"] = overhead_bytes
        self._virtual = isinstance(self.clock, Virtual)
        self._may_divide = isinstance(self.clock, Virtual) and self.clock.divide
        self._measured = (-1, -1)
        self._division = division.UNDIVIDED
        self._covered = False
        """whether switches count in the same places what packets reach"""
        self._lookahead_ps = 0
        self._memory.g["inline_upcalls"] = int(self._virtual)
        self._wiring = Wiring(self._memory, seed, self.tick_ps)
        self._upcalls = Upcalls(inline=self._virtual)
        self._workers = Workers(self._memory, self._wiring) if threads > 1 else None
        self._runner = Runner(self._memory, self.clock, self._take_logs, self._workers)
        self.notified = 0
        """packet-ins and digests that controllers were told of so far"""
        self._attachments: dict[Port, sockets.Attachment] = {}
        self._carriers: CarrierMonitor[Port] = CarrierMonitor(self._carrier_changed)
        self._on_port_state: PortCallback | None = None
        self._on_digest: dict[int, dict[str, DigestCallback]] = {}
        self._capture: Capture | None = None
        self._stacks: list[HostStack] = []
        self._rdma: list[tuple[Any, Any]] | None = None
        """kept because the loop has their addresses"""

    # -- building ---------------------------------------------------------------------------------------

    def expect(self, packets: int) -> None:
        """Say how many packets will be under way at once, so that their memory is there when they are sent. A guess
        that is wrong costs time or memory, no packets. To be called when all programs are in place."""
        self._memory.expect(packets)

    def add_switch(
        self,
        device_id: int,
        name: str = "",
        *,
        priorities: int = 1,
        cpu_port: int = phv.CPU_PORT,
        drop_port: int = phv.DROP_PORT,
        domain: int = -1,
    ) -> None:
        """Add a switch without a program (it drops everything) with `priorities` queues a port.

        `cpu_port` 0: none. `domain`: switches that share registers must have the same one (-1: shares nothing)."""
        name = name or f"s{device_id}"
        self.call(lambda: self._wiring.add_switch(device_id, name, priorities, cpu_port, drop_port, domain))

    @_between_slices
    def set_pipeline(self, switch: int, program: Any, state: Any) -> None:
        """Give a switch its compiled `Program` and its `SwitchState`, also while traffic flows.

        Packets that wait in the switch with headers as the old program laid them out are dropped and counted
        (`pipeline_drops`); frames on links are not touched."""
        wired = self._wiring.switch(switch)
        if max(program.max_header_bytes, program.max_digest_bytes) > SCRATCH_BYTES:
            raise DetourError(
                f"the program of switch {wired.name} may write {program.max_header_bytes} bytes of headers and "
                f"digests of {program.max_digest_bytes} bytes; expected at most {SCRATCH_BYTES}"
            )
        if wired.program is not None:
            entry.flush_switch(self._memory.address, wired.index)
        self._covered |= getattr(program, "covered", False)
        self._memory.reserve_phv(program.phv_size)
        self.set_functions(switch, program)
        row = self._memory.row("switches", wired.index)
        row["state"] = state.sw
        row["phv_size"] = program.phv_size
        for name, offset in getattr(program, "queue_places", {}).items():
            row[name] = offset
        row["ready"] = 1
        wired.program = program
        wired.state = state
        state.set_drop_port(wired.drop_port)
        for port in self._wiring.cables:
            if port[0] == switch:
                state.set_port_state(port[1], self._wiring.is_up(port))

    @_between_slices
    def set_functions(self, switch: int, program: Any) -> None:
        """Let packets run through another compilation of the program that the switch has: with tracing, or without.
        Their headers stay where they are."""
        row = self._memory.row("switches", self._wiring.switch(switch).index)
        for name in _FUNCTIONS:
            row[name] = getattr(program, f"{name}_addr")

    @_between_slices
    def flush(self, switch: int) -> None:
        """Drop all packets that are in a switch, counted as `pipeline_drops`."""
        entry.flush_switch(self._memory.address, self._wiring.switch(switch).index)

    def trace_place(self, device_ids: Sequence[int] | None = None) -> TracePlace:
        """Return a recorder's view of the network: the switches with these device ids (None: all) that have a program,
        and where the frames of packets are."""
        chosen = self._wiring.switches if device_ids is None else device_ids
        switches = [self._wiring.switch(each) for each in chosen]
        g = self._memory.g
        with_program = [each for each in switches if each.program is not None]
        stride = int(g["slot_lines"]) * SlotRecord.dtype.itemsize
        return TracePlace(with_program, int(g["slots"]), stride, int(g["slots_own"]))

    def inner_ports(self, switch: int) -> list[int]:
        """The ports of a switch that have a cable to a switch."""
        return stats.inner_ports(self._memory, self._wiring.switch(switch).index)

    def state(self, switch: int) -> Any:
        """The `SwitchState` of a switch; None before it has a program."""
        return self._wiring.switch(switch).state

    connect = _in_turn(Wiring.connect)

    def attach_host(self, port: Port, host: int, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> None:
        """A cable to native host `host` of the `Hosts` arrays."""
        count = 0 if self.hosts is None else len(self.hosts.host)
        if self.hosts is None or not 0 <= host < count:
            raise DetourError(f"there is no host {host}; the arrays hold {count}")
        if self._rdma is None:
            from detour.hosts import rdma  # switches without hosts need none of it

            self._rdma = [rdma.stack_of(self.hosts, k) for k in range(len(self._memory.globals))]
            if self._workers is not None:
                self._workers.add_stacks([record.ctypes.data for record, _ in self._rdma])
        stack = self._rdma[0][0].ctypes.data
        self.call(lambda: self._wiring.attach_host(port, stack, host, rate_bps, delay_ps, queue_packets))

    def attach_stack(
        self, port: Port, stack: HostStack, host: int, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64
    ) -> None:
        """A cable to host `host` of another stack than RDMA's, for instance `hosts.ip` (`hosts.stacks`)."""
        limit = int(self._memory.g["frame_bytes"])
        if not 0 <= host < stack.hosts:
            raise DetourError(f"there is no host {host}; the stack has {stack.hosts}")
        if stack.frame_bytes > limit:
            raise DetourError(f"the stack's frames have {stack.frame_bytes} bytes, those of the network {limit}")
        terms = (rate_bps, delay_ps, queue_packets)
        nic = self.call(lambda: self._wiring.attach_stack(port, stack.record.ctypes.data, host, *terms))
        self._stacks.append(stack)
        stack.attached(host, self.call, lambda: self._kick(nic), lambda: self.now_ps)

    def attach_unix(
        self,
        port: Port,
        path: str | Path,
        peer: str | Path | None = None,
        rate_bps: int = 0,
        delay_ps: int = 0,
        queue_packets: int = 64,
    ) -> None:
        """Attach a UNIX datagram socket bound to `path`; frames go to whoever has bound `peer`
        (default: `path` + ".peer") by then. Each datagram is one Ethernet frame."""
        where = Path(path)
        to = Path(f"{where}.peer" if peer is None else peer)
        self._attach_socket(port, lambda: sockets.open_unix(where, to), rate_bps, delay_ps, queue_packets)

    def attach_interface(
        self, port: Port, name: str, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64
    ) -> None:
        """Attach a Linux interface (root): an existing one by a raw packet socket; if there is none of that
        name, a TAP device is made and lives as long as the network. The port is up while the interface has a link."""
        ring = self._memory.g["rings"] < sockets.MOST_RINGS

        def attach() -> None:
            self._attach_socket(port, lambda: sockets.open_interface(name, ring), rate_bps, delay_ps, queue_packets)
            self._set_carrier(port, self._carriers.watch(port, name))

        self.call(attach)

    def attach_linux_host(
        self, port: Port, attachment: sockets.Attachment, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64
    ) -> None:
        """A cable to a host whose interface has been opened (`sockets.open_tap` and the like) and belongs to the
        network from now on. Its `longest` frame must be known. Frames take time on the cable in both directions."""
        room = int(self._memory.g["frame_bytes"])
        if not 0 < attachment.longest <= room:
            attachment.close()
            raise DetourError(
                f"{attachment.name}: frames of up to {attachment.longest} bytes; there is room for {room}"
            )
        self._attach_socket(port, lambda: attachment, rate_bps, delay_ps, queue_packets, both=True)

    @_between_slices
    def _attach_socket(
        self,
        port: Port,
        opened: Callable[[], sockets.Attachment],
        rate: int,
        delay: int,
        queue: int,
        both: bool = False,
    ) -> None:
        if self._virtual:
            raise DetourError(f"port {port[1]}: sockets and interfaces need real time, this network is virtual")
        self._wiring.check_free(port)
        attachment = opened()
        self._attachments[port] = attachment
        index = self._wiring.attach_socket(port, attachment, rate, delay, queue, both=both)
        if attachment.ring is None:
            sockets.watch(self._runner.epoll, attachment.fd, index)
        self._tell_selectors(port)

    @_between_slices
    def detach_interface(self, port: Port) -> None:
        """Take an interface or a socket from its port; then another one may be attached there."""
        self._wiring.detach_socket(port)
        self._carriers.forget(port)
        self._attachments.pop(port).close()  # the epoll forgets it by itself
        self._tell_selectors(port)

    def on_port_state(self, callback: PortCallback | None) -> None:
        """Callback for a port's interface losing its link or getting it back."""
        self._on_port_state = callback

    def _carrier_changed(self, port: Port, carrier: CarrierState, replaced: bool) -> None:
        def change() -> bool:
            if port not in self._attachments:
                return False  # detached meanwhile
            if replaced:
                self._attachments[port].rebind(carrier.index)
            before = port not in self._wiring.without_carrier
            self._set_carrier(port, carrier.up)
            return carrier.up != before

        if self.call(change) and self._on_port_state is not None:
            self._on_port_state(port, carrier.up)

    def _set_carrier(self, port: Port, up: bool) -> None:
        self._wiring.set_carrier(port, up)
        self._tell_selectors(port)

    def _tell_selectors(self, port: Port) -> None:
        state = self._wiring.switch(port[0]).state
        if state is not None:
            state.set_port_state(port[1], self._wiring.is_up(port))

    @_between_slices
    def attach_sink(
        self, port: Port, callback: SinkCallback, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64
    ) -> None:
        """Hand every frame that leaves the port to `callback`; frames come in by `inject`."""
        index = self._wiring.attach(port, TO_SINK, rate_bps, delay_ps, queue_packets)
        self._upcalls.handlers[UP_SINK, index] = lambda record: callback(record.data, record.time_ps)

    # -- running ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Real time: starts the loop's thread. Virtual time: nothing, `run` does the work."""
        if not self._virtual:
            self._runner.start()

    def stop(self) -> None:
        """Stop the loop, close sockets and remove their files, complete captures. May be called twice.

        The network cannot be used any more, but its counters can be read."""
        self._carriers.close()
        self._runner.stop()
        self._take_logs()
        self._upcalls.close()
        sockets.close_all(self._attachments.values())
        self._attachments.clear()
        self._runner.close()
        if self._workers is not None:
            self._workers.close()
        self.capture(None)

    def run(self, until_ps: int) -> int:
        """Execute the loop until loop time `until_ps`; return the loop time. Real time: waits until then."""
        if not 0 <= until_ps < MAX_TIME:
            raise DetourError(f"run until {until_ps} ps: the time is out of range")
        if self._virtual:
            self._divide()
            self._runner.run_until(until_ps)
            return self.now_ps
        self._runner.start()
        while self.now_ps < until_ps:
            time.sleep(min(max((until_ps - self.now_ps) / 1e12, 1e-4), 0.1))
        self._runner.call(lambda: None)
        self._upcalls.flush(_FLUSH_S)
        return self.now_ps

    def look_at(self, when_ps: int, look: Callable[[], int]) -> None:
        """Virtual time: have `look` called between two slices of `run` at a time, or now if that has passed; it returns
        when to be called next (`MAX_TIME`: never)."""
        self._runner.look_ps, self._runner.look = max(when_ps, self.now_ps), look

    def run_to_event(self, until_ps: int) -> int:
        """Virtual time: executes the loop until a controller is told of a packet-in or a digest, at the latest until
        `until_ps`; returns the loop time, which is that of the event. What is done before the next call happens then.

        Raises:
            DetourError: the network is not virtual.
        """
        if not self._virtual:
            raise DetourError("run_to_event needs virtual time; this network runs in real time")
        before = self.notified
        self._divide()
        self._runner.run_until(until_ps, lambda: self.notified != before)
        return self.now_ps

    def _divide(self) -> None:
        """Divide the fabric into nodes if that is possible and change nothing but the speed."""
        possible = self._may_divide and division.divisible(self._wiring)
        window_ps = self._latest_division().lookahead_ps if possible else 0
        if window_ps != self._lookahead_ps:
            self._lookahead_ps = window_ps
            nodes_of = self._nodes_of_entities if window_ps else None
            self.call(lambda: self._memory.divide(nodes_of, window_ps, self._division.side))
        if self._workers is not None:
            self._workers.division = self._division if window_ps and not self._covered else None

    def _latest_division(self) -> division.Division:
        size = len(self._wiring.switches), len(self._wiring.cables)
        if size != self._measured:  # neither goes away, and a cable keeps its delay: runs may be short and many
            self._measured, self._division = size, division.divide(self._wiring)
        return self._division

    def _nodes_of_entities(self) -> Int64Array:
        return division.nodes_of_entities(self._wiring, self._latest_division().of_switch)

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` in the loop's thread between two slices; return its result or raise its error."""
        return self._runner.call(function)

    def check(self) -> None:
        """Raise DetourError if the loop's thread has died (a defect): nothing is forwarded any more."""
        self._runner.check()

    @property
    def now_ps(self) -> int:
        return self._runner.now_ps()

    @property
    def virtual(self) -> bool:
        return self._virtual

    @property
    def threads(self) -> int:
        """Number of threads in the last run."""
        return 1 if self._workers is None or self._workers.division is None else self._workers.count

    @property
    def waited_s(self) -> float:
        """Time that these have waited for each other, all together."""
        return 0.0 if self._workers is None else self._workers.waited_s

    @property
    def window_ps(self) -> int:
        """Length of the windows in which nodes are executed apart from each other, 0: they are not."""
        return self._lookahead_ps

    @property
    def node_sides(self) -> Int64Array:
        """(nodes,) which of them take turns with each other (`division.Division`)."""
        return self._division.side

    @property
    def next_event_ps(self) -> int:
        """The time of the next event, `MAX_TIME` if there is none."""
        memory = self._memory
        nodes = memory.table("nodes")[: int(memory.g["node_count"])]
        times = memory.table("heap")["time"][nodes["first"][nodes["pending"] > 0]]
        return int(times.min(initial=MAX_TIME))

    def node_costs(self) -> tuple[Int64Array, Int64Array]:
        """(nodes,) events of each node of a divided fabric so far, and ns that the loop has spent on them since the
        first call of this."""
        self._memory.g["measured"] = 1
        count = int(self._memory.g["node_count"])
        return self._memory.column("nodes", "events")[:count], self._memory.column("nodes", "cost_ns")[:count]

    @property
    def lag_ps(self) -> int:
        """Lag of loop time behind the wall clock since `start` (0 in virtual time)."""
        g = self._memory.g
        return int(g["lag_ps"]) + int(g["slip_ps"])

    @property
    def idle(self) -> bool:
        """Return whether no event is pending."""
        return not self._memory.column("nodes", "pending")[: int(self._memory.g["node_count"])].any()

    @property
    def quiet_until_ps(self) -> int:
        """Virtual time: when the next event is due, or `look_at` looks; nothing changes before."""
        nodes = self._memory.table("nodes")[: int(self._memory.g["node_count"])]
        first = self._memory.table("heap")["time"][nodes["first"][nodes["pending"] > 0]]
        return min(int(first.min(initial=MAX_TIME)), self._runner.look_ps)

    def _take_logs(self) -> None:
        """Empty the loop's logs; called between slices."""
        g = self._memory.g
        if g["taken_used"]:
            chunk = self._memory.log("taken")
            if self._capture is not None:
                self._capture.put(chunk)
        if g["up_used"]:
            self._upcalls.put(self._memory.log("up"))

    # -- packets from and to Python ---------------------------------------------------------------------

    def inject(self, port: Port, frame: bytes, time_ps: int | None = None) -> None:
        """Let a frame arrive on a switch port at `time_ps` (default: now). The port must be attached."""
        limit = int(self._memory.g["frame_bytes"])
        if not 0 < len(frame) <= limit:
            raise DetourError(f"a frame of {len(frame)} bytes; frames have 1 to {limit} bytes")
        data = np.frombuffer(frame, np.uint8)

        def put() -> int:  # not by `inject_many`, whose checks of arrays take four times as long as all of this
            at = self.now_ps if time_ps is None else max(time_ps, int(self._memory.g["now"]))
            both = np.array((at, len(frame)), np.int64)
            times = both.ctypes.data
            return self._put_frames(port, times, times + both.itemsize, 1, data.ctypes.data, len(frame))

        if not self.call(put):
            raise DetourError(f"the packet pool is empty ({int(self._memory.g['slots_own'])} packets)")

    def inject_many(self, port: Port, times_ps: Int64Array, frames: UInt8Array, sizes: Int64Array | None = None) -> int:
        """Let frames arrive on a switch port: row i of `frames` at `times_ps[i]` (rising; what is over is now).

        `sizes`: bytes on the wire, where only the beginning of a frame is stored (default: the rows' length). Return
        how many were taken: fewer when the packet pool is full. Much faster than as many `inject`."""
        count, stored = frames.shape
        wire = np.full(count, stored, np.int64) if sizes is None else np.ascontiguousarray(sizes, np.int64)
        if len(times_ps) != count or len(wire) != count or stored < 1:
            raise DetourError(f"{count} frames of {stored} bytes, {len(times_ps)} times and {len(wire)} sizes")
        if stored > int(self._memory.g["frame_bytes"]) or (count and int(wire.min()) < 1):
            raise DetourError(f"frames of {stored} bytes; 1 to {int(self._memory.g['frame_bytes'])} can be stored")
        if count and bool((np.diff(times_ps) < 0).any()):
            raise DetourError("the times of frames must increase")
        data = np.ascontiguousarray(frames, np.uint8)

        def put() -> int:
            at = np.maximum(np.ascontiguousarray(times_ps, np.int64), int(self._memory.g["now"]))
            return self._put_frames(port, at.ctypes.data, wire.ctypes.data, count, data.ctypes.data, stored)

        return self.call(put)

    def _put_frames(self, port: Port, times: int, sizes: int, count: int, rows: int, stored: int) -> int:
        index, channel = self._wiring.port_index(port), self._wiring.inject_channel
        return entry.put_frames(self._memory.address, channel, index, times, sizes, count, rows, stored)

    def packet_out(self, switch: int, frame: bytes) -> None:
        """A frame from the controller enters at the CPU port, controller header first, as in simple_switch_grpc."""
        wired = self._wiring.switch(switch)
        if wired.cpu_port <= 0:
            raise DetourError(f"switch {wired.name} has no CPU port, so it takes no packet-out")
        self.inject((switch, wired.cpu_port), frame)

    def on_packet_in(self, switch: int, callback: PacketInCallback | None) -> None:
        """Set the receiver of frames that the switch sends to its CPU port (None: they are dropped and counted)."""
        wired = self._wiring.switch(switch)
        if wired.cpu_port <= 0:
            return
        index = self._wiring.port_index((switch, wired.cpu_port))
        handler = None if callback is None else lambda record: callback(record.data, record.time_ps)
        self._listen(wired.index, "wants_packet_in", (UP_PACKET_IN, index), handler)

    def on_digest(self, switch: int, callback: DigestCallback | None, listener: str = "p4runtime") -> None:
        """Set the listener for the switch's digests (None: none). Without a listener they are dropped and
        counted."""
        index = self._wiring.switch(switch).index
        callbacks = {name: f for name, f in self._on_digest.get(index, {}).items() if name != listener}
        if callback is not None:
            callbacks[listener] = callback
        self._on_digest[index] = callbacks

        def handle(record: Record) -> None:
            for function in callbacks.values():
                function(record.detail, record.data, record.time_ps)

        self._listen(index, "wants_digest", (UP_DIGEST, index), handle if callbacks else None)

    @_between_slices
    def _listen(self, switch: int, flag: str, key: tuple[int, int], handler: Callable[[Record], None] | None) -> None:
        if handler is None:
            self._upcalls.handlers.pop(key, None)
        else:
            self._upcalls.handlers[key] = partial(self._notify, handler)
        self._memory.row("switches", switch)[flag] = int(handler is not None)

    def _notify(self, handler: Callable[[Record], None], record: Record) -> None:
        self.notified += 1
        handler(record)

    # -- replication ------------------------------------------------------------------------------------

    def set_multicast_group(self, switch: int, group: int, replicas: Sequence[Port] | None) -> None:
        """Group `group` (1..65535) replicates to `(port, rid)`s, in this order. `None` deletes it."""
        self._replicate(switch, lambda pre: pre.set_group(group, replicas))

    def set_clone_session(
        self, switch: int, session: int, replicas: Sequence[tuple[int, int]] | None, length: int = 0
    ) -> None:
        """Clone session `session` (0..32767) sends clones to `(port, rid)`s, cut to `length` bytes on the wire
        (0: whole). `None` deletes it."""
        self._replicate(switch, lambda pre: pre.set_session(session, replicas, length))

    def clear_replication(self, switch: int) -> None:
        self._replicate(switch, lambda pre: pre.clear())

    def replication(self, switch: int) -> tuple[dict[int, tuple[Port, ...]], dict[int, tuple[Port, ...]]]:
        """Return the ports that a switch's multicast groups and clone sessions replicate to."""
        pre = self._wiring.switch(switch).replication
        return dict(pre.groups), {number: session.replicas for number, session in pre.sessions.items()}

    def replication_changes(self, switch: int) -> int:
        """Number of times a switch's groups and sessions have changed so far."""
        return self._wiring.switch(switch).replication.changes

    @_between_slices
    def _replicate(self, device_id: int, change: Callable[[Any], None]) -> None:
        switch = self._wiring.switch(device_id)
        pre = switch.replication
        change(pre)
        row = self._memory.row("switches", switch.index)
        row["groups"] = pre.group_offsets.ctypes.data
        row["sessions"] = pre.session_offsets.ctypes.data
        row["replicas"] = pre.blocks.ctypes.data

    # -- faults and limits ------------------------------------------------------------------------------

    @_between_slices
    def set_link(self, port: Port, up: bool) -> None:
        """Take the cable at `port` down or up, both directions. What is in flight or sent on it is lost."""
        self._wiring.port_index(port)
        cable = self._wiring.cables[port]
        for channel in (cable.out_channel, cable.in_channel):
            if channel >= 0:
                self._memory.row("channels", channel)["up"] = int(up)
                if not up:
                    entry.cut_channel(self._memory.address, channel)
        for entity in lossless.link_changed(self._wiring, port, up):
            entry.schedule(self._memory.address, entity, self.now_ps)
        for end in (port, cable.far):
            if end is not None:
                self._tell_selectors(end)

    @_between_slices
    def set_faults(
        self,
        port: Port,
        *,
        loss: float = 0.0,
        corrupt: float = 0.0,
        duplicate: float = 0.0,
        late: float = 0.0,
        late_ps: int = 0,
        both: bool = True,
    ) -> None:
        """Seeded probabilities per frame for the cable at `port`: out of the port, and into it if `both`. A late frame
        arrives up to `late_ps` after its time, so that others overtake it.

        Faults out of a port to a socket, a sink or the controller work; there is no cable into it."""
        faults = Faults(loss, corrupt, duplicate, late, late_ps)
        self._wiring.port_index(port)
        cable = self._wiring.cables[port]
        self._wiring.set_faults(cable.out_channel, faults)
        if both and cable.in_channel >= 0:
            self._wiring.set_faults(cable.in_channel, faults)

    @_between_slices
    def set_jitter(self, jitter_ps: int = jitter.AUTO, packet_bytes: int = jitter.FULL_FRAME_BYTES) -> int:
        """Let every frame of the hosts that are attached by now be late by a seeded draw, in order: one of
        `packet_bytes` by less than `jitter_ps` (`AUTO`: twice what it takes at the slowest link or queue), shorter ones
        in proportion. Simultaneous events are ordered by a seeded draw. Return `jitter_ps`.

        Without this call senders are exactly periodic, which decides whose packets full queues drop (`engine.jitter`).
        """
        most = jitter.default_ps(self._memory, packet_bytes) if jitter_ps == jitter.AUTO else jitter_ps
        jitter.set_jitter(self._memory, most, packet_bytes, self.seed)
        for stack in self._stacks:
            stack.set_jitter(most)
        return most

    set_queue = _in_turn(traffic_manager.set_queue)
    queue_settings = _in_turn(traffic_manager.queue_settings)
    queue_states = _in_turn(traffic_manager.queue_states)
    set_pipeline_speed = _in_turn(traffic_manager.set_pipeline_speed)
    pipeline_speed = _in_turn(traffic_manager.pipeline_speed)
    set_buffers = _in_turn(lossless.set_buffers)
    mirror_load = _in_turn(lossless.mirror_load)
    mirror_input = _in_turn(lossless.mirror_input)

    def ports(self, switch: int) -> list[int]:
        """The numbers of a switch's ports that something is attached to, in the order in which that was done."""
        return [number for _, number in self._wiring.switch(switch).ports]

    def has_port(self, port: Port) -> bool:
        """Return whether a port is attached to anything."""
        return port in self._wiring.cables

    def rate_bps(self, port: Port) -> int:
        """The rate of the cable out of the port, 0: unlimited."""
        self._wiring.port_index(port)
        return int(self._memory.row("channels", self._wiring.cables[port].out_channel)["rate_bps"])

    set_rate = _in_turn(Wiring.set_rate)

    # -- observation ------------------------------------------------------------------------------------

    def port_stats(self) -> dict[str, Any]:
        """`stats.port_stats` and `time_ps`. A port whose interface has no link is not `up`."""
        found: dict[str, Any] = {"time_ps": self.now_ps} | stats.port_stats(self._memory)
        for device, port in self._wiring.without_carrier:
            found["up"][(found["device_id"] == device) & (found["port"] == port)] = 0
        return found

    def port_traffic(self) -> stats.PortTraffic:
        """Bytes of ports, for who asks for them often."""
        return stats.PortTraffic(self._memory)

    switch_stats = _timed(stats.switch_stats)

    def host_stats(self) -> dict[str, Any]:
        """NumPy arrays, one element an RDMA host that is attached: `host`, `rx_packets`, `rx_bytes`, ..."""
        return {"time_ps": self.now_ps} | stats.host_stats(self._memory, list(self._wiring.nics.values()))

    def link_drops(self) -> int:
        """Frames that were lost on any cable, in either direction."""
        return stats.link_drops(self._memory)

    @_between_slices
    def buffer_stats(self, switch: int) -> dict[str, int]:
        """Return the state of a switch's packet memory (`lossless.buffer_stats`)."""
        return lossless.buffer_stats(self._wiring, self.now_ps, switch)

    deadlock = _in_turn(lossless.deadlock)
    cyclic_wait = _in_turn(lossless.cyclic_wait)
    unmoved = _in_turn(lossless.unmoved)

    # -- flows that are suspended -------------------------------------------------------------------------

    frame_places = _in_turn(suspension.frame_places)
    link_delays = _in_turn(suspension.link_delays)
    link_rates = _in_turn(suspension.link_rates)
    loop_address = _in_turn(suspension.loop_address)

    def socket_stats(self) -> dict[str, Any]:
        """NumPy arrays, one element a socket or interface, with `device_id` and `port` that it is attached to."""
        return stats.socket_stats(self._memory)

    @property
    def longest_delay_ps(self) -> int:
        """The longest delay of all links."""
        return int(self._memory.column("channels", "delay_ps").max(initial=0))

    def loop_stats(self) -> dict[str, int]:
        """Numbers of the loop itself: `events`, packets in flight (`used`, `used_peak`), `pool_drops`, ..."""
        return stats.loop_stats(self._memory) | {"upcall_drops": self._upcalls.drops}

    def capture(self, folder: str | Path | MakeCapture | None, only: Container[str] | None = None) -> None:
        """Write a pcapng file a port, `<switch name>-<port>.pcapng`, from now on (None: stops and complete them).

        In place of the folder: a function that makes some other `Capture`. `only`: the ports that are wanted, by these
        names. In real time stamps are those of the wall clock, in virtual time they begin at 0."""

        def change() -> Capture | None:
            self._take_logs()
            made, name_of = None, self._wiring.names.__getitem__
            if folder is not None:
                made = folder(name_of) if callable(folder) else Capture(Path(folder), name_of, self._epoch_ns(), only)
                try:
                    for index in self._wiring.names:
                        made.open_port(index)
                except DetourError:
                    made.close()
                    raise
            before, self._capture = self._capture, made
            self._memory.g["capturing"] = int(made is not None)
            return before

        if (before := self.call(change)) is not None:
            before.close()

    @property
    def capture_error(self) -> str | None:
        """Return the error that ended the writing of captures, if any."""
        return None if self._capture is None or self._capture.error is None else str(self._capture.error)

    def _epoch_ns(self) -> int:
        """The moment at which loop time was 0, ns since 1970; 0 in virtual time."""
        return 0 if self._virtual else time.time_ns() - self.now_ps // 1000

    @_between_slices
    def kick_host(self, host: int) -> None:
        """Native host `host` may have something to send: asks it. After posting work from Python."""
        if host not in self._wiring.nics:
            raise DetourError(f"host {host} is not attached to a port")
        self._kick(self._wiring.nics[host])

    def _kick(self, nic: int) -> None:
        """In the loop's thread."""
        row = self._memory.row("nics", nic)
        at = max(self.now_ps, int(row["busy_until"]))
        entry.schedule(self._memory.address, int(row["entity"]), at)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
