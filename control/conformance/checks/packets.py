# SPDX-License-Identifier: Apache-2.0
"""Packet I/O, digests and idle time-outs (sections 16, 9.8, 9.1.8), and whether packets meet what was written.

All of it needs the suite's own program: a packet-out with egress port 0 goes through its tables, and what is sent to
the CPU port comes back as a packet-in. So no other port is needed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from finsy.proto import p4r

from detour.control.conformance.checks.rpcs import NO_DEVICE
from detour.control.conformance.link import Canonical, Conversation
from detour.control.conformance.model import SHOULD, add, check
from detour.control.conformance.samples import NO_ID, MissingObject
from detour.control.conformance.session import CheckSession, NotPrepared, delete, insert, modify
from detour.control.p4runtime.codec import to_bytes

_MAC, _OTHER_MAC = 0x020000000001, 0x020000000002
_TABLES = 0
"""the egress port of packets that go through the tables"""
_IDLE_NS = 300_000_000


def _id(session: CheckSession, kind: str, name: str) -> int:
    """P4Info id of an object of the suite's own program."""
    if not session.own_program:
        raise MissingObject("packets are sent with the suite's own program only")
    return session.samples.object(kind, lambda each: each.preamble.alias == name).preamble.id


def _table(session: CheckSession, name: str) -> Any:
    table_id = _id(session, "tables", name)
    return next(t for t in session.samples.info.tables if t.preamble.id == table_id)


def frame(
    target: int = _MAC, source: int = _OTHER_MAC, ether_type: int = 0x1234, payload: bytes = bytes(range(46))
) -> bytes:
    return target.to_bytes(6, "big") + source.to_bytes(6, "big") + struct.pack("!H", ether_type) + payload


def _ipv6(target: int) -> bytes:
    header = struct.pack("!IHBB", 6 << 28, 26, 59, 64) + (1).to_bytes(16, "big") + target.to_bytes(16, "big")
    return frame(ether_type=0x86DD, payload=header + bytes(26))


def _out(session: CheckSession, port: int, payload: bytes | None = None) -> p4r.PacketOut:
    _id(session, "controller_packet_metadata", "packet_out")
    message = p4r.PacketOut(payload=frame() if payload is None else payload)
    message.metadata.add(metadata_id=1, value=to_bytes(port))
    message.metadata.add(metadata_id=2, value=b"\0")
    return message


def _stream(session: CheckSession) -> Conversation:
    assert session.primary is not None
    return session.primary


def _send(session: CheckSession, port: int, payload: bytes | None = None) -> None:
    session.send(_stream(session), packet=_out(session, port, payload))


def _packet_in(session: CheckSession) -> Any:
    return session.receive(_stream(session), "packet")


def _loop(session: CheckSession, payload: bytes | None = None) -> Any:
    """The packet-in that a packet-out to the CPU port gives."""
    _send(session, session.cpu_port, payload)
    return _packet_in(session)


def _metadata(packet: Any) -> dict[int, int]:
    return {m.metadata_id: int.from_bytes(m.value, "big") for m in packet.metadata}


# -- packet-out and packet-in


@check("packet.payload", "16.1", "the payload of a packet-out is the whole frame, and that of its packet-in too")
def _payload(session: CheckSession) -> None:
    session.same(_loop(session).payload, frame(), "payload")


@check("packet.large", "16.1", "a frame of 1,400 bytes comes back whole")
def _large(session: CheckSession) -> None:
    payload = frame(payload=bytes(i % 251 for i in range(1386)))
    session.same(_loop(session, payload).payload, payload, "payload")


@check("packet.metadata", "16.1", "a packet-in has each metadata of P4Info once")
def _each_metadata(session: CheckSession) -> None:
    packet = _loop(session)
    header = next(h for h in session.samples.info.controller_packet_metadata if h.preamble.alias == "packet_in")
    session.same(sorted(m.metadata_id for m in packet.metadata), sorted(m.id for m in header.metadata), "metadata ids")


@check("packet.shortest", "8.3", "values of packet-in metadata are the shortest strings")
def _shortest(session: CheckSession) -> None:
    values = [m.value for m in _loop(session).metadata]
    session.expect(bool(values) and all(v == to_bytes(int.from_bytes(v, "big")) for v in values), "shortest strings")


@check("packet.padded", "8.3", "padded values of packet-out metadata are accepted")
def _padded(session: CheckSession) -> None:
    message = _out(session, session.cpu_port)
    for m in message.metadata:
        m.value = m.value.rjust(8, b"\0")
    session.send(_stream(session), packet=message)
    session.same(_packet_in(session).payload, frame(), "payload")


@check("packet.any_order", "16.1", "the order of packet-out metadata does not matter")
def _any_order(session: CheckSession) -> None:
    message = _out(session, session.cpu_port)
    swapped = p4r.PacketOut(payload=message.payload, metadata=reversed(message.metadata))
    session.send(_stream(session), packet=swapped)
    session.same(_packet_in(session).payload, frame(), "payload")


@check("packet.backup_in", "5", "a backup gets no packet-in")
def _backup_in(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    _loop(session)
    session.is_quiet(backup, "packet")


@check("packet.backup_out", "16.1", "a backup's packet-out is dropped")
def _backup_out(session: CheckSession) -> None:
    _loop(session)
    backup, _ = session.controller(session.election - 1)
    session.send(backup, packet=_out(session, session.cpu_port))
    session.is_quiet(_stream(session), "packet")


@check("packet.backup_error", "16.6", "a backup's packet-out is answered by PERMISSION_DENIED with packet_out", SHOULD)
def _backup_error(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.send(backup, packet=_out(session, session.cpu_port))
    error = session.receive(backup, "error", 1.0)
    session.expect(error.canonical_code == Canonical.PERMISSION_DENIED and error.HasField("packet_out"),
                   "PERMISSION_DENIED with packet_out")  # fmt: skip


@check("packet.before_arbitration", "16.2", "a packet-out of a stream that has not arbitrated is dropped")
def _before_arbitration(session: CheckSession) -> None:
    _loop(session)
    session.send(session.converse(), packet=_out(session, session.cpu_port))
    session.is_quiet(_stream(session), "packet")


def _bad_out(change: Callable[[p4r.PacketOut], object], told: bool, session: CheckSession) -> None:
    """Dropped, and, if `told`, answered by a StreamError."""
    _loop(session)
    message = _out(session, session.cpu_port)
    change(message)
    session.send(_stream(session), packet=message)
    if not told:
        session.is_quiet(_stream(session), "packet")
        return
    error = session.receive(_stream(session), "error", 1.0)
    allowed = (Canonical.INVALID_ARGUMENT, Canonical.OUT_OF_RANGE)
    session.expect(error.canonical_code in allowed and error.HasField("packet_out"), "INVALID_ARGUMENT with packet_out")


for _name, _text, _change in (
    ("missing", "that lacks a metadata", lambda m: m.metadata.pop(1)),
    ("none", "without metadata", lambda m: m.ClearField("metadata")),
    ("unknown", "with a metadata that P4Info does not have", lambda m: m.metadata.add(metadata_id=77, value=b"\1")),
    ("twice", "with the same metadata twice", lambda m: m.metadata.append(m.metadata[0])),
    ("too_wide", "with a value that is too wide", lambda m: setattr(m.metadata[0], "value", b"\xff\xff")),
    ("empty", "with an empty value", lambda m: setattr(m.metadata[0], "value", b"")),
):
    add(f"packet.{_name}", "16.1", f"a packet-out {_text} is dropped", partial(_bad_out, _change, False))
    add(f"packet.{_name}_error", "16.6", f"a packet-out {_text} is answered by INVALID_ARGUMENT with packet_out",
        partial(_bad_out, _change, True), SHOULD)  # fmt: skip


@check("packet.after_error", "16.6", "after a packet-out that is wrong the stream goes on")
def _after_error(session: CheckSession) -> None:
    message = _out(session, session.cpu_port)
    message.ClearField("metadata")
    session.send(_stream(session), packet=message)
    session.same(_loop(session).payload, frame(), "payload")


@check("stream.other", "16.6", "an `other` message that the server does not know is answered by an error with other",
       SHOULD)  # fmt: skip
def _other(session: CheckSession) -> None:
    update = p4r.StreamMessageRequest()
    update.other.type_url, update.other.value = "type.googleapis.com/nobody.has.This", b"\1"
    session.send(_stream(session), other=update.other)
    session.expect(session.receive(_stream(session), "error", 1.0).HasField("other"), "an error with other")


# -- packets meet what was written


def _punt(session: CheckSession, reason: int = 5) -> p4r.Entity:
    """An entry that sends frames for our address to the controller."""
    entity = session.samples.entry(_table(session, "exact_two"), 0)
    entry = entity.table_entry
    entry.match[0].exact.value, entry.match[1].exact.value = to_bytes(_MAC), b"\0"
    entry.action.action.CopyFrom(session.samples.call(_id(session, "actions", "to_cpu"), reason - 1))
    return entity


def _with_action(entity: p4r.Entity, action: p4r.Action) -> p4r.Entity:
    entity.table_entry.action.action.CopyFrom(action)
    return entity


def _reason(session: CheckSession) -> int:
    _send(session, _TABLES)
    return _metadata(_packet_in(session)).get(4, -1)


def _silent(session: CheckSession, payload: bytes | None = None) -> None:
    _send(session, _TABLES, payload)
    session.is_quiet(_stream(session), "packet")


@check("data.insert", "12.1", "packets meet an entry when the Write that inserts it has returned")
def _data_insert(session: CheckSession) -> None:
    session.accept(insert(_punt(session)))
    session.same(_reason(session), 5, "the action's argument in the packet-in")


@check("data.modify", "12.1", "packets meet an entry's new action when the Write that modifies it has returned")
def _data_modify(session: CheckSession) -> None:
    session.prepare(_punt(session))
    session.accept(modify(_punt(session, 6)))
    session.same(_reason(session), 6, "the action's argument in the packet-in")


@check("data.delete", "12.1", "packets do not meet an entry any more when the Write that deletes it has returned")
def _data_delete(session: CheckSession) -> None:
    session.prepare(_punt(session))
    _reason(session)
    session.accept(delete(_punt(session)))
    _silent(session)


@check("data.default", "9.1.3", "packets that no entry matches meet the default entry that was written")
def _data_default(session: CheckSession) -> None:
    table = _table(session, "exact_two")
    entity = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True))
    session.accept(modify(_with_action(entity, session.samples.call(_id(session, "actions", "to_cpu"), 8))))
    session.same(_reason(session), 9, "the action's argument in the packet-in")


@check("data.failed", "12.2", "an update that failed has no effect on packets")
def _data_failed(session: CheckSession) -> None:
    session.prepare(_punt(session))
    session.write(insert(_punt(session, 6)))
    session.same(_reason(session), 5, "the first entry's argument in the packet-in")


@check("data.cleared", "14", "packets do not meet entries from before VERIFY_AND_COMMIT")
def _data_cleared(session: CheckSession) -> None:
    session.prepare(_punt(session))
    _reason(session)
    if session.set_pipeline("VERIFY_AND_COMMIT", session.config).code:
        raise NotPrepared("the pipeline")
    _silent(session)


@check("data.longest_prefix", "9.1", "of lpm entries the one with the longest prefix is met")
def _data_lpm(session: CheckSession) -> None:
    table = _table(session, "lpm_route")
    for length, reason in ((64, 3), (128, 4), (8, 5)):
        entity = session.samples.entry(table, 0)
        match = entity.table_entry.match[0].lpm
        match.value, match.prefix_len = to_bytes(0xFD << 120), length
        session.prepare(_with_action(entity, session.samples.call(_id(session, "actions", "to_cpu"), reason - 1)))
    _send(session, _TABLES, _ipv6(0xFD << 120))
    session.same(_metadata(_packet_in(session)).get(4), 4, "the argument of the longest prefix")


@check("data.direct_counter", "9.3.1", "a packet that hits an entry counts in its direct counter")
def _data_direct_counter(session: CheckSession) -> None:
    table = _table(session, "lpm_route")
    entity = session.samples.entry(table, 0)
    entity.table_entry.match[0].lpm.value = to_bytes(0xFD << 120)
    session.prepare(_with_action(entity, session.samples.call(_id(session, "actions", "to_cpu"), 0)))
    payload = _ipv6(0xFD << 120)
    _send(session, _TABLES, payload)
    _packet_in(session)
    request = p4r.DirectCounterEntry(table_entry=entity.table_entry)
    read = session.read(p4r.Entity(direct_counter_entry=request))
    session.same([e.direct_counter_entry.data.packet_count for e in read], [1], "packets")


@check("data.counter", "9.3.2", "the program's count of a packet is read")
def _data_counter(session: CheckSession) -> None:
    session.prepare(_punt(session))
    _reason(session)
    entry = p4r.CounterEntry(counter_id=_id(session, "counters", "packet_counter"), index=p4r.Index(index=0))
    read = session.read(p4r.Entity(counter_entry=entry))
    session.same([e.counter_entry.data.packet_count for e in read], [1], "packets")


@check("data.register_read", "9.7", "what the program writes to a register is read")
def _data_register(session: CheckSession) -> None:
    session.prepare(_punt(session))
    _reason(session)
    entry = p4r.RegisterEntry(register_id=_id(session, "registers", "words"), index=p4r.Index(index=1))
    read = session.read(p4r.Entity(register_entry=entry))
    session.same([e.register_entry.data.bitstring for e in read], [to_bytes(_MAC)], "data")


def _replicate(session: CheckSession) -> p4r.Entity:
    return _with_action(_punt(session), session.samples.call(_id(session, "actions", "replicate"), 0))


def _group(session: CheckSession, *instances: int) -> p4r.Entity:
    entity = session.samples.multicast(0, ())
    group = entity.packet_replication_engine_entry.multicast_group_entry
    for instance in instances:
        group.replicas.add(port=to_bytes(session.cpu_port), instance=instance)
    return entity


def _instances(session: CheckSession, count: int) -> list[int]:
    _send(session, _TABLES)
    return sorted(_metadata(_packet_in(session)).get(4, -1) for _ in range(count))


@check("data.multicast", "9.5.1", "a multicast group makes a copy for each replica, with its instance")
def _data_multicast(session: CheckSession) -> None:
    session.prepare(_replicate(session))
    session.accept(insert(_group(session, 3, 7)))
    session.same(_instances(session, 2), [3, 7], "instances of the copies")


@check("data.multicast_modify", "9.5.1", "after MODIFY a multicast group makes the new copies")
def _data_multicast_modify(session: CheckSession) -> None:
    session.prepare(_replicate(session), _group(session, 3, 7))
    session.accept(modify(_group(session, 4, 5)))
    session.same(_instances(session, 2), [4, 5], "instances of the copies")


@check("data.multicast_delete", "9.5.1", "packets for a multicast group that was deleted are dropped")
def _data_multicast_delete(session: CheckSession) -> None:
    session.prepare(_replicate(session), _group(session, 3))
    _instances(session, 1)
    session.accept(delete(_group(session, 3)))
    _silent(session)


def _mirror(session: CheckSession) -> p4r.Entity:
    return _with_action(_punt(session), session.samples.call(_id(session, "actions", "mirror"), 0))


def _clone(session: CheckSession, length: int = 0) -> p4r.Entity:
    entity = session.samples.clone(0, (session.cpu_port,))
    entity.packet_replication_engine_entry.clone_session_entry.packet_length_bytes = length
    return entity


@check("data.clone", "9.5.2", "a clone session makes a copy for its port")
def _data_clone(session: CheckSession) -> None:
    session.prepare(_mirror(session))
    session.accept(insert(_clone(session)))
    _send(session, _TABLES)
    packet = _packet_in(session)
    session.same((packet.payload[:60], _metadata(packet).get(2)), (frame(), 1), "the frame, marked as a clone")


@check("data.clone_delete", "9.5.2", "after its session is deleted a packet is not cloned")
def _data_clone_delete(session: CheckSession) -> None:
    session.prepare(_mirror(session), _clone(session))
    _send(session, _TABLES)
    _packet_in(session)
    session.accept(delete(_clone(session)))
    _silent(session)


def _next_hop(session: CheckSession, one_shot: bool) -> None:
    """An entry whose group has one member, which sends to the CPU port."""
    samples = session.samples
    action = samples.call(_id(session, "actions", "forward"), session.cpu_port - 1)
    entity = samples.one_shot(0, (1,)) if one_shot else samples.entry(samples.selecting, 0, action=False)
    if one_shot:
        actions = entity.table_entry.action.action_profile_action_set.action_profile_actions
        actions[0].action.CopyFrom(action)
    else:
        member = samples.member()
        member.action_profile_member.action.CopyFrom(action)
        session.prepare(member, samples.group(0, 1))
        entity.table_entry.action.action_profile_group_id = 1
    entity.table_entry.match[0].lpm.value = to_bytes(0xFD << 120)
    session.accept(insert(entity))
    _send(session, _TABLES, _ipv6(0xFD << 120))
    session.same(_packet_in(session).payload, _ipv6(0xFD << 120), "the frame")


add("data.group", "9.2.2", "packets that hit an entry with a group meet the action of one of its members",
    partial(_next_hop, one_shot=False))  # fmt: skip
add("data.one_shot", "9.2.3", "packets that hit an entry with a one-shot meet one of its actions",
    partial(_next_hop, one_shot=True))  # fmt: skip


# -- digests


def _learn(session: CheckSession, size: int = 1, timeout_ns: int = 0, ack_ns: int = 10**12) -> p4r.Entity:
    entry = p4r.DigestEntry(digest_id=_id(session, "digests", "learn_t"))
    entry.config.max_list_size, entry.config.max_timeout_ns, entry.config.ack_timeout_ns = size, timeout_ns, ack_ns
    return p4r.Entity(digest_entry=entry)


def _from(session: CheckSession, source: int) -> None:
    _send(session, _TABLES, frame(source=source))


def _digest(session: CheckSession) -> Any:
    return session.receive(_stream(session), "digest")


def _sources(digest: Any) -> list[int]:
    return [int.from_bytes(d.struct.members[0].bitstring, "big") for d in digest.data]


@check("digest.list", "9.8", "after INSERT the program's digests come in lists with the digest's id")
def _digest_list(session: CheckSession) -> None:
    session.accept(insert(_learn(session)))
    _from(session, 0xA)
    digest = _digest(session)
    session.same((digest.digest_id, len(digest.data)), (_learn(session).digest_entry.digest_id, 1), "id and length")


@check("digest.data", "9.8", "a digest has the program's data, as P4Info's type says")
def _digest_data(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    session.same(_sources(_digest(session)), [0xA], "the learned address")


@check("digest.shortest", "8.3", "strings in digests are the shortest ones")
def _digest_shortest(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    strings = [m.bitstring for d in _digest(session).data for m in d.struct.members]
    session.expect(bool(strings) and all(s == to_bytes(int.from_bytes(s, "big")) for s in strings), "shortest strings")


@check("digest.disabled", "9.8", "without INSERT no digests come")
def _digest_disabled(session: CheckSession) -> None:
    _from(session, 0xA)
    _loop(session)
    session.is_quiet(_stream(session), "digest")


@check("digest.deleted", "9.8", "after DELETE no digests come")
def _digest_deleted(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    _digest(session)
    session.accept(delete(_learn(session)))
    _from(session, 0xB)
    session.is_quiet(_stream(session), "digest")


@check("digest.by_size", "9.8", "a list is sent when it has max_list_size digests", SHOULD)
def _digest_by_size(session: CheckSession) -> None:
    session.prepare(_learn(session, size=2, timeout_ns=10**13))
    _from(session, 0xA)
    session.is_quiet(_stream(session), "digest")
    _from(session, 0xB)
    session.same(sorted(_sources(_digest(session))), [0xA, 0xB], "the learned addresses")


@check("digest.by_time", "9.8", "a list is sent when max_timeout_ns has passed", SHOULD)
def _digest_by_time(session: CheckSession) -> None:
    session.prepare(_learn(session, size=100, timeout_ns=100_000_000))
    _from(session, 0xA)
    session.same(_sources(_digest(session)), [0xA], "the learned address")


@check("digest.distinct", "9.8", "the digests of a list are distinct")
def _digest_distinct(session: CheckSession) -> None:
    session.prepare(_learn(session, size=2, timeout_ns=10**13))
    for source in (0xA, 0xA, 0xA, 0xB):
        _from(session, source)
    session.same(sorted(_sources(_digest(session))), [0xA, 0xB], "the learned addresses")


@check("digest.unacknowledged", "9.8", "a digest is not sent again before it is acknowledged")
def _digest_unacknowledged(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    _digest(session)
    _from(session, 0xA)
    session.is_quiet(_stream(session), "digest")


@check("digest.acknowledged", "9.8", "after the acknowledgement of its list a digest is sent again")
def _digest_acknowledged(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    digest = _digest(session)
    session.send(_stream(session), digest_ack=p4r.DigestListAck(digest_id=digest.digest_id, list_id=digest.list_id))
    _loop(session)
    _from(session, 0xA)
    session.same(_sources(_digest(session)), [0xA], "the learned address")


@check("digest.no_cache", "9.8", "with ack_timeout_ns 0 a digest is sent each time")
def _digest_no_cache(session: CheckSession) -> None:
    session.prepare(_learn(session, ack_ns=0))
    _from(session, 0xA)
    _digest(session)
    _from(session, 0xA)
    session.same(_sources(_digest(session)), [0xA], "the learned address")


@check("digest.ack_timeout", "9.8", "when ack_timeout_ns has passed a digest is sent again")
def _digest_ack_timeout(session: CheckSession) -> None:
    session.prepare(_learn(session, ack_ns=50_000_000))
    _from(session, 0xA)
    _digest(session)
    session.is_quiet(_stream(session), "digest", 0.3)
    _from(session, 0xA)
    session.same(_sources(_digest(session)), [0xA], "the learned address")


@check("digest.list_ids", "9.8", "two lists have two list_ids")
def _digest_list_ids(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    first = _digest(session).list_id
    _from(session, 0xB)
    session.expect(_digest(session).list_id != first, f"another list_id than {first}")


@check("digest.timestamp", "9.8", "a list has a timestamp", SHOULD)
def _digest_timestamp(session: CheckSession) -> None:
    session.prepare(_learn(session))
    _from(session, 0xA)
    session.expect(_digest(session).timestamp > 0, "a timestamp")


@check("digest.backup", "5", "a backup gets no digests")
def _digest_backup(session: CheckSession) -> None:
    session.prepare(_learn(session))
    backup, _ = session.controller(session.election - 1)
    _from(session, 0xA)
    _digest(session)
    session.is_quiet(backup, "digest")


@check("digest.unknown_ack", "16.6", "an acknowledgement of a digest that P4Info does not have is answered by "
       "INVALID_ARGUMENT with digest_list_ack", SHOULD)  # fmt: skip
def _digest_unknown_ack(session: CheckSession) -> None:
    session.send(_stream(session), digest_ack=p4r.DigestListAck(digest_id=NO_ID, list_id=NO_DEVICE))
    error = session.receive(_stream(session), "error", 1.0)
    session.expect(error.canonical_code == Canonical.INVALID_ARGUMENT and error.HasField("digest_list_ack"),
                   "INVALID_ARGUMENT with digest_list_ack")  # fmt: skip


# -- idle time-outs


def _ageing(session: CheckSession, timeout_ns: int = _IDLE_NS) -> p4r.Entity:
    entity = session.samples.entry(session.samples.ageing)
    entity.table_entry.idle_timeout_ns, entity.table_entry.metadata = timeout_ns, b"mine"
    entity.table_entry.controller_metadata = 77
    return entity


def _idle(session: CheckSession) -> Any:
    return session.receive(_stream(session), "idle_timeout_notification")


@check("idle.notified", "16.4", "an entry that no packet hits for its TTL is told to the primary", SHOULD)
def _idle_notified(session: CheckSession) -> None:
    session.prepare(_ageing(session))
    session.expect(len(_idle(session).table_entry) == 1, "one entry")


@check("idle.key", "16.4", "the notification has the entry's key, metadata and TTL")
def _idle_key(session: CheckSession) -> None:
    session.prepare(_ageing(session))
    entry, expected = _idle(session).table_entry[0], _ageing(session).table_entry
    for field in ("table_id", "priority", "metadata", "controller_metadata", "idle_timeout_ns"):
        session.same(getattr(entry, field), getattr(expected, field), field)
    session.same(list(entry.match), list(expected.match), "match")


@check("idle.timestamp", "16.4", "the notification has a timestamp", SHOULD)
def _idle_timestamp(session: CheckSession) -> None:
    session.prepare(_ageing(session))
    session.expect(_idle(session).timestamp > 0, "a timestamp")


@check("idle.again", "16.4", "another TTL later the entry is told again")
def _idle_again(session: CheckSession) -> None:
    session.prepare(_ageing(session))
    _idle(session)
    session.same(len(_idle(session).table_entry), 1, "entries")


@check("idle.no_ttl", "9.1.8", "an entry with TTL 0 is never told")
def _idle_no_ttl(session: CheckSession) -> None:
    other = _ageing(session, 0)
    other.table_entry.match[0].exact.value = b"\7"
    session.prepare(other, _ageing(session))
    session.same([e.match[0].exact.value for e in _idle(session).table_entry], [b"\1"], "the entry with a TTL alone")


@check("idle.backup", "16.4", "a backup is told of no idle entries")
def _idle_backup(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.prepare(_ageing(session))
    _idle(session)
    session.is_quiet(backup, "idle_timeout_notification")


@check("idle.deleted", "16.4", "a deleted entry is not told any more")
def _idle_deleted(session: CheckSession) -> None:
    session.prepare(_ageing(session))
    _idle(session)
    session.do(delete(_ageing(session)))
    while (message := _stream(session).next(0)) is not None:
        session.note(message)
    session.is_quiet(_stream(session), "idle_timeout_notification", 0.6)
