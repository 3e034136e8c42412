# SPDX-License-Identifier: Apache-2.0
"""A blocking P4Runtime client that says what goes over the wire and nothing else.

The suites use it on simple_switch_grpc and on the engine's server, so it shares no code with the project's own
client: a mistake there must not hide here. Values are plain Python; see `Schema.entry` for how matches are
written.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status
from google.protobuf import text_format

from tests.waiting import PATIENCE_S

Match = Mapping[str, Any]
Action = tuple[str, Mapping[str, int]]
_KINDS = (
    *("tables", "actions", "action_profiles", "counters", "direct_counters", "meters", "direct_meters"),
    *("registers", "digests", "value_sets", "controller_packet_metadata"),
)

DEADLINE = PATIENCE_S
"""Seconds that any call may take."""


class WriteError(Exception):
    """A Write was refused. `codes` has one canonical gRPC code an update, in order (empty: none were sent)."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.code = error.code()
        self.errors = element_errors(error)
        self.codes = [e.canonical_code for e in self.errors]
        super().__init__(f"{self.code.name}: {error.details()} {[e.message for e in self.errors if e.message]}")


def element_errors(error: grpc.RpcError) -> list[p4r.Error]:
    """What is wrong with each element of a batch; empty if the request as a whole was refused."""
    for each in error.trailing_metadata() or ():
        if each.key == "grpc-status-details-bin":
            status = rpc_status.Status.FromString(each.value)
            assert status.code == error.code().value[0]
            errors = []
            for detail in status.details:
                errors.append(p4r.Error())
                assert detail.Unpack(errors[-1])
            return errors
    return []


def encode(value: int | str) -> bytes:
    """A number as the canonical byte string (big endian, no leading zeros, at least one byte); a string as it is."""
    return value.encode() if isinstance(value, str) else value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def add_match(message: p4r.FieldMatch, kind: int, element: Any) -> None:
    """What a field must be, in a message: see `Schema.matches`."""
    kinds = p4i.MatchField
    if kind == kinds.EXACT:
        message.exact.value = encode(element)
    elif kind == kinds.OPTIONAL:
        message.optional.value = encode(element)
    elif kind == kinds.LPM:
        message.lpm.value, message.lpm.prefix_len = encode(element[0]), element[1]
    elif kind == kinds.TERNARY:
        message.ternary.value, message.ternary.mask = encode(element[0]), encode(element[1])
    else:
        message.range.low, message.range.high = encode(element[0]), encode(element[1])


class Schema:
    """P4Info by name. A name may be the full one or the alias."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self.p4info = p4info
        self._by_name: dict[str, dict[str, Any]] = {}
        for kind in _KINDS:
            names: dict[str, Any] = {}
            for item in getattr(p4info, kind):
                names.setdefault(item.preamble.alias, item)
                names[item.preamble.name] = item
            self._by_name[kind] = names

    @classmethod
    @cache
    def load(cls, path: Path) -> Schema:
        """Reads a P4Info text file; the same one for all, who leave it as it is."""
        return cls(text_format.Parse(path.read_text(), p4i.P4Info()))

    def config(self, device_config: bytes) -> p4r.ForwardingPipelineConfig:
        """The program: this and what the compiler made for the switch."""
        return p4r.ForwardingPipelineConfig(p4info=self.p4info, p4_device_config=device_config)

    def find(self, kind: str, name: str) -> Any:
        """The P4Info object `name` among `kind` (`tables`, `actions`, ...)."""
        return self._by_name[kind][name]

    def id(self, kind: str, name: str) -> int:
        """Its P4Runtime id."""
        return self.find(kind, name).preamble.id

    def action_name(self, action_id: int) -> str:
        """Full name of an action."""
        return next(a.preamble.name for a in self.p4info.actions if a.preamble.id == action_id)

    def action(self, action: Action) -> p4r.Action:
        """`(name, {parameter: value})` as a message."""
        name, arguments = action
        info = self.find("actions", name)
        params = []
        for parameter in info.params:
            value = arguments[parameter.name]
            params.append(p4r.Action.Param(param_id=parameter.id, value=encode(value)))
        return p4r.Action(action_id=info.preamble.id, params=params)

    def _field(self, field: p4i.MatchField, value: Any) -> p4r.FieldMatch | None:
        kind, kinds = field.match_type, p4i.MatchField
        if kind == kinds.TERNARY:
            value = (value[0] & value[1], value[1])
        if kind == kinds.OPTIONAL:
            matches_anything = value is None
        elif kind == kinds.RANGE:
            matches_anything = value == (0, (1 << field.bitwidth) - 1)
        else:
            matches_anything = kind != kinds.EXACT and not value[1]
        if matches_anything:
            return None
        message = p4r.FieldMatch(field_id=field.id)
        add_match(message, kind, value)
        return message

    def matches(self, table: str, match: Match) -> list[p4r.FieldMatch]:
        """Field name -> value as a list of messages. Exact: `int`; lpm: `(value, prefix length)`; ternary:
        `(value, mask)`; range: `(low, high)`; optional: `int` or `None`. Fields left out match anything."""
        info = self.find("tables", table)
        unknown = set(match) - {f.name for f in info.match_fields}
        assert not unknown, f"{table} has no field {unknown}"
        messages = (self._field(f, match[f.name]) for f in info.match_fields if f.name in match)
        return [m for m in messages if m is not None]

    def entry(
        self,
        table: str,
        match: Match | None = None,
        action: Action | None = None,
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
        one_shot: Iterable[tuple[Action, int]] | None = None,
        default: bool = False,
    ) -> p4r.Entity:
        """A table entry: with an action, with a member or group of its profile, or with a one-shot action set
        (`(action, weight)`s)."""
        entry = p4r.TableEntry(table_id=self.id("tables", table), priority=priority, is_default_action=default)
        entry.match.extend(self.matches(table, match or {}))
        if action is not None:
            entry.action.action.CopyFrom(self.action(action))
        elif member is not None:
            entry.action.action_profile_member_id = member
        elif group is not None:
            entry.action.action_profile_group_id = group
        elif one_shot is not None:
            for item, weight in one_shot:
                choice = entry.action.action_profile_action_set.action_profile_actions.add(weight=weight)
                choice.action.CopyFrom(self.action(item))
        return p4r.Entity(table_entry=entry)

    def member(self, profile: str, member: int, action: Action) -> p4r.Entity:
        """A member of an action profile."""
        return p4r.Entity(
            action_profile_member=p4r.ActionProfileMember(
                action_profile_id=self.id("action_profiles", profile), member_id=member, action=self.action(action)
            )
        )

    def group(self, profile: str, group: int, members: Iterable[tuple[int, int]], size: int = 0) -> p4r.Entity:
        """A group of `(member, weight)`s."""
        return p4r.Entity(
            action_profile_group=p4r.ActionProfileGroup(
                action_profile_id=self.id("action_profiles", profile),
                group_id=group,
                max_size=size,
                members=[p4r.ActionProfileGroup.Member(member_id=m, weight=w) for m, w in members],
            )
        )

    def counter(self, name: str, index: int | None = None) -> p4r.Entity:
        """A cell of an indirect counter; all of them without `index`."""
        entry = p4r.CounterEntry(counter_id=self.id("counters", name))
        if index is not None:
            entry.index.index = index
        return p4r.Entity(counter_entry=entry)

    def register(self, name: str, index: int, value: int | None = None) -> p4r.Entity:
        """A cell of a register of integers; with `value` to be written (MODIFY)."""
        entry = p4r.RegisterEntry(register_id=self.id("registers", name), index=p4r.Index(index=index))
        if value is not None:
            entry.data.bitstring = encode(value)
        return p4r.Entity(register_entry=entry)

    def meter(self, name: str, index: int, rates: tuple[int, int, int, int] | None) -> p4r.Entity:
        """A cell of an indirect meter; `rates` = (cir, committed burst, pir, peak burst), None: unlimited."""
        entry = p4r.MeterEntry(meter_id=self.id("meters", name), index=p4r.Index(index=index))
        if rates is not None:
            entry.config.CopyFrom(meter_config(*rates))
        return p4r.Entity(meter_entry=entry)


def meter_config(*rates: int) -> p4r.MeterConfig:
    """(cir, committed burst, pir, peak burst) as a message."""
    return p4r.MeterConfig(**dict(zip(("cir", "cburst", "pir", "pburst"), rates, strict=True)))


def clone_session(session: int, *replicas: tuple[int, int], length: int = 0, cos: int = 0) -> p4r.Entity:
    """Clone session with `(port, instance)` replicas; clones are cut to `length` bytes (0: whole)."""
    entity = p4r.Entity()
    entry = entity.packet_replication_engine_entry.clone_session_entry
    entry.session_id, entry.packet_length_bytes, entry.class_of_service = session, length, cos
    entry.replicas.extend(p4r.Replica(egress_port=p, instance=i) for p, i in replicas)
    return entity


def multicast_group(group: int, *replicas: tuple[int, int]) -> p4r.Entity:
    """Multicast group with `(port, instance)` replicas."""
    entity = p4r.Entity()
    entry = entity.packet_replication_engine_entry.multicast_group_entry
    entry.multicast_group_id = group
    entry.replicas.extend(p4r.Replica(egress_port=p, instance=i) for p, i in replicas)
    return entity


class Calls:
    """The calls of one controller of one switch, without its stream. Its election id and role are its own to change."""

    def __init__(self, address: str, device_id: int = 1, election: int = 1, credentials: Any = None) -> None:
        options = [
            ("grpc.max_metadata_size", 16 << 20),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ]
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options)
        else:
            self.channel = grpc.secure_channel(address, credentials, options)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.device_id, self.election, self.role = device_id, election, ""

    def pipeline_request(
        self, config: p4r.ForwardingPipelineConfig | None, action: str
    ) -> p4r.SetForwardingPipelineConfigRequest:
        """What `set_pipeline` sends."""
        return p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            election_id=U128.encode(self.election),
            role=self.role,
            action=p4r.SetForwardingPipelineConfigRequest.Action.Value(action),
            config=config,
        )

    def set_pipeline(self, config: p4r.ForwardingPipelineConfig | None, action: str = "VERIFY_AND_COMMIT") -> None:
        """Sets a program."""
        self.stub.SetForwardingPipelineConfig(self.pipeline_request(config, action), timeout=DEADLINE)

    def write_request(self, *updates: tuple[str, p4r.Entity]) -> p4r.WriteRequest:
        """What `write` sends."""
        request = p4r.WriteRequest(device_id=self.device_id, election_id=U128.encode(self.election), role=self.role)
        for kind, entity in updates:
            request.updates.add(type=p4r.Update.Type.Value(kind), entity=entity)
        return request

    def write(self, *updates: tuple[str, p4r.Entity]) -> None:
        """One batch of `("INSERT" | "MODIFY" | "DELETE", entity)`."""
        self.stub.Write(self.write_request(*updates), timeout=DEADLINE)

    def insert(self, *entities: p4r.Entity) -> None:
        """Inserts entities."""
        self.write(*(("INSERT", e) for e in entities))

    def modify(self, *entities: p4r.Entity) -> None:
        """Modifies entities."""
        self.write(*(("MODIFY", e) for e in entities))

    def delete(self, *entities: p4r.Entity) -> None:
        """Deletes entities."""
        self.write(*(("DELETE", e) for e in entities))

    def read(self, *entities: p4r.Entity, role: str = "") -> list[p4r.Entity]:
        """Reads what matches."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=entities, role=role)
        return [e for response in self.stub.Read(request, timeout=DEADLINE) for e in response.entities]


class Client(Calls):
    """One controller of one switch, primary from `open()` on. What is refused of a Write is a `WriteError`."""

    def __init__(self, address: str, device_id: int = 1) -> None:
        super().__init__(address, device_id)
        self.packets: queue.Queue[p4r.PacketIn] = queue.Queue()
        self.digests: queue.Queue[p4r.DigestList] = queue.Queue()
        self.errors: queue.Queue[p4r.StreamError] = queue.Queue()
        self._arbitration: queue.Queue[p4r.MasterArbitrationUpdate] = queue.Queue()
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._reader: threading.Thread | None = None

    def open(self) -> Client:
        """Connects and becomes primary."""
        grpc.channel_ready_future(self.channel).result(timeout=DEADLINE)
        stream = self.stub.StreamChannel(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._reader.start()
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.CopyFrom(U128.encode(self.election))
        self._requests.put(request)
        answer = self._arbitration.get(timeout=DEADLINE)
        assert answer.status.code == 0, f"not primary: {answer.status.message}"
        return self

    def close(self) -> None:
        """Ends the stream and the connection."""
        self._requests.put(None)
        if self._reader is not None:
            self._reader.join(DEADLINE)
        # gRPC takes a fifth of a second for this, for nothing that anybody has to wait for.
        threading.Thread(target=self.channel.close).start()

    def __enter__(self) -> Client:
        return self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read(self, stream: Any) -> None:
        try:
            for response in stream:
                kind = response.WhichOneof("update")
                if kind == "packet":
                    self.packets.put(response.packet)
                elif kind == "digest":
                    self.digests.put(response.digest)
                elif kind == "arbitration":
                    self._arbitration.put(response.arbitration)
                elif kind == "error":
                    self.errors.put(response.error)
        except grpc.RpcError:
            pass  # the channel was closed

    def write(self, *updates: tuple[str, p4r.Entity]) -> None:
        try:
            super().write(*updates)
        except grpc.RpcError as error:
            raise WriteError(error) from None

    def packet_out(self, payload: bytes, metadata: Mapping[int, int]) -> None:
        """Sends a packet-out; `metadata`: id -> value."""
        request = p4r.StreamMessageRequest()
        request.packet.payload = payload
        for key, value in metadata.items():
            request.packet.metadata.add(metadata_id=key, value=encode(value))
        self._requests.put(request)
