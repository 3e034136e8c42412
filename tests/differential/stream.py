# SPDX-License-Identifier: Apache-2.0
"""Packets through simple_switch_grpc's own data plane service: no interfaces, no root, nothing lost, no guessing.

Every frame carries a number that comes back with whatever becomes of it, clones and copies too, and the switch ends
the stream when its last packet is gone, so what did not come out was dropped.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import grpc

from detour.base.protobuf import add_messages, message_class, new_pool
from tests.waiting import PATIENCE_S

Frame = tuple[int, bytes]
"""(port, bytes)"""

_METHOD = "/p4.bm.DataplaneInterface/PacketStream"
STREAM_SECONDS = PATIENCE_S
_FIELDS = (("id", 1, "uint64"), ("device_id", 2, "uint64"), ("port", 3, "uint32"), ("packet", 4, "bytes"))
_POOL = new_pool()
add_messages(_POOL, "p4.bm", {"PacketStreamRequest": _FIELDS, "PacketStreamResponse": _FIELDS})
_REQUEST, _RESPONSE = (message_class(_POOL, f"p4.bm.PacketStream{kind}") for kind in ("Request", "Response"))


class Streaming(Protocol):
    """A simple_switch_grpc."""

    @property
    def stream_address(self) -> str:
        """gRPC, of its data plane."""
        ...


class PacketStream:
    """The data plane of one that was started without ports and has a pipeline."""

    def __init__(self, switch: Streaming, device_id: int = 1) -> None:
        self._device = device_id
        self._channel = grpc.insecure_channel(switch.stream_address, options=[("grpc.max_receive_message_length", -1)])
        grpc.channel_ready_future(self._channel).result(timeout=STREAM_SECONDS)
        self._open = self._channel.stream_stream(_METHOD, _REQUEST.SerializeToString, _RESPONSE.FromString)
        self._wait()

    def _wait(self) -> None:
        """The switch starts when its first pipeline is set, and a little later than that returns."""
        deadline = time.monotonic() + STREAM_SECONDS
        while True:
            try:
                self.run([])
                return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def run(self, frames: Sequence[Frame]) -> list[list[Frame]]:
        """Sends frames at once and returns what came of each. A queue holds 64 packets a port: keep it short."""
        outputs: list[list[Frame]] = [[] for _ in frames]
        requests = (
            _REQUEST(id=number, device_id=self._device, port=port, packet=data)
            for number, (port, data) in enumerate(frames, 1)
        )
        for answer in self._open(requests, timeout=STREAM_SECONDS):
            if answer.packet:  # nothing is left of a packet that was truncated to nothing
                outputs[answer.id - 1].append((answer.port, answer.packet))
        return outputs

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()
