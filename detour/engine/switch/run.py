# SPDX-License-Identifier: Apache-2.0
"""The switch itself: network, interfaces, P4Runtime server, captures and log of one process."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError, told_of
from detour.base.files import read_bytes
from detour.base.progress import Progress
from detour.engine import warm
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.notifications import NotificationSocket
from detour.engine.clock import RealTime
from detour.engine.compiler.log_ring import LogRing
from detour.engine.coverage.document import collecting
from detour.engine.endpoint import GrpcEndpoint
from detour.engine.network import Network
from detour.engine.p4runtime import P4RuntimeServer
from detour.engine.state import SwitchState
from detour.engine.switch.captures import Files, InterfaceCapture
from detour.engine.switch.log import open_log
from detour.engine.switch.options import SwitchOptions

if TYPE_CHECKING:
    from detour.engine.bmv2api.server import ThriftServer
    from detour.engine.switch.packet_log import PacketLog

_SWITCH = 1
"""What the network calls its only switch; P4Runtime calls it what the options say."""
_PACKETS = 4096
_FRAME_BYTES = 65_550
"""A segment that the kernel has not cut yet (TSO), with its Ethernet header and a VLAN tag."""
_LOG_POLL_S, _IDLE_S = 0.05, 0.5


class _Logged(Network):
    """A network that lets `log_msg()` of every program that it is given be read, and takes those of one architecture
    only (None: of any)."""

    def __init__(self, log: logging.Logger, architecture: str | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._log, self._architecture = log, architecture
        self.ring: LogRing | None = None
        self.packet_log: PacketLog | None = None

    def set_pipeline(self, switch: int, program: Any, state: SwitchState) -> None:
        if self._architecture not in (None, program.model.architecture):
            raise DetourError(f"--arch {self._architecture}: this is a program for {program.model.architecture}")
        logs = program.log_formats and self._log.isEnabledFor(logging.INFO) and self.packet_log is None
        self.ring = state.enable_log() if logs else None
        if self.packet_log is not None:
            self.packet_log.stop()
        super().set_pipeline(switch, program, state)
        if self.packet_log is not None:
            self.packet_log.start(program)
        self._log.debug("simple_switch target has been notified of a config swap")


class StandaloneSwitch:
    """One switch, as the options ask, at an endpoint that is bound already."""

    def __init__(
        self, options: SwitchOptions, endpoint: GrpcEndpoint, progress: Progress, thrift: ThriftServer | None = None
    ) -> None:
        """`thrift`: where BMv2's runtime API is served besides, bound already; it is ended with the switch."""
        self.options = options
        self.log = open_log(options)
        self.network = _Logged(
            self.log, options.architecture, clock=RealTime(), packets=_PACKETS, frame_bytes=_FRAME_BYTES
        )
        if options.log_packets:
            from detour.engine.switch.packet_log import PacketLog

            self.network.packet_log = PacketLog(self.network, _SWITCH, self.log, options.drop_port)
        self._files: Files | None = None
        self._endpoint = endpoint
        self.server = P4RuntimeServer(self.network, endpoint, promote_backup=options.promote_backup)
        self.notices: list[str] = []
        self._progress = progress
        self._thrift = thrift
        self._coverage: ExitStack[bool | None] = ExitStack()
        self.device = BmDevice(
            self.network,
            _SWITCH,
            self.server,
            options.device_id,
            thrift_port=0 if thrift is None else thrift.port,
            epoch_us=time.time_ns() // 1000,
        )

    def start(self) -> None:
        """Attach, programs, serve. `DetourError` if anything of that cannot be done; then all is given back."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        for notice in self.notices:
            self._progress(notice)

    def _start(self) -> None:
        options = self.options
        warm.ensure(self._progress)
        self._coverage.enter_context(collecting(options.coverage))
        self.network.add_switch(
            _SWITCH, priorities=options.priorities, cpu_port=options.cpu_port or 0, drop_port=options.drop_port
        )
        if options.config is not None:
            # P4Runtime wants its P4Info before it can be used there.
            program = read_bytes(options.config)
            with told_of(str(options.config)):
                self.device.load(program)
        self._attach()
        self._record()
        self.network.start()
        self.device.epoch_us = time.time_ns() // 1000 - self.network.now_ps // 1_000_000
        self.server.add_device(options.device_id, _SWITCH)
        self.server.start()  # last: who can connect is answered
        self._progress(self._endpoint.reach())
        print(f"Server listening on {self.server.target}", flush=True)
        if self._thrift is not None:
            from detour.engine.bmv2api.runtime import BmRuntime

            self._publish()
            self._thrift.serve({"": BmRuntime(self.device)})
        if self._files is not None:
            self._files.start(options.use_files or 0)

    def _publish(self) -> None:
        """Digests and states of ports by nanomsg; simple_switch_grpc has none, so what nobody asked for may lack."""
        options = self.options
        address = options.notifications or f"ipc:///tmp/bmv2-{options.device_id}-notifications.ipc"
        try:
            self.device.notify(NotificationSocket(address, options.device_id))
        except DetourError as error:
            if options.notifications is not None:
                raise
            self.notices.append(f"digests go over P4Runtime only: {error}")

    def stop(self) -> None:
        """Ends everything and gives back what was taken. May be called twice."""
        self.stop_serving()
        self.complete()

    def stop_serving(self) -> None:
        """End all connections, after the requests that have begun, which may take seconds."""
        if self._thrift is not None:
            self._thrift.stop()
        self.server.stop()

    def complete(self) -> None:
        """Ends forwarding and completes all files."""
        if self._files is not None:
            self._files.stop()
        self.network.stop()
        if self.device.notifications is not None:
            self.device.notifications.close()
        self._drain_log()
        self._files = None
        self._coverage.close()

    def run(self, ended: Callable[[float], bool]) -> None:
        """Write the log until `ended(seconds)`, which waits at most that long, say that it is over."""
        while not ended(_LOG_POLL_S if self.network.ring or self.network.packet_log else _IDLE_S):
            self.network.check()
            self._drain_log()

    def _attach(self) -> None:
        options = self.options
        for port, name in options.interfaces.items():
            files = " (files)" if options.use_files is not None else ""
            print(f"Adding interface {name} as port {port}{files}", flush=True)
        if options.use_files is not None:
            self.device.interfaces |= options.interfaces
            self._files = Files(self.network, _SWITCH, options.interfaces, self.log)
            return
        for port, name in options.interfaces.items():
            if _exists(name):
                self.network.attach_interface((_SWITCH, port), name)
                self.device.interfaces[port] = name
            else:
                # As BMv2: the other ports are of use.
                self.log.error("Add port operation failed")
                self.notices.append(f"there is no interface {name}: port {port} is not attached")

    def _record(self) -> None:
        options = self.options
        if options.use_files is not None or (options.pcap is None and not options.dump_packet_data):
            return

        def make(name_of: Callable[[int], str]) -> InterfaceCapture:
            bytes_to_log = options.dump_packet_data if self.log.isEnabledFor(logging.INFO) else 0
            now = lambda: self.network.now_ps  # noqa: E731
            return InterfaceCapture(options.pcap, options.interfaces, name_of, now, bytes_to_log, self.log)

        self.network.capture(make)

    def _drain_log(self) -> None:
        if self.network.packet_log is not None:
            self.network.packet_log.drain()
        ring = self.network.ring
        if ring is not None:
            for line in self.network.call(ring.drain):
                self.log.info("%s", line)


def _exists(name: str) -> bool:
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True
