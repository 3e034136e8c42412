# SPDX-License-Identifier: Apache-2.0
"""Target `p4runtime`: mutated requests to a server over gRPC, then packets through what they left behind.

Each request must get a status, in time, and none that says that something went wrong inside (INTERNAL; UNKNOWN is
the status of batches, which say more). Tables and arrays that clients wrote to lie in guarded memory.
"""

from __future__ import annotations

import logging
import os
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import grpc
from google.protobuf.message import DecodeError

from detour.engine.p4runtime import P4RuntimeServer
from tests.differential.packets import PacketMaker, Pool
from tests.fuzz import seeds
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget, Finding
from tests.fuzz.guard import guarded_state
from tests.fuzz.p4runtime_requests import METHODS, PROGRAM, Request, Requests
from tests.fuzz.pipeline import Round
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, codes, config

REQUESTS_PER_ROUND = 250
_TIMEOUT_S = 60.0
_PACKETS = 512
_FRAMES = 12
_DIGEST_BYTES = 8  # of the program's only one
_FIRST, _SECOND = 1, 2
"""Devices: clients write to the first, most streams go to the second."""
_NEVER = (grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
_LOGGERS = ("detour", "asyncio")
_HIGHEST = (1 << 128) - 1


def run(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Sends requests until the budget is used up; returns how many of each kind, and the statuses."""
    totals: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="detour-fuzz-") as folder,
        mock.patch.dict(os.environ, XDG_CACHE_HOME=folder),  # mutated programs are not to fill the user's cache
        guarded_state(),
    ):
        for number in budget.rounds(lambda: totals["requests"]):
            board.note(seed=seed, round=number)
            with Session(board, Path(folder), seed, number, totals) as session:
                session.run()
    return dict(totals)


class Session:
    """A server with two devices, and its clients, for one round."""

    def __init__(self, board: Board, folder: Path, seed: int, number: int, totals: Counter[str]) -> None:
        self._board, self._seed, self._number, self._totals = board, seed, number, totals
        self._rng = random.Random(f"{seed} {number}")
        self._network = FakeNetwork()
        self._errors = _Errors()
        self._server = P4RuntimeServer(self._network, f"unix:{folder}/{number}.sock")
        for device in (_FIRST, _SECOND):
            self._server.add_device(device)
        self._names = Names(config(PROGRAM).p4info)
        self._requests = Requests(self._names, self._rng)

    def __enter__(self) -> Session:
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._errors)
        self._server.start()
        self._clients = [Client(self._server.target, device, 1) for device in (_FIRST, _SECOND)]
        for client in self._clients:
            client.ready(PROGRAM)
        return self

    def __exit__(self, *exc: object) -> None:
        for client in self._clients:
            client.close()
        self._server.stop()
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self._errors)

    def run(self) -> None:
        """Requests, packets, and whether the server still serves."""
        for step in range(REQUESTS_PER_ROUND):
            request = self._requests.any()
            self._board.note(seed=self._seed, round=self._number, step=step, method=request.method)
            self._board.show(b"".join(len(m).to_bytes(4, "big") + m for m in request.messages))
            self._send(request)
            if self._errors.texts:
                self._fail(request, f"logged: {self._errors.texts[0]}")
            self._notify()
            if step % 50 == 49:
                self._packets()
        self._packets()
        self._works()

    def _send(self, request: Request) -> None:
        channel = self._clients[0].channel
        path = f"/p4.v1.P4Runtime/{request.method}"
        error = None
        try:
            match request.method:
                case "StreamChannel":
                    answers = self._stream(channel.stream_stream(path), request)
                case "Read":
                    answers = list(channel.unary_stream(path)(request.messages[0], timeout=_TIMEOUT_S))
                case _:
                    answers = [channel.unary_unary(path)(request.messages[0], timeout=_TIMEOUT_S)]
            for answer in answers:
                METHODS[request.method].response.FromString(answer)
        except grpc.RpcError as e:
            error = e
        self._judge(request, error)

    def _stream(self, method: Any, request: Request) -> list[bytes]:
        call = method(iter(request.messages), timeout=_TIMEOUT_S)
        if self._rng.random() < 0.2:
            call.cancel()
            return []
        return list(call)

    def _judge(self, request: Request, error: Any) -> None:
        status, text = (grpc.StatusCode.OK, "") if error is None else (error.code(), error.details())
        self._totals["requests"] += 1
        self._totals[request.method] += 1
        self._totals[f"status {status.name}"] += 1
        if status in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN) and _undecodable(request):
            self._totals["undecodable"] += 1
        elif status in _NEVER:
            self._fail(request, f"{status.name}: {text}")
        elif error is not None and status is grpc.StatusCode.UNKNOWN:
            statuses = codes(error)
            if request.method not in ("Write", "Read") or not statuses:
                self._fail(request, f"UNKNOWN: {text}")
            if grpc.StatusCode.INTERNAL.value[0] in statuses:
                self._fail(request, f"an element of the batch is INTERNAL: {text}")
            self._totals["elements refused"] += sum(code != 0 for code in statuses)

    def _fail(self, request: Request, text: str) -> None:
        step = self._board.read_note()["step"]
        raise Finding(f"round {self._number}, request {step} ({request.method}): {text}"[:1500])

    def _notify(self) -> None:
        """Packet-ins of any length and digests come while requests do."""
        rng, device = self._rng, self._rng.choice((_FIRST, _SECOND))
        if rng.random() < 0.2:
            self._network.packet_in[device](rng.randbytes(rng.randrange(80)), 0)
            self._network.digest[device](rng.randrange(3), rng.randbytes(_DIGEST_BYTES), 0)

    def _packets(self) -> None:
        """Packets through program and state as the clients left them."""
        program, state = self._network.pipelines[_FIRST]
        rng = random.Random(self._rng.getrandbits(64))
        name = f"p4runtime/{PROGRAM}.json"
        maker = PacketMaker(seeds.source(name), Pool(seeds.source(name), rng), rng)
        packets = [maker.frame()[1] for _ in range(_FRAMES)]
        subject = seeds.Subject(program, state, packets, seeds.words(name))
        Round(self._board, f"round {self._number}", subject, rng).run(_PACKETS)
        self._totals["packets"] += _PACKETS

    def _works(self) -> None:
        """A controller that comes now gets its work done."""
        self._board.note(seed=self._seed, round=self._number, step=REQUESTS_PER_ROUND, method="none")
        client = Client(self._server.target, _FIRST, _HIGHEST)
        try:
            client.ready(PROGRAM)
            entry = self._names.entry("lpm_route", None, action=("to_cpu", 1))
            client.insert(entry)
            read = client.read(self._names.entry("lpm_route"))
        except (grpc.RpcError, AssertionError) as e:
            raise Finding(f"round {self._number}: the server does not work any more: {e}"[:1500]) from e
        finally:
            client.close()
        if len(read) != 1 or read[0].table_entry.action != entry.table_entry.action:
            raise Finding(f"round {self._number}: the entry written last was read as {read}"[:1500])


class _Errors(logging.Handler):
    """What the server logs of things that went wrong where no request waits for a status."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


def _undecodable(request: Request) -> bool:
    """Whether gRPC could not make a message of the bytes: then the status is its own, of its choice."""
    try:
        for data in request.messages:
            METHODS[request.method].request.FromString(data)
    except DecodeError:
        return True
    return False
