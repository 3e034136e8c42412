# SPDX-License-Identifier: Apache-2.0
"""Raw calls of a P4Runtime server: nothing is checked or completed on the way out, errors are values."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_status
from google.protobuf.message import DecodeError

RPC_TIMEOUT_S = 60.0
_OPTIONS = [
    ("grpc.max_metadata_size", 16 << 20),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
]


class Canonical(IntEnum):
    """Canonical codes of gRPC and `p4.v1.Error`."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    UNAVAILABLE = 14


@dataclass
class RpcAnswer:
    """The outcome of a call: gRPC's code (0: OK), its text, the `p4.v1.Error`s of the status and the messages."""

    code: int
    text: str = ""
    errors: list[p4r.Error] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)
    strange: str = ""
    """what is wrong with the status' details, if they cannot be read"""

    @property
    def codes(self) -> list[int]:
        """The canonical codes of the single elements; the call's own if it has none."""
        return [error.canonical_code for error in self.errors] or [self.code]

    @property
    def entities(self) -> list[p4r.Entity]:
        """The entities of a Read's messages."""
        return [entity for response in self.messages for entity in response.entities]


class Conversation:
    """One StreamChannel. Messages come one by one; its end comes as an `RpcAnswer`."""

    def __init__(self, stub: p4r_grpc.P4RuntimeStub) -> None:
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._received: queue.Queue[p4r.StreamMessageResponse | RpcAnswer] = queue.Queue()
        self.ended = False
        """whether its end has been read"""
        self._call = stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            for message in self._call:
                self.deliver(message)
            self.deliver(RpcAnswer(0))
        except grpc.RpcError as error:
            self.deliver(answer_of(error))

    def deliver(self, message: p4r.StreamMessageResponse | RpcAnswer) -> None:
        """Called with everything that arrives."""
        self._received.put(message)

    def send(self, message: p4r.StreamMessageRequest) -> None:
        self._requests.put(message)

    def next(self, timeout_s: float) -> p4r.StreamMessageResponse | RpcAnswer | None:
        """The next message or the end; None if nothing comes in time."""
        try:
            message = self._received.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self.ended |= isinstance(message, RpcAnswer)
        return message

    def close(self) -> None:
        """Ends our half; the server ends the other one."""
        self._requests.put(None)

    def kill(self) -> None:
        self._requests.put(None)
        self._call.cancel()


class RpcLink:
    """A channel to a server."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, _OPTIONS)
        self.stub = p4r_grpc.P4RuntimeStub(self._channel)

    def call(self, method: str, request: Any) -> RpcAnswer:
        """Write, Read, SetForwardingPipelineConfig, GetForwardingPipelineConfig or Capabilities."""
        messages: list[Any] = []
        try:
            response = getattr(self.stub, method)(request, timeout=RPC_TIMEOUT_S)
            if method == "Read":
                messages.extend(response)
            else:
                messages.append(response)
        except grpc.RpcError as error:
            answer = answer_of(error)
            answer.messages = messages
            return answer
        return RpcAnswer(0, messages=messages)

    def converse(self) -> Conversation:
        return Conversation(self.stub)

    def close(self) -> None:
        self._channel.close()


def answer_of(error: Any) -> RpcAnswer:
    """The status with which a call ended."""
    answer = RpcAnswer(error.code().value[0], error.details() or "")
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            _add_details(answer, value)
    return answer


def _add_details(answer: RpcAnswer, value: bytes) -> None:
    try:
        status = rpc_status.Status.FromString(value)
        for detail in status.details:
            error = p4r.Error()
            if not detail.Unpack(error):
                answer.strange = f"a detail is not a p4.v1.Error but {detail.type_url}"
            answer.errors.append(error)
    except DecodeError:
        answer.strange = "grpc-status-details-bin is not a google.rpc.Status"
        return
    if status.code != answer.code:
        answer.strange = f"the status in the details has code {status.code}, the call {answer.code}"
