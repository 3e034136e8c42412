# SPDX-License-Identifier: Apache-2.0
"""The fabric's loop: switches, links, hosts and sockets of one process, driven by one compiled event loop.

Time is an `int` of picoseconds since the loop began. A switch is named by its P4Runtime device id, a port by
`(device_id, port_number)`. Methods may be called from any thread; those that change the fabric run in the
loop's thread (`Network.call`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from detour.engine.clock import Clock, RealTime

T = TypeVar("T")
Port = tuple[int, int]
"""(device id of the switch, port number)"""

PacketInCallback = Callable[[bytes, int], None]
"""called with the frame that came to the CPU port and the loop time in ps"""

DigestCallback = Callable[[int, bytes, int], None]
"""called with the digest's field list id, its serialised fields and the loop time in ps"""

SinkCallback = Callable[[bytes, int], None]
"""called with a frame that left a port and the loop time in ps"""


class Network:
    """A fabric in one process. Build it, `start()` or `run()` it, `stop()` it; also a context manager."""

    def __init__(
        self,
        clock: Clock | None = None,
        tick_ps: int | None = None,
        seed: int = 0,
        *,
        hosts: Any = None,
        packets: int = 1 << 16,
        frame_bytes: int = 2048,
    ) -> None:
        """`clock`: `RealTime()` (default) or `Virtual()`. `tick_ps`: length of a P4 tick (default: the clock's).
        `seed`: everything random derives from it. `hosts`: the `Hosts` named tuple of native hosts.
        `packets`: packets that may be in the fabric at once. `frame_bytes`: longest Ethernet frame."""
        self.clock = clock or RealTime()

    # -- building ---------------------------------------------------------------------------------------

    def add_switch(
        self,
        device_id: int,
        name: str = "",
        *,
        priorities: int = 1,
        cpu_port: int = 510,
        drop_port: int = 511,
    ) -> None:
        """Adds a switch without a pipeline (it drops everything) with `priorities` queues a port."""
        raise NotImplementedError

    def set_pipeline(self, switch: int, program: Any, state: Any) -> None:
        """Gives a switch its compiled program and its `SwitchState`; allowed while traffic flows: packets that
        wait in the switch with the old program's headers are dropped and counted (`pipeline_drops`)."""
        raise NotImplementedError

    def connect(self, a: Port, b: Port, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> None:
        """A cable between two switch ports, both directions alike. Rate 0: unlimited."""
        raise NotImplementedError

    def attach_host(
        self, port: Port, host: int, rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64
    ) -> None:
        """A cable to native host `host` of the `Hosts` arrays."""
        raise NotImplementedError

    def attach_unix(self, port: Port, path: str | Path, peer: str | Path | None = None,
                    rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> None:
        """Attaches a UNIX datagram socket bound to `path`; frames go to whoever bound `peer`
        (default: `path` + ".peer"). Each datagram is one Ethernet frame."""
        raise NotImplementedError

    def attach_interface(self, port: Port, name: str,
                         rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> None:
        """Attaches a Linux interface (root): an existing one by a raw packet socket; if there is none of that
        name, a TAP device is made and lives as long as the network."""
        raise NotImplementedError

    def attach_sink(self, port: Port, callback: SinkCallback,
                    rate_bps: int = 0, delay_ps: int = 0, queue_packets: int = 64) -> None:
        """Hands every frame that leaves the port to `callback`; frames come in by `inject`."""
        raise NotImplementedError

    # -- running ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the loop's thread (real time) and the threads that serve callbacks and captures."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stops the loop, closes sockets and removes their files, completes captures. May be called twice."""
        raise NotImplementedError

    def run(self, until_ps: int) -> int:
        """Executes the loop until loop time `until_ps` and returns the loop time. Real time: waits for it."""
        raise NotImplementedError

    def call(self, function: Callable[[], T]) -> T:
        """Runs `function` in the loop's thread between two slices; returns its result or raises its error."""
        raise NotImplementedError

    @property
    def now_ps(self) -> int:
        """Loop time."""
        raise NotImplementedError

    @property
    def lag_ps(self) -> int:
        """How far loop time is behind the wall clock (0 in virtual time)."""
        raise NotImplementedError

    # -- packets from and to Python ---------------------------------------------------------------------

    def inject(self, port: Port, frame: bytes, time_ps: int | None = None) -> None:
        """Lets a frame arrive on a switch port at `time_ps` (default: now)."""
        raise NotImplementedError

    def packet_out(self, switch: int, frame: bytes) -> None:
        """A frame from the controller enters at the CPU port, controller header first, as in simple_switch_grpc."""
        raise NotImplementedError

    def on_packet_in(self, switch: int, callback: PacketInCallback | None) -> None:
        """Who receives frames that the switch sends to its CPU port (None: they are dropped and counted)."""
        raise NotImplementedError

    def on_digest(self, switch: int, callback: DigestCallback | None) -> None:
        """Who receives the switch's digests (None: they are dropped and counted)."""
        raise NotImplementedError

    # -- replication ------------------------------------------------------------------------------------

    def set_multicast_group(self, switch: int, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Group `group` (1..65535) replicates to `(port, rid)`s, in this order. No replicas: deletes it."""
        raise NotImplementedError

    def set_clone_session(
        self, switch: int, session: int, replicas: Sequence[tuple[int, int]] | None, length: int = 0
    ) -> None:
        """Clone session `session` (0..32767) sends clones to `(port, rid)`s, cut to `length` bytes on the wire
        (0: whole). `None` deletes it."""
        raise NotImplementedError

    # -- faults and limits ------------------------------------------------------------------------------

    def set_link(self, port: Port, up: bool) -> None:
        """Takes the cable at `port` down or up, both directions. What is in flight or sent on it is lost."""
        raise NotImplementedError

    def set_faults(self, port: Port, *, loss: float = 0.0, corrupt: float = 0.0, duplicate: float = 0.0,
                   both: bool = True) -> None:
        """Seeded probabilities per frame for the cable at `port`: out of the port, and into it if `both`."""
        raise NotImplementedError

    def set_queue(self, port: Port, *, packets: int | None = None, bytes_limit: int | None = None,
                  rate_pps: int | None = None, priority: int | None = None) -> None:
        """Depth in packets and bytes (0: no limit) and BMv2's packets a second (0: no limit) of a port's queues
        (of one priority, or of all)."""
        raise NotImplementedError

    def set_rate(self, port: Port, rate_bps: int) -> None:
        """Changes the rate of the cable out of the port (0: unlimited)."""
        raise NotImplementedError

    # -- observation ------------------------------------------------------------------------------------

    def port_stats(self) -> dict[str, Any]:
        """NumPy arrays, one element a port: device_id, port, rx_packets, rx_bytes, tx_packets, tx_bytes,
        queue_packets, queue_bytes, queue_peak, queue_drops, egress_drops, link_drops, busy_ps, up, rate_bps,
        and `time_ps` (a number)."""
        raise NotImplementedError

    def switch_stats(self) -> dict[str, Any]:
        """NumPy arrays, one element a switch: device_id, packets, parser_errors, drops by reason, clones ..."""
        raise NotImplementedError

    def capture(self, folder: str | Path | None) -> None:
        """Writes one pcapng file a port, `<switch name>-<port>.pcapng`, from now on (None: stops and completes)."""
        raise NotImplementedError

    def kick_host(self, host: int) -> None:
        """Native host `host` may have something to send: asks it. After posting work from Python."""
        raise NotImplementedError

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
