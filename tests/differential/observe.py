# SPDX-License-Identifier: Apache-2.0
"""What a switch tells its controller after a run, as sorted text: counters and digests."""

from __future__ import annotations

import queue
from collections.abc import Iterable

from finsy.proto import p4d, p4i, p4r

from tests.ptf.p4rt import Client, Schema
from tests.waiting import PATIENCE_S


def counters(client: Client, schema: Schema) -> list[str]:
    """Every cell and every entry that has counted something."""
    lines = []
    for info in schema.p4info.counters:
        for entity in client.read(schema.counter(info.preamble.name)):
            counted = _counted(info, entity.counter_entry.data)
            if counted:
                lines.append(f"{info.preamble.name}[{entity.counter_entry.index.index}] {counted}")
    for info in schema.p4info.direct_counters:
        query = p4r.Entity()
        query.direct_counter_entry.table_entry.table_id = info.direct_table_id
        for entity in client.read(query):
            counted = _counted(info, entity.direct_counter_entry.data)
            if counted:
                lines.append(f"{info.preamble.name}({_key(entity.direct_counter_entry.table_entry)}) {counted}")
    return sorted(lines)


def _counted(info: p4i.Counter | p4i.DirectCounter, data: p4r.CounterData) -> str:
    """What the counter's unit says that it counts; BMv2 tells both always."""
    unit = p4i.CounterSpec
    if info.spec.unit == unit.PACKETS:
        return f"{data.packet_count}p" if data.packet_count else ""
    if info.spec.unit == unit.BYTES:
        return f"{data.byte_count}B" if data.byte_count else ""
    return f"{data.packet_count}p {data.byte_count}B" if data.packet_count or data.byte_count else ""


def _key(entry: p4r.TableEntry) -> str:
    fields = sorted(entry.match, key=lambda m: m.field_id)
    return f"{entry.priority}/" + ",".join(m.SerializeToString(deterministic=True).hex() for m in fields)


def digests(client: Client, expected: int | None, quiet: float) -> list[str]:
    """Different digests: those that have come once `expected` many have, or until `quiet` seconds bring no more.

    How often the same one comes depends on when it was acknowledged, so that is left out."""
    lines: set[str] = set()
    while True:
        missing = expected is not None and len(lines) < expected
        wait = quiet if expected is None else PATIENCE_S if missing else 0.0
        try:
            message = client.digests.get(wait > 0, wait)
        except queue.Empty:
            break
        lines |= {f"{message.digest_id}: {_data(d)}" for d in message.data}
    return sorted(lines)


def _data(data: p4d.P4Data) -> str:
    if data.WhichOneof("data") == "struct":
        return "{" + ", ".join(_data(m) for m in data.struct.members) + "}"
    return data.bitstring.hex()


def value_set_members(entity: p4r.Entity, schema: Schema) -> Iterable[tuple[str, bytes]]:
    """(name of the value set, its fields side by side, each in whole bytes): how BMv2 wants members."""
    entry = entity.value_set_entry
    info = next(v for v in schema.p4info.value_sets if v.preamble.id == entry.value_set_id)
    widths = {f.id: f.bitwidth for f in info.match}
    for member in entry.members:
        value = b""
        for match in sorted(member.match, key=lambda m: m.field_id):
            number = int.from_bytes(match.exact.value, "big")
            value += number.to_bytes((widths[match.field_id] + 7) // 8, "big")
        yield info.preamble.name, value
