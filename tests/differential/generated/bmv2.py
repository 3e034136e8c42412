# SPDX-License-Identifier: Apache-2.0
"""simple_switch_grpc as a switch on which files of STF are played: entries go over Thrift, packets over its data plane
service."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path

from detour.base.addresses import TcpAddress
from detour.engine.bmv2api.client import connect
from detour.engine.bmv2api.interface import Api
from detour.fabric.tracing.results import Arrived, Ending, TracedPacket
from tests.differential.stream import PacketStream
from tests.ptf.bmv2 import BINARY, listening


def missing() -> str | None:
    """Why there is none here; None if there is one."""
    return None if shutil.which(BINARY) else f"{BINARY} is not on PATH"


class StfBmv2:
    """One that runs a program. A context manager."""

    def __init__(self, program: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="detour-bmv2-")
        self.stream_address = f"unix:{self._folder.name}/dataplane"
        self._process, port = listening(partial(self._command, program))
        try:
            self._connection = connect(TcpAddress("127.0.0.1", port))
            self._stream = PacketStream(self)
        except BaseException:
            self._end()
            raise

    def _command(self, program: Path, port: int) -> list[str]:
        command = [BINARY, "--device-id", "1", "--thrift-port", str(port), "--log-level", "off", str(program), "--"]
        command += ["--grpc-server-addr", f"unix:{self._folder.name}/p4runtime"]
        return [*command, "--dp-grpc-server-addr", self.stream_address]

    @property
    def api(self) -> Api:
        """Over Thrift."""
        return self._connection

    def trace(self, frame: bytes, port: int) -> TracedPacket:
        """Sends a frame; nothing is known of its way but the end."""
        (outputs,) = self._stream.run([(port, frame)])
        traced = TracedPacket()
        for left_by, data in outputs:
            traced.outcomes.append(Ending(1.0, [Arrived("bmv2", left_by, None, data)]))
        return traced

    def wait(self, duration_ps: int) -> None:
        """Not worth it: generated tests have nothing that ages."""

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> StfBmv2:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stream.close()
        self._connection.close()
        self._end()
