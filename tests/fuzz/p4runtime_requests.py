# SPDX-License-Identifier: Apache-2.0
"""Mutated requests of every RPC of P4Runtime: fields, bytes, nested data, and programs in them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from finsy.proto import U128, p4r, stratum

from tests.fuzz import seeds
from tests.fuzz.json_mutations import Mutator as JsonMutator
from tests.unit.p4runtime.harness import PROGRAMS, Names, config
from tests.unit.p4runtime.mutants import Mutator
from tests.unit.p4runtime.test_p4rt_pipeline import ALL, valid_updates

PROGRAM = "everything"
_DEEPEST = 45  # two messages each; protobuf itself refuses more than 100 in each other


@dataclass(frozen=True)
class Method:
    """The types of an RPC."""

    request: Any
    response: Any


METHODS = {
    "Write": Method(p4r.WriteRequest, p4r.WriteResponse),
    "Read": Method(p4r.ReadRequest, p4r.ReadResponse),
    "SetForwardingPipelineConfig": Method(
        p4r.SetForwardingPipelineConfigRequest, p4r.SetForwardingPipelineConfigResponse
    ),
    "GetForwardingPipelineConfig": Method(
        p4r.GetForwardingPipelineConfigRequest, p4r.GetForwardingPipelineConfigResponse
    ),
    "Capabilities": Method(p4r.CapabilitiesRequest, p4r.CapabilitiesResponse),
    "StreamChannel": Method(p4r.StreamMessageRequest, p4r.StreamMessageResponse),
}
_WEIGHTS = (50, 20, 5, 3, 2, 20)


@dataclass(frozen=True)
class Request:
    """One call: one message, or those of a stream."""

    method: str
    messages: list[bytes]


class Requests:
    """What clients of devices 1 and 2, whose primaries have election id 1, may send. All random is from `rng`."""

    def __init__(self, names: Names, rng: random.Random) -> None:
        self._names, self._rng = names, rng
        self._mutator = Mutator(0, list(names.ids.values()))
        self._mutator.rng = rng
        self._updates = valid_updates(names)
        self._program = (PROGRAMS / f"{PROGRAM}.json").read_text()
        self._programs = JsonMutator([seeds.source(f"p4runtime/{PROGRAM}.json")], rng)
        self._streamed = _streamed(names)
        self._makers = {
            "Write": self._write,
            "Read": self._read,
            "SetForwardingPipelineConfig": self._set_pipeline,
            "GetForwardingPipelineConfig": lambda: p4r.GetForwardingPipelineConfigRequest(device_id=1),
            "Capabilities": lambda: p4r.CapabilitiesRequest(device_id=1),
        }

    def any(self) -> Request:
        """The next request."""
        method = self._rng.choices(list(METHODS), _WEIGHTS)[0]
        if method == "StreamChannel":
            count = self._rng.randrange(8)
            messages = [self._mutator.mutate(self._rng.choice(self._streamed)) for _ in range(count)]
            return Request(method, [self._bytes(m) for m in messages])
        return Request(method, [self._bytes(self._makers[method]())])

    def _bytes(self, message: Any) -> bytes:
        data = message.SerializeToString()
        return self._spoilt(data) if self._rng.random() < 0.1 else data

    def _spoilt(self, data: bytes) -> bytes:
        """Bytes that are hardly a message any more."""
        rng, at = self._rng, self._rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + rng.randbytes(rng.randrange(1, 20)) + data[at:]
            case 2:
                other = rng.choice(self._updates).SerializeToString()
                return data[:at] + other + data[at:]
        return rng.randbytes(rng.randrange(200))

    def _write(self) -> p4r.WriteRequest:
        """A batch in which most updates are sound, so that the server gets far."""
        rng = self._rng
        request = p4r.WriteRequest(device_id=1, election_id=U128.encode(1), atomicity=rng.choice((0, 0, 0, 1, 2)))  # pyright: ignore[reportArgumentType]
        for _ in range(rng.randrange(1, 12)):
            update = p4r.Update()
            update.CopyFrom(rng.choice(self._updates))
            if rng.random() < 0.3:
                update.type = rng.choice((1, 2, 3))  # pyright: ignore[reportAttributeAccessIssue]
            if rng.random() < 0.6:
                update = self._mutator.mutate(update)
            if rng.random() < 0.03:
                self._nest(update.entity.register_entry)
            request.updates.append(update)
        return self._mutator.mutate(request) if rng.random() < 0.2 else request

    def _nest(self, entry: Any) -> None:
        """Data in data in data."""
        entry.register_id = self._rng.choice(list(self._names.ids.values()))
        data = entry.data
        for _ in range(self._rng.choice((2, 20, _DEEPEST))):
            data = data.tuple.members.add()
        data.bitstring = b"\1"

    def _read(self) -> p4r.ReadRequest:
        request = p4r.ReadRequest(device_id=1)
        entities = [*ALL, *(u.entity for u in self._updates)]
        for _ in range(self._rng.randrange(1, 6)):
            entity = self._rng.choice(entities)
            request.entities.append(self._mutator.mutate(entity) if self._rng.random() < 0.7 else entity)
        return self._mutator.mutate(request) if self._rng.random() < 0.2 else request

    def _set_pipeline(self) -> p4r.SetForwardingPipelineConfigRequest:
        """The pipeline of device 1 with another P4Info or another program, or something else of the request."""
        rng = self._rng
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1,
            election_id=U128.encode(1),
            action=rng.choice((1, 2, 3, 3, 3, 4, 5, 5)),  # pyright: ignore[reportArgumentType]
        )
        request.config.CopyFrom(config(PROGRAM))
        match rng.randrange(3):
            case 0:
                request.config.p4info.CopyFrom(self._mutator.mutate(request.config.p4info))
            case 1:
                text = self._programs.mutant(self._program)
                request.config.p4_device_config = text.encode(errors="surrogatepass")
            case _:
                return self._mutator.mutate(request)
        return request


def _streamed(names: Names) -> list[p4r.StreamMessageRequest]:
    """Valid messages of a stream to device 2."""
    role = p4r.Role(name="r")
    role.config.Pack(stratum.P4RoleConfig(exclusive_p4_ids=[names.ids["acl"]], receives_packet_ins=True))
    arbitration = p4r.MasterArbitrationUpdate(device_id=2, election_id=U128.encode(5))
    packet = p4r.PacketOut(payload=b"x" * 60)
    packet.metadata.add(metadata_id=1, value=b"\1")
    packet.metadata.add(metadata_id=2, value=b"\0")
    with_role = p4r.MasterArbitrationUpdate(device_id=2, election_id=U128.encode(5), role=role)
    return [
        *[p4r.StreamMessageRequest(arbitration=arbitration)] * 2,
        p4r.StreamMessageRequest(arbitration=with_role),
        p4r.StreamMessageRequest(arbitration=p4r.MasterArbitrationUpdate(device_id=2)),
        p4r.StreamMessageRequest(packet=packet),
        p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=names.ids["learn_t"], list_id=1)),
        p4r.StreamMessageRequest(other=role.config),
    ]
