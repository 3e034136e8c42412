# SPDX-License-Identifier: Apache-2.0
"""A network without a data plane, and a small raw-gRPC client, for the tests of the P4Runtime server."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import U128, p4i, p4r, p4r_grpc
from google.protobuf import text_format

from tests.ptf.p4rt import Calls, add_match, element_errors, encode, meter_config
from tests.waiting import PATIENCE_S as WAIT_S

PROGRAMS = Path(__file__).resolve().parents[2] / "programs" / "p4runtime"


class FakeNetwork:
    """What the server needs of a network. Frames and digests are pushed in by the test."""

    virtual = False

    def __init__(self) -> None:
        self.tick_ps, self.seed, self.now_ps = 1_000_000, 7, 0
        self.lock = threading.RLock()
        self.calls = 0
        self.pipelines: dict[int, tuple[Any, Any]] = {}
        self.packets_out: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self.packet_in: dict[int, Callable[[bytes, int], None]] = {}
        self.digest: dict[int, Callable[[int, bytes, int], None]] = {}
        self.groups: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(dict)
        self.sessions: dict[int, dict[int, tuple[list[tuple[int, int]], int]]] = defaultdict(dict)
        self.before_call: Callable[[], None] | None = None

    def call(self, function: Callable[[], Any]) -> Any:
        with self.lock:
            self.calls += 1
            if self.before_call is not None:
                self.before_call()
            return function()

    def has_port(self, port: tuple[int, int]) -> bool:
        return port[1] in range(16)

    def set_pipeline(self, switch: int, program: Any, state: Any) -> None:
        self.pipelines[switch] = (program, state)

    def packet_out(self, switch: int, frame: bytes) -> None:
        self.packets_out.put((switch, frame))

    def on_packet_in(self, switch: int, callback: Callable[[bytes, int], None] | None) -> None:
        _listen(self.packet_in, switch, callback)

    def on_digest(self, switch: int, callback: Callable[[int, bytes, int], None] | None) -> None:
        _listen(self.digest, switch, callback)

    def clear_replication(self, switch: int) -> None:
        self.groups[switch], self.sessions[switch] = {}, {}

    def set_multicast_group(self, switch: int, group: int, replicas: Sequence[tuple[int, int]] | None) -> None:
        if replicas is None:
            del self.groups[switch][group]
        else:
            self.groups[switch][group] = list(replicas)

    def set_clone_session(
        self, switch: int, session: int, replicas: Sequence[tuple[int, int]] | None, length: int = 0
    ) -> None:
        if replicas is None:
            del self.sessions[switch][session]
        else:
            self.sessions[switch][session] = (list(replicas), length)


def _listen(listeners: dict[int, Any], switch: int, callback: Any) -> None:
    if callback is None:
        listeners.pop(switch, None)
    else:
        listeners[switch] = callback


_TURNS = 50
"""answers of a server, after which a message would have come if it were to come"""


class Stream:
    """One StreamChannel."""

    def __init__(self, stub: p4r_grpc.P4RuntimeStub) -> None:
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._responses: queue.Queue[p4r.StreamMessageResponse | grpc.RpcError | None] = queue.Queue()
        self._stub = stub
        self.call = stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            for message in self.call:
                self._responses.put(message)
            self._responses.put(None)
        except grpc.RpcError as e:
            self._responses.put(e)

    def send(self, **update: Any) -> None:
        self._requests.put(p4r.StreamMessageRequest(**update))

    def arbitrate(self, device_id: int, election: int | None, role: str = "", config: Any = None) -> None:
        update = p4r.MasterArbitrationUpdate(device_id=device_id)
        if election is not None:
            update.election_id.CopyFrom(U128.encode(election))
        if role or config is not None:
            update.role.name = role
        if config is not None:
            update.role.config.Pack(config)
        self.send(arbitration=update)

    def next(self, timeout: float = WAIT_S) -> p4r.StreamMessageResponse:
        """The next message; fails when the stream ends or nothing comes."""
        got = self._responses.get(timeout=timeout)
        assert isinstance(got, p4r.StreamMessageResponse), got
        return got

    def silent(self) -> bool:
        """Whether nothing comes while the server answers other calls on the same connection."""
        for _ in range(_TURNS):
            self._stub.Capabilities(p4r.CapabilitiesRequest())
        return self._responses.empty()

    def error(self) -> grpc.StatusCode:
        """The status with which the server ends the stream."""
        while True:
            got = self._responses.get(timeout=WAIT_S)
            if isinstance(got, grpc.RpcError):
                return got.code()
            assert got is not None, "the stream ended without error"

    def ending(self) -> p4r.StreamMessageResponse | grpc.RpcError | None:
        """The next message, or the end."""
        return self._responses.get(timeout=WAIT_S)

    def close(self) -> None:
        self._requests.put(None)

    def kill(self) -> None:
        self.call.cancel()


class Client(Calls):
    """One controller. It becomes primary with `primary()`."""

    def __init__(self, target: str, device_id: int = 1, election: int = 1, credentials: Any = None) -> None:
        super().__init__(target, device_id, election, credentials)
        self.streams: list[Stream] = []

    def stream(self) -> Stream:
        self.streams.append(Stream(self.stub))
        return self.streams[-1]

    def primary(self) -> Stream:
        stream = self.stream()
        stream.arbitrate(self.device_id, self.election, self.role)
        assert stream.next().arbitration.status.code == 0
        return stream

    def ready(self, program: str = "everything") -> Stream:
        """Becomes primary and sets the pipeline; its stream."""
        stream = self.primary()
        self.set_pipeline(config(program))
        return stream

    def refusals(self, *updates: tuple[str, p4r.Entity]) -> list[int]:
        """The codes of a batch that is refused."""
        return refusals(lambda: self.write(*updates))

    def close(self) -> None:
        for stream in self.streams:
            stream.kill()
        self.channel.close()


def codes(error: grpc.RpcError) -> list[int]:
    """The canonical codes of a batch's elements; empty if the request as a whole was refused."""
    return [e.canonical_code for e in element_errors(error)]


def refused(call: Callable[[], object]) -> grpc.StatusCode:
    """The status with which a call is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value.code()


def refusals(call: Callable[[], object]) -> list[int]:
    """The codes of a batch that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return codes(caught.value)


@cache
def _p4info(name: str) -> p4i.P4Info:
    return text_format.Parse((PROGRAMS / f"{name}.p4info.txtpb").read_text(), p4i.P4Info())


def config(name: str = "everything", cookie: int | None = None) -> p4r.ForwardingPipelineConfig:
    blob = (PROGRAMS / f"{name}.json").read_bytes()
    message = p4r.ForwardingPipelineConfig(p4info=_p4info(name), p4_device_config=blob)
    if cookie is not None:
        message.cookie.cookie = cookie
    return message


class Names:
    """Builds entities by P4Info's names."""

    def __init__(self, info: p4i.P4Info) -> None:
        self.info = info
        self.ids: dict[str, int] = {}
        kinds = "tables actions action_profiles counters meters registers digests value_sets"
        for kind in kinds.split():
            for each in getattr(info, kind):
                self.ids[each.preamble.alias] = each.preamble.id
        self._tables = {t.preamble.alias: t for t in info.tables}
        self._actions = {a.preamble.alias: a for a in info.actions}

    def action(self, name: str, *args: int | str) -> p4r.Action:
        action = p4r.Action(action_id=self.ids[name])
        for p, value in zip(self._actions[name].params, args, strict=True):
            action.params.add(param_id=p.id, value=encode(value))
        return action

    def entry(self, table: str, *key: Any, action: tuple[Any, ...] | None = None, **fields: Any) -> p4r.Entity:
        """`key`: one element a match field: int, (value, prefix), (value, mask), (low, high), None = don't care."""
        entity = p4r.Entity()
        entry = entity.table_entry
        entry.table_id = self.ids[table]
        for f, element in zip(self._tables[table].match_fields, key, strict=False):
            if element is not None:
                add_match(entry.match.add(field_id=f.id), f.match_type, element)
        if action is not None:
            entry.action.action.CopyFrom(self.action(*action))
        for name, value in fields.items():
            if isinstance(value, int | bytes | bool):
                setattr(entry, name, value)
            else:
                getattr(entry, name).CopyFrom(value)
        return entity

    def one_shot(self, *key: Any, actions: Sequence[tuple[int, int]] = (), watch: int = 0) -> p4r.Entity:
        """An entry of `balanced` with a set of `actions`: (port, weight). `watch`: a port that all of them watch."""
        entity = self.entry("balanced", *key)
        chosen = entity.table_entry.action.action_profile_action_set
        chosen.SetInParent()
        for port, weight in actions:
            added = chosen.action_profile_actions.add(action=self.action("forward", port), weight=weight)
            if watch:
                added.watch_port = bytes([watch])
        return entity


def counter(id_: int, index: int | None = None, packets: int | None = None, size: int = 0) -> p4r.Entity:
    entry = p4r.CounterEntry(counter_id=id_)
    if index is not None:
        entry.index.index = index
    if packets is not None:
        entry.data.packet_count, entry.data.byte_count = packets, size
    return p4r.Entity(counter_entry=entry)


def meter(id_: int, index: int | None = None, *of: int) -> p4r.Entity:
    """`of`: its rates."""
    entry = p4r.MeterEntry(meter_id=id_)
    if index is not None:
        entry.index.index = index
    if of:
        entry.config.CopyFrom(meter_config(*of))
    return p4r.Entity(meter_entry=entry)


def register(id_: int, index: int | None = None, value: int | bytes | None = None) -> p4r.Entity:
    entry = p4r.RegisterEntry(register_id=id_)
    if index is not None:
        entry.index.index = index
    if value is not None:
        entry.data.bitstring = value if isinstance(value, bytes) else encode(value)
    return p4r.Entity(register_entry=entry)


def value_set(id_: int, *members: int | tuple[int, ...]) -> p4r.Entity:
    """A member is a value, or one for each field."""
    entry = p4r.ValueSetEntry(value_set_id=id_)
    for member in members:
        added = entry.members.add()
        for field, value in enumerate(member if isinstance(member, tuple) else (member,), 1):
            added.match.add(field_id=field).exact.value = encode(value)
    return p4r.Entity(value_set_entry=entry)


def digest(id_: int, size: int = 0, timeout_ns: int = 0, ack_ns: int = 0) -> p4r.Entity:
    entry = p4r.DigestEntry(digest_id=id_)
    if size or timeout_ns or ack_ns:
        c = entry.config
        c.max_list_size, c.max_timeout_ns, c.ack_timeout_ns = size, timeout_ns, ack_ns
    return p4r.Entity(digest_entry=entry)


def member(profile: int, id_: int, action: p4r.Action | None = None) -> p4r.Entity:
    return p4r.Entity(
        action_profile_member=p4r.ActionProfileMember(action_profile_id=profile, member_id=id_, action=action)
    )


def group(profile: int, id_: int, *members: tuple[int, int], max_size: int = 0, watch: int = 0) -> p4r.Entity:
    """`members`: (id, weight); `watch`: a port that all of them watch."""
    entry = p4r.ActionProfileGroup(action_profile_id=profile, group_id=id_, max_size=max_size)
    for m, weight in members:
        entry.members.add(member_id=m, weight=weight, **({"watch_port": bytes([watch])} if watch else {}))
    return p4r.Entity(action_profile_group=entry)


def multicast(id_: int, *replicas: tuple[int, int], metadata: bytes = b"") -> p4r.Entity:
    """A multicast group of (port, instance)s."""
    entity = p4r.Entity()
    out = entity.packet_replication_engine_entry.multicast_group_entry
    out.multicast_group_id, out.metadata = id_, metadata
    for port, instance in replicas:
        out.replicas.add(port=port.to_bytes(1 + (port > 255), "big"), instance=instance)
    return entity
