# SPDX-License-Identifier: Apache-2.0
"""Capture files like BMv2's: what `--pcap` and `--dump-packet-data` want to see of every packet, and `--use-files`, for
which packets come from files and go to files, in place of interfaces."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.interrupting import join_thread
from detour.engine.capture import Capture, CaptureFiles
from detour.engine.loop.layout import UP_SENT
from detour.engine.network import Network
from detour.engine.switch import pcap
from detour.engine.upcalls import records

_AT_ONCE = 32
_PAUSE_S = 0.001


class InterfaceCapture(Capture):
    """Writes `IFACE_in.pcap` and `IFACE_out.pcap`, complete after every packet, and logs packets."""

    def __init__(
        self,
        folder: Path | None,
        interfaces: Mapping[int, str],
        name_of: Callable[[int], str],
        now_ps: Callable[[], int],
        dump: int,
        log: logging.Logger,
    ) -> None:
        """`folder`: where files go (None: no files). `dump`: bytes of every packet to log."""
        self._interfaces, self._dump, self._log = dict(interfaces), dump, log
        self._ports: dict[int, int] = {}
        self._paths: dict[tuple[int, bool], Path] = {}
        self._now_ps = now_ps
        super().__init__(folder or Path("."), name_of)
        if folder is not None:
            for port, name in self._interfaces.items():
                for sent, ending in ((False, "in"), (True, "out")):
                    path = self._paths[port, sent] = folder / f"{name}_{ending}.pcap"
                    self._files.make(path, pcap.header())

    def open_port(self, port: int) -> None:
        """Note which port the loop means; files are there already."""
        self._ports[port] = int(self._name_of(port).rpartition("-")[2])

    def _collect(self, chunk: bytes) -> None:
        if not self._epoch_ns:
            # A frame belongs to the moment at which it passed, not to that at which it is written; and loop time begins
            # when the loop runs, after captures are made.
            self._epoch_ns = time.time_ns() - self._now_ps() // 1000
        for record in records(chunk):
            port, sent = self._ports[record.index], record.kind == UP_SENT
            if port not in self._interfaces:
                continue
            if self._dump:
                what = "Sending" if sent else "Received"
                data = record.data[: self._dump].hex()
                self._log.info("%s packet of length %d on port %d: %s", what, record.wire, port, data)
            if (path := self._paths.get((port, sent))) is not None:
                self._files.add(path, pcap.packet(self._epoch_ns + record.time_ps // 1000, record.data))
        self._files.flush()


class Files:
    """Plays `NAME_in.pcap` of every port into the switch and writes `NAME_out.pcap`. As in BMv2 the order of packets is
    that of their times over all files, but they are not waited for: the next ones come in when the ones before have
    left, so that no queue overflows."""

    def __init__(self, network: Network, switch: int, names: Mapping[int, str], log: logging.Logger) -> None:
        self._network, self._switch, self._names, self._log = network, switch, dict(names), log
        self._out, self._full = CaptureFiles(), False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        for port, name in self._names.items():
            next(pcap.read(Path(f"{name}_in.pcap")), None)  # a file that cannot be read is told now
            path = Path(f"{name}_out.pcap")
            self._out.make(path, pcap.header())
            network.attach_sink((switch, port), lambda frame, _time_ps, path=path: self._write(path, frame))

    def _write(self, path: Path, frame: bytes) -> None:
        if self._full:
            return
        try:
            self._out.add(path, pcap.packet(time.time_ns(), frame))
            self._out.flush()
        except DetourError as error:
            self._full = True
            self._log.error("%s; the rest is left out", error)

    def start(self, wait_s: int) -> None:
        """Begin to play after some seconds."""
        self._thread = threading.Thread(target=self._play, args=(wait_s,), name="files", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends playing."""
        self._stopping.set()
        if self._thread is not None:
            join_thread(self._thread)

    def _play(self, wait_s: int) -> None:
        if self._stopping.wait(wait_s):
            return
        count = 0
        try:
            frames = heapq.merge(*(self._frames(port, name) for port, name in self._names.items()))
            for count, (_, port, frame) in enumerate(frames, start=1):
                if count % _AT_ONCE == 0 and not self._settle():
                    return
                self._network.inject((self._switch, port), frame)
        except DetourError as error:
            self._log.error("%s", error)
        self._log.debug("Pcap reader: end of all input files, %d packets", count)

    def _frames(self, port: int, name: str) -> Iterator[tuple[int, int, bytes]]:
        return ((frame.time_ns, port, frame.data) for frame in pcap.read(Path(f"{name}_in.pcap")))

    def _settle(self) -> bool:
        """Wait until no packet is on its way; False if playing is to end."""
        while self._network.loop_stats()["used"]:
            if self._stopping.wait(_PAUSE_S):
                return False
        return not self._stopping.is_set()
