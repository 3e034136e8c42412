# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime client that costs next to nothing: requests are made before the clock starts."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Iterator, Sequence

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc

from detour.base.errors import DetourError

_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_ELECTION = U128.encode(1)
_ANSWER_SECONDS = 30.0


class Client:
    """Primary controller of one switch; a context manager."""

    def __init__(self, address: str, device: int) -> None:
        self._device = device
        self._channel = grpc.insecure_channel(address, options=_UNLIMITED)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._answers: Iterator[p4r.StreamMessageResponse] = self._stub.StreamChannel(iter(self._requests.get, None))
        arbitration = p4r.MasterArbitrationUpdate(device_id=device, election_id=_ELECTION)
        self.send(p4r.StreamMessageRequest(arbitration=arbitration))
        if not self.receive().HasField("arbitration"):
            raise DetourError(f"the switch at {address} does not answer the arbitration")

    def send(self, message: p4r.StreamMessageRequest) -> None:
        """Send on the stream."""
        self._requests.put(message)

    def receive(self) -> p4r.StreamMessageResponse:
        """The next message of the stream."""
        return next(self._answers)

    def pipeline(self, info: p4i.P4Info, config: bytes) -> p4r.SetForwardingPipelineConfigRequest:
        """The request that sets a pipeline."""
        action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        terms = {"action": action, "config": p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=config)}
        return p4r.SetForwardingPipelineConfigRequest(device_id=self._device, election_id=_ELECTION, **terms)

    def set_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Set it."""
        self._stub.SetForwardingPipelineConfig(request)

    def requests(self, updates: Sequence[p4r.Update], batch: int) -> list[p4r.WriteRequest]:
        """Write in batches."""
        parts = [updates[start : start + batch] for start in range(0, len(updates), batch)]
        terms = {"device_id": self._device, "election_id": _ELECTION}
        return [p4r.WriteRequest(**terms, updates=part) for part in parts]

    def write(self, requests: Iterable[p4r.WriteRequest]) -> None:
        """Send them one after the other."""
        for request in requests:
            self._stub.Write(request)

    def read(self, entities: Sequence[p4r.Entity]) -> int:
        """Read and count what comes."""
        request = p4r.ReadRequest(device_id=self._device, entities=entities)
        return sum(len(answer.entities) for answer in self._stub.Read(request, timeout=_ANSWER_SECONDS))

    def close(self) -> None:
        """End the connection."""
        self._requests.put(None)
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
