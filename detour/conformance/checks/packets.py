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
from google.protobuf import any_pb2

from detour.base.dataplane import CPU_PORT
from detour.conformance.checks.pipelines import sets
from detour.conformance.samples import put
from detour.conformance.steps import *
from detour.control.p4runtime.codec import to_bytes

_MAC, _OTHER_MAC = 0x020000000001, 0x020000000002
_PREFIX = 0xFD << 120
_OTHER = -1
"""the stream of the last other controller"""
_TABLES = 0
"""the egress port of packets that go through the tables"""
_IDLE_NS = 300_000_000


def frame(
    target: int = _MAC, source: int = _OTHER_MAC, ether_type: int = 0x1234, payload: bytes = bytes(range(46))
) -> bytes:
    return target.to_bytes(6, "big") + source.to_bytes(6, "big") + struct.pack("!H", ether_type) + payload


def _ipv6(target: int, flow: int = 0) -> bytes:
    header = struct.pack("!IHBB", 6 << 28 | flow, 26, 59, 64) + (1).to_bytes(16, "big") + target.to_bytes(16, "big")
    return frame(ether_type=0x86DD, payload=header + bytes(26))


_LARGE = frame(payload=bytes(i % 251 for i in range(1386)))
_ROUTED = _ipv6(_PREFIX)


@step
def sends(
    session: CheckSession,
    payload: bytes = frame(),
    port: int = _TABLES,
    change: Callable[[Any], object] = lambda _: None,
    who: int | None = None,
) -> None:
    """A packet-out, changed by a function."""
    session.samples.own("controller_packet_metadata", "packet_out")
    if not session.samples.has_cpu_port:
        raise MissingObject(f"the switch has no CPU port {CPU_PORT} (detour switch and BMv2: --cpu-port {CPU_PORT})")
    message = p4r.PacketOut(payload=payload)
    message.metadata.add(metadata_id=1, value=to_bytes(port))
    message.metadata.add(metadata_id=2, value=b"\0")
    change(message)
    session.send(session.stream(who), packet=message)


loops = partial(sends, port=CPU_PORT)
"""to the CPU port, from which it comes back"""


def from_source(*sources: int) -> CheckStep:
    """Frames from these addresses, which the program learns."""
    return lambda session: [sends(frame(source=source))(session) for source in sources]


def fails(what: str, fits: Callable[[Any], object], who: int | None = None) -> CheckStep:
    """A StreamError must come."""
    return lambda session: session.same(fits(session.receive(session.stream(who), "error", 1.0)), True, what)


def _backup(session: CheckSession) -> None:
    session.controller(session.election - 1)


def _metadata(packet: Any) -> dict[int, int]:
    return {m.metadata_id: int.from_bytes(m.value, "big") for m in packet.metadata}


def _reason(packet: Any) -> int:
    return _metadata(packet).get(4, -1)


def _same_payload(payload: bytes = frame()) -> CheckStep:
    return comes("packet", "payload", payload, lambda packet: packet.payload)


def _shortest(strings: list[bytes]) -> bool:
    return bool(strings) and all(s == to_bytes(int.from_bytes(s, "big")) for s in strings)


def _names_packet(*codes: int) -> Callable[[Any], bool]:
    return lambda error: error.canonical_code in codes and error.HasField("packet_out")


_LOOP = (loops(), comes("packet"))
"""out to the CPU port and back"""
_MET = (sends(), comes("packet"))
_SILENT = (sends(), quiet("packet"))

# -- packet-out and packet-in

_UNKNOWN = any_pb2.Any(type_url="type.googleapis.com/nobody.has.This", value=b"\1")
_BAD: tuple[tuple[str, str, Callable[[Any], object]], ...] = (
    ("missing", "that lacks a metadata", lambda m: m.metadata.pop(1)),
    ("none", "without metadata", lambda m: m.ClearField("metadata")),
    ("unknown", "with a metadata that P4Info does not have", lambda m: m.metadata.add(metadata_id=77, value=b"\1")),
    ("twice", "with the same metadata twice", lambda m: m.metadata.append(m.metadata[0])),
    ("too_wide", "with a value that is too wide", lambda m: put(m, "metadata[0].value", b"\xff\xff")),
    ("empty", "with an empty value", lambda m: put(m, "metadata[0].value", b"")),
)


def _pad(message: Any) -> None:
    for m in message.metadata:
        m.value = m.value.rjust(8, b"\0")


def _header_ids(session: CheckSession) -> list[int]:
    return sorted(m.id for m in session.samples.own("controller_packet_metadata", "packet_in").metadata)


_PACKETS = [
    *rows("packet",
        ("payload", "16.1", "the payload of a packet-out is the whole frame, and that of its packet-in too",
         loops(), _same_payload()),
        ("large", "16.1", "a frame of 1,400 bytes comes back whole", loops(_LARGE), _same_payload(_LARGE)),
        ("metadata", "16.1", "a packet-in has each metadata of P4Info once", loops(),
         comes("packet", "metadata ids", _header_ids, lambda packet: sorted(m.metadata_id for m in packet.metadata))),
        ("shortest", "8.3", "values of packet-in metadata are the shortest strings", loops(),
         comes("packet", "shortest strings", True, lambda packet: _shortest([m.value for m in packet.metadata]))),
        ("padded", "8.3", "padded values of packet-out metadata are accepted", loops(change=_pad), _same_payload()),
        ("any_order", "16.1", "the order of packet-out metadata does not matter",
         loops(change=lambda m: put(m, "metadata", m.metadata[::-1])), _same_payload()),
        ("backup_in", "5", "a backup gets no packet-in", _backup, *_LOOP, quiet("packet", who=_OTHER)),
        ("backup_out", "16.1", "a backup's packet-out is dropped", *_LOOP, _backup, loops(who=_OTHER), quiet("packet")),
        ("backup_error", "16.6", "a backup's packet-out is answered by PERMISSION_DENIED with packet_out",
         _backup, loops(who=_OTHER), fails("PERMISSION_DENIED with packet_out", _names_packet(DENIED), who=_OTHER)),
        ("before_arbitration", "16.2", "a packet-out of a stream that has not arbitrated is dropped",
         *_LOOP, CheckSession.converse, loops(who=_OTHER), quiet("packet")),
        *((name, "16.1", f"a packet-out {text} is dropped", *_LOOP, loops(change=change), quiet("packet"))
          for name, text, change in _BAD),
        *((f"{name}_error", "16.6", f"a packet-out {text} is answered by INVALID_ARGUMENT with packet_out",
           *_LOOP, loops(change=change),
           fails("INVALID_ARGUMENT with packet_out", _names_packet(INVALID_ARGUMENT, OUT_OF_RANGE)))
          for name, text, change in _BAD),
        ("after_error", "16.6", "after a packet-out that is wrong the stream goes on",
         loops(change=lambda m: m.ClearField("metadata")), loops(), _same_payload()),
    ),
    *rows("stream",
        ("other", "16.6", "an `other` message that the server does not know is answered by an error with other",
         says(other=_UNKNOWN), fails("an error with other", lambda error: error.HasField("other"))),
    ),
]  # fmt: skip

# -- packets meet what was written


def _punt(reason: int = 5, action: str = "to_cpu") -> Recipe:
    """An entry for our address, that sends its frames to the controller."""
    entity = sample.entry("exact_two", 0).but("match[0].exact.value", to_bytes(_MAC))
    return entity.but("match[1].exact.value", b"\0").but("action.action", lambda s: s.call(action, reason - 1))


_REPLICATE, _MIRROR = _punt(1, "replicate"), _punt(1, "mirror")


def _route(reason: int, length: int = 128) -> Recipe:
    entity = sample.entry("lpm_route", 0).but("match[0].lpm.value", to_bytes(_PREFIX))
    return entity.but("match[0].lpm.prefix_len", length).but("action.action", lambda s: s.call("to_cpu", reason - 1))


def _group(*instances: int) -> Recipe:
    replicas = [p4r.Replica(port=to_bytes(CPU_PORT), instance=instance) for instance in instances]
    return sample.multicast(0, ()).but("replicas", replicas)


def _clone(length: int = 0) -> Recipe:
    return sample.clone(0, (CPU_PORT,)).but("packet_length_bytes", length)


@step
def _copies(session: CheckSession, *instances: int) -> None:
    """A frame must come back as copies with these instances."""
    sends()(session)
    read = sorted(_reason(session.receive(session.stream(), "packet")) for _ in instances)
    session.same(read, list(instances), "instances of the copies")


def _argument(reason: int, what: str = "the action's argument in the packet-in") -> CheckStep:
    return comes("packet", what, reason, _reason)


def _counted(read: list[p4r.Entity]) -> list[int]:
    return [getattr(e, str(e.WhichOneof("entity"))).data.packet_count for e in read]


def _element(kind: str, name: str, index: int) -> Recipe:
    """Make a recipe for a counter or register of the suite's program."""
    lists, field = f"{kind}s", f"{kind}_id"
    return getattr(sample, kind)(index).but(field, lambda s: s.own(lists, name).preamble.id)


def _is_short(packet: Any) -> bool:
    """Say whether the packet was cut short; the bytes that the program puts before the frame may count too."""
    return 0 < len(packet.payload) <= 32 and frame().startswith(packet.payload)


def _down(samples: Samples) -> bytes:
    if samples.down_port is None:
        raise MissingObject("no port was named that is down (--down-port)")
    return to_bytes(samples.down_port)


def _all_flows(session: CheckSession) -> None:
    """The selector chooses by the flow label, among others."""
    for flow in range(16):
        sends(_ipv6(_PREFIX, flow))(session)
        session.receive(session.stream(), "packet")


_HIT = sample.direct_counter().but("table_entry", lambda s: _route(1).make(s).table_entry)
_ONLY_ACTION = "action.action_profile_action_set.action_profile_actions[0].action"
_NEXT_HOP = "match[0].lpm.value", to_bytes(_PREFIX)
_DATA = [
    *rows("data",
        ("insert", "12.1", "packets meet an entry when the Write that inserts it has returned",
         accept(_punt().insert), sends(), _argument(5)),
        ("modify", "12.1", "packets meet an entry's new action when the Write that modifies it has returned",
         prepare(_punt()), accept(_punt(6).modify), sends(), _argument(6)),
        ("delete", "12.1", "packets do not meet an entry any more when the Write that deletes it has returned",
         prepare(_punt()), *_MET, accept(_punt().delete), *_SILENT),
        ("default", "9.1.3", "packets that no entry matches meet the default entry that was written",
         accept(sample.all_of("exact_two", default=True).but("action.action", lambda s: s.call("to_cpu", 8)).modify),
         sends(), _argument(9)),
        ("failed", "12.2", "an update that failed has no effect on packets", prepare(_punt()), tries(_punt(6).insert),
         sends(), _argument(5, "the first entry's argument in the packet-in")),
        ("cleared", "14", "packets do not meet entries from before VERIFY_AND_COMMIT",
         prepare(_punt()), *_MET, sets("VERIFY_AND_COMMIT"), *_SILENT),
        ("longest_prefix", "9.1", "of lpm entries the one with the longest prefix is met",
         prepare(_route(3, 64), _route(4), _route(5, 8)), sends(_ROUTED),
         _argument(4, "the argument of the longest prefix")),
        ("direct_counter", "9.3.1", "a packet that hits an entry counts in its direct counter",
         prepare(_route(1)), sends(_ROUTED), comes("packet"), reads(_HIT, "packets", [1], _counted)),
        ("counter", "9.3.2", "the program's count of a packet is read",
         prepare(_punt()), *_MET, reads(_element("counter", "packet_counter", 0), "packets", [1], _counted)),
        ("register_read", "9.7", "what the program writes to a register is read",
         prepare(_punt()), *_MET, reads(_element("register", "words", 1), "data", [to_bytes(_MAC)],
             lambda read: [e.register_entry.data.bitstring for e in read])),
        ("multicast", "9.5.1", "a multicast group makes a copy for each replica, with its instance",
         prepare(_REPLICATE), accept(_group(3, 7).insert), _copies(3, 7)),
        ("multicast_modify", "9.5.1", "after MODIFY a multicast group makes the new copies",
         prepare(_REPLICATE, _group(3, 7)), accept(_group(4, 5).modify), _copies(4, 5)),
        ("multicast_delete", "9.5.1", "packets for a multicast group that was deleted are dropped",
         prepare(_REPLICATE, _group(3)), *_MET, accept(_group(3).delete), *_SILENT),
        ("clone", "9.5.2", "a clone session makes a copy for its port",
         prepare(_MIRROR), accept(_clone().insert), sends(), comes("packet", "the frame, marked as a clone", (frame(),
             1), lambda packet: (packet.payload[:60], _metadata(packet).get(2)))),
        ("clone_delete", "9.5.2", "after its session is deleted a packet is not cloned",
         prepare(_MIRROR, _clone()), *_MET, accept(_clone().delete), *_SILENT),
        ("clone_length", "9.5.2", "a clone has no more bytes than packet_length_bytes",
         prepare(_MIRROR), accept(_clone(32).insert), sends(),
         comes("packet", "at most the first 32 bytes of the frame", True, _is_short)),
        ("group", "9.2.2", "packets that hit an entry with a group meet the action of one of its members",
         prepare(sample.member().but("action", lambda s: s.call("forward", CPU_PORT - 1)), sample.group(0, 1)),
         accept(sample.pointer("selecting", group=1).but(*_NEXT_HOP).insert), sends(_ROUTED), _same_payload(_ROUTED)),
        ("watch_port", "9.2.2", "a member is not selected while its watch port is down",
         prepare(sample.member().but("action", lambda s: s.call("drop")), sample.member(1).but("action",
             lambda s: s.call("forward", CPU_PORT - 1))),
         prepare(sample.group(0, 1, 1).but("members[0].watch_port", _down)),
         accept(sample.pointer("selecting", group=1).but(*_NEXT_HOP).insert), _all_flows),
        ("one_shot", "9.2.3", "packets that hit an entry with a one-shot meet one of its actions",
         accept(sample.one_shot(0, (1,)).but(*_NEXT_HOP).but(_ONLY_ACTION, lambda s: s.call("forward",
             CPU_PORT - 1)).insert), sends(_ROUTED), _same_payload(_ROUTED)),
    ),
]  # fmt: skip

# -- digests


def _learn(size: int = 1, timeout_ns: int = 0, ack_ns: int = 10**12) -> Recipe:
    config = p4r.DigestEntry.Config(max_list_size=size, max_timeout_ns=timeout_ns, ack_timeout_ns=ack_ns)
    return sample.digest().but("digest_id", _digest_id).but("config", config)


def _digest_id(samples: Samples) -> int:
    return samples.own("digests", "learn_t").preamble.id


def _sources(digest: Any) -> list[int]:
    return sorted(int.from_bytes(d.struct.members[0].bitstring, "big") for d in digest.data)


def _learned(*sources: int) -> CheckStep:
    what = "the learned address" if len(sources) == 1 else "the learned addresses"
    return comes("digest", what, list(sources), _sources)


def _acknowledge(session: CheckSession) -> None:
    digest = session.receive(session.stream(), "digest")
    session.send(session.stream(), digest_ack=p4r.DigestListAck(digest_id=digest.digest_id, list_id=digest.list_id))


def _other_list_id(session: CheckSession) -> None:
    before = session.receive(session.stream(), "digest").list_id
    from_source(0xB)(session)
    after = session.receive(session.stream(), "digest").list_id
    session.expect(after != before, f"another list_id than {before}")


_FIRST = (prepare(_learn()), from_source(0xA))
_NEVER_BY_TIME = prepare(_learn(size=2, timeout_ns=10**13))
_NO_DIGEST = quiet("digest")
_DIGESTS = [
    *rows("digest",
        ("list", "9.8", "after INSERT the program's digests come in lists with the digest's id",
         accept(_learn().insert), from_source(0xA),
         comes("digest", "id and length", lambda s: (_digest_id(s.samples), 1), lambda d: (d.digest_id, len(d.data)))),
        ("data", "9.8", "a digest has the program's data, as P4Info's type says", *_FIRST, _learned(0xA)),
        ("shortest", "8.3", "strings in digests are the shortest ones", *_FIRST, comes("digest", "shortest strings",
             True, lambda digest: _shortest([m.bitstring for d in digest.data for m in d.struct.members]))),
        ("disabled", "9.8", "without INSERT no digests come", from_source(0xA), *_LOOP, _NO_DIGEST),
        ("deleted", "9.8", "after DELETE no digests come",
         *_FIRST, comes("digest"), accept(_learn().delete), from_source(0xB), _NO_DIGEST),
        ("by_size", "9.8", "a list is sent when it has max_list_size digests",
         _NEVER_BY_TIME, from_source(0xA), _NO_DIGEST, from_source(0xB), _learned(0xA, 0xB)),
        ("by_time", "9.8", "a list is sent when max_timeout_ns has passed",
         prepare(_learn(size=100, timeout_ns=100_000_000)), from_source(0xA), _learned(0xA)),
        ("distinct", "9.8", "the digests of a list are distinct",
         _NEVER_BY_TIME, from_source(0xA, 0xA, 0xA, 0xB), _learned(0xA, 0xB)),
        ("unacknowledged", "9.8", "a digest is not sent again before it is acknowledged",
         *_FIRST, comes("digest"), from_source(0xA), _NO_DIGEST),
        ("acknowledged", "9.8", "after the acknowledgement of its list a digest is sent again",
         *_FIRST, _acknowledge, *_LOOP, from_source(0xA), _learned(0xA)),
        ("no_cache", "9.8", "with ack_timeout_ns 0 a digest is sent each time",
         prepare(_learn(ack_ns=0)), from_source(0xA), comes("digest"), from_source(0xA), _learned(0xA)),
        ("ack_timeout", "9.8", "when ack_timeout_ns has passed a digest is sent again",
         prepare(_learn(ack_ns=50_000_000)), from_source(0xA), comes("digest"), quiet("digest", seconds=0.3),
         from_source(0xA), _learned(0xA)),
        ("list_ids", "9.8", "two lists have two list_ids", *_FIRST, _other_list_id),
        ("timestamp", "9.8", "a list has a timestamp",
         *_FIRST, comes("digest", "a timestamp", True, lambda digest: digest.timestamp > 0)),
        ("backup", "5", "a backup gets no digests",
         prepare(_learn()), _backup, from_source(0xA), comes("digest"), quiet("digest", who=_OTHER)),
        ("unknown_ack", "16.6",
         "an acknowledgement of a digest that P4Info does not have is answered by INVALID_ARGUMENT with "
         "digest_list_ack", says(digest_ack=p4r.DigestListAck(digest_id=NO_ID, list_id=NO_DEVICE)),
         fails("INVALID_ARGUMENT with digest_list_ack",
             lambda error: error.canonical_code == INVALID_ARGUMENT and error.HasField("digest_list_ack"))),
    ),
]  # fmt: skip

# -- idle time-outs


def _ageing(timeout_ns: int = _IDLE_NS) -> Recipe:
    entity = sample.entry("ageing").but("idle_timeout_ns", timeout_ns)
    return entity.but("metadata", b"mine").but("controller_metadata", 77)


def _idle(what: str, expected: Any, measure: Callable[[Any], Any]) -> CheckStep:
    return comes("idle_timeout_notification", what, expected, measure)


def _key(entry: p4r.TableEntry) -> list[Any]:
    fields = ("table_id", "priority", "metadata", "controller_metadata", "idle_timeout_ns")
    return [*(getattr(entry, field) for field in fields), list(entry.match)]


def _skip(session: CheckSession) -> None:
    """Discard the messages that have come already."""
    while (message := session.stream().next(0)) is not None:
        session.note(message)


_NOTIFIED = comes("idle_timeout_notification")
_IDLE = [
    *rows("idle",
        ("notified", "16.4", "an entry that no packet hits for its TTL is told to the primary",
         prepare(_ageing()), _idle("one entry", True, lambda n: len(n.table_entry) == 1)),
        ("key", "16.4", "the notification has the entry's key, metadata and TTL", prepare(_ageing()),
         _idle("key", lambda s: _key(_ageing().make(s.samples).table_entry), lambda n: _key(n.table_entry[0]))),
        ("timestamp", "16.4", "the notification has a timestamp",
         prepare(_ageing()), _idle("a timestamp", True, lambda n: n.timestamp > 0)),
        ("again", "16.4", "another TTL later the entry is told again",
         prepare(_ageing()), _NOTIFIED, _idle("entries", 1, lambda n: len(n.table_entry))),
        ("no_ttl", "9.1.8", "an entry with TTL 0 is never told",
         prepare(_ageing(0).but("match[0].exact.value", b"\7"), _ageing()),
         _idle("the entry with a TTL alone", [b"\1"], lambda n: [e.match[0].exact.value for e in n.table_entry])),
        ("backup", "16.4", "a backup is told of no idle entries",
         _backup, prepare(_ageing()), _NOTIFIED, quiet("idle_timeout_notification", who=_OTHER)),
        ("deleted", "16.4", "a deleted entry is not told any more",
         prepare(_ageing()), _NOTIFIED, do(_ageing().delete), _skip, quiet("idle_timeout_notification", seconds=0.6)),
    ),
]  # fmt: skip
checks = [*_PACKETS, *_DATA, *_DIGESTS, *_IDLE]
