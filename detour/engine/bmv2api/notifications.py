# SPDX-License-Identifier: Apache-2.0
"""BMv2's notifications over nanomsg: digests of packets (LEA), and ports that went up or down (PRT).

Subscribers ask `bm_mgmt_get_info` for the address. pynng speaks nanomsg's protocol.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence

from detour.base.errors import DetourError
from detour.engine.network import Network

_LEARN, _PORTS, _STATUS = struct.Struct("<4sqiiQI"), struct.Struct("<4sqI16x"), struct.Struct("<ii")
_MOST_SAMPLES = 1 << 16
"""of a list that are remembered because nobody has acknowledged them; then the oldest are forgotten"""


class NotificationSocket:
    """Publishes to whoever has subscribed."""

    def __init__(self, address: str, device_id: int) -> None:
        """`address`: as nanomsg has them, `ipc:///tmp/x` or `tcp://127.0.0.1:5555`. Raises `DetourError`."""
        try:
            import pynng
        except ImportError:
            raise DetourError("notifications need pynng: pip install 'detour-fabric[nanomsg]'") from None
        self.address, self._device_id = address, device_id
        try:
            self._socket = pynng.Pub0(listen=address)
        except pynng.exceptions.NNGException as error:
            raise DetourError(f"notifications at {address}: {error}") from None

    def port(self, port: int, up: bool) -> None:
        """A port has gone up or down."""
        self._socket.send(_PORTS.pack(b"PRT|", self._device_id, 1) + _STATUS.pack(port, up))

    def learned(self, list_id: int, buffer_id: int, samples: Sequence[bytes]) -> None:
        """Digests have come."""
        header = _LEARN.pack(b"LEA|", self._device_id, 0, list_id, buffer_id, len(samples))
        self._socket.send(header + b"".join(samples))

    def close(self) -> None:
        self._socket.close()


class LearnList:
    """Digests of one kind on their way to subscribers, as BMv2 collects them: a buffer is sent when it is full or old;
    a digest is not sent again until it is acknowledged."""

    def __init__(self, send: Callable[[int, list[bytes]], None]) -> None:
        """`send` is called with a buffer's number and its samples."""
        self._send = send
        self._lock = threading.Lock()
        self._most, self._timeout_s = 1, 1.0
        self._buffer: list[bytes] = []
        self._next_id = 0
        self._timer: threading.Timer | None = None
        self._known: set[bytes] = set()
        self._sent: dict[int, list[bytes]] = {}

    def add(self, sample: bytes) -> None:
        """A packet has caused a digest."""
        with self._lock:
            if sample in self._known:
                return
            while self._sent and len(self._known) >= _MOST_SAMPLES:
                self._known.difference_update(self._sent.pop(next(iter(self._sent))))
            self._known.add(sample)
            self._buffer.append(sample)
            if len(self._buffer) >= self._most:
                self._flush()
            elif self._timer is None and self._timeout_s:
                self._timer = threading.Timer(self._timeout_s, self._expired)
                self._timer.daemon = True
                self._timer.start()

    def configure(self, *, most: int | None = None, timeout_ms: int | None = None) -> None:
        """Set how many samples a buffer takes, and after which time it is sent (0: never)."""
        with self._lock:
            if timeout_ms is not None:
                self._timeout_s = timeout_ms / 1000
            if most is not None:
                self._most = most
                if self._buffer and len(self._buffer) >= most:
                    self._flush()

    def acknowledge(self, buffer_id: int, samples: Sequence[int] | None = None) -> None:
        """Samples of a buffer, by their place, or all may be sent again."""
        with self._lock:
            sent = self._sent.get(buffer_id, [])
            chosen = range(len(sent)) if samples is None else samples
            self._known.difference_update(sent[n] for n in chosen if 0 <= n < len(sent))
            if samples is None:
                self._sent.pop(buffer_id, None)

    def _expired(self) -> None:
        with self._lock:
            self._timer = None
            if self._buffer:
                self._flush()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        buffer_id, samples = self._next_id, self._buffer
        self._sent[buffer_id] = samples
        self._next_id, self._buffer = buffer_id + 1, []
        self._send(buffer_id, samples)


class Learning:
    """The lists of the program that a switch runs."""

    def __init__(self, network: Network, switch: int, socket: NotificationSocket) -> None:
        self._network, self._switch, self._socket = network, switch, socket
        self._lists: dict[int, LearnList] = {}
        self._program: object = None
        network.on_digest(switch, self._digest, "thrift")

    def find(self, list_id: int) -> LearnList:
        """KeyError: the program has no such list."""
        state = self._network.state(self._switch)
        if state is not self._program:
            ids = [] if state is None else [each["id"] for each in state.program.model.json.get("learn_lists") or ()]
            self._lists, self._program = {id_: self._made(id_) for id_ in ids}, state
        return self._lists[list_id]

    def _made(self, list_id: int) -> LearnList:
        return LearnList(lambda buffer_id, samples: self._socket.learned(list_id, buffer_id, samples))

    def _digest(self, list_id: int, data: bytes, time_ps: int) -> None:
        self.find(list_id).add(data)
