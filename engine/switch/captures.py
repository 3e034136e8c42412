# SPDX-License-Identifier: Apache-2.0
"""What `--pcap` and `--dump-packet-data` want to see of every packet: files and log lines like BMv2's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from detour.engine.capture import Capture
from detour.engine.loop.layout import UP_SENT
from detour.engine.switch import pcap
from detour.engine.upcalls import records


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
        """Notes which port the loop means; files are there already."""
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
