# SPDX-License-Identifier: Apache-2.0
"""Packets through simple_switch_grpc's own data plane service: no interfaces, no root, nothing lost, no guessing.

Every frame carries a number that comes back with whatever becomes of it, clones and copies too, and the switch ends
the stream when its last packet is gone, so what did not come out was dropped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

import grpc

from tests.waiting import PATIENCE_S

Frame = tuple[int, bytes]
"""(port, bytes)"""

_METHOD = "/p4.bm.DataplaneInterface/PacketStream"
STREAM_SECONDS = PATIENCE_S


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode(request: tuple[int, int, int, bytes]) -> bytes:
    """PacketStreamRequest: id 1, device_id 2, port 3, packet 4."""
    number, device, port, packet = request
    fields = b"".join(bytes([i << 3]) + _varint(v) for i, v in ((1, number), (2, device), (3, port)) if v)
    return fields + b"\x22" + _varint(len(packet)) + packet


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _decode(data: bytes) -> tuple[int, int, bytes]:
    """PacketStreamResponse as (id, port, packet)."""
    number = port = at = 0
    packet = b""
    while at < len(data):
        tag, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if tag == 0x22:
            packet, at = data[at : at + value], at + value
        elif tag >> 3 == 1:
            number = value
        elif tag >> 3 == 3:
            port = value
    return number, port, packet


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
        self._open = self._channel.stream_stream(_METHOD, _encode, _decode)
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
        requests: Iterator[tuple[int, int, int, bytes]] = (
            (number, self._device, port, data) for number, (port, data) in enumerate(frames, 1)
        )
        for number, port, data in self._open(requests, timeout=STREAM_SECONDS):
            if data:  # nothing is left of a packet that was truncated to nothing
                outputs[number - 1].append((port, data))
        return outputs

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()
