# SPDX-License-Identifier: Apache-2.0
"""Controller headers: metadata of packet-in and packet-out as the bits in front of the frame.

The header with `@controller_header` is the first on the wire at the CPU port; its fields follow each other
without gaps in the order of P4Info (spec, "ControllerPacketMetadata" and "Packet I/O").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from detour.engine.compiler.model import Model
from detour.engine.p4runtime.bytestrings import decode, encode
from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.translation import TranslationPlan


@dataclass(frozen=True, slots=True)
class MetadataField:
    """A metadata field. `bits`: on the wire."""

    id: int
    name: str
    bits: int


class HeaderCodec:
    """The controller header of one direction."""

    def __init__(self, name: str, fields: list[MetadataField]) -> None:
        self.name = name
        self.bits = sum(f.bits for f in fields)
        self.size = (self.bits + 7) // 8
        left = 8 * self.size
        self._fields: dict[int, tuple[MetadataField, int]] = {}  # id -> field, shift
        self._unknown = any(not f.bits for f in fields)
        for field in fields:
            left -= field.bits
            self._fields[field.id] = (field, left)

    def pack(self, metadata: Iterable[p4r.PacketMetadata]) -> bytes:
        """The header of a packet-out. Every field must be given once."""
        header, seen = 0, set()
        for m in metadata:
            if m.metadata_id not in self._fields:
                raise invalid(f"{self.name}: there is no metadata field {m.metadata_id}")
            field, shift = self._fields[m.metadata_id]
            if m.metadata_id in seen:
                raise invalid(f"{self.name}: the metadata field '{field.name}' is given twice")
            seen.add(m.metadata_id)
            header |= decode(m.value, field.bits, f"{self.name}: metadata field '{field.name}'") << shift
        for id_, (field, _) in self._fields.items():
            if id_ not in seen:
                raise invalid(f"{self.name}: the metadata field '{field.name}' is missing")
        return header.to_bytes(self.size, "big")

    def unpack(self, frame: bytes, into: p4r.PacketIn) -> bool:
        """Fill in a packet-in; False when the frame is too short for the header, or nobody knows how long that is."""
        if self._unknown or len(frame) < self.size:
            return False
        header = int.from_bytes(frame[: self.size], "big")
        for field, shift in self._fields.values():
            into.metadata.add(metadata_id=field.id, value=encode(header >> shift & ((1 << field.bits) - 1)))
        into.payload = frame[self.size :]
        return True


def header_codecs(info: p4i.P4Info, program: Model, plan: TranslationPlan) -> tuple[HeaderCodec, HeaderCodec]:
    """Codecs for packet-in and packet-out; without controller headers the frame is the payload. P4Info has the
    controller's widths, which translated types change, and none for strings. What is on the wire says the header of the
    program with the same fields."""
    codecs = {"packet_in": HeaderCodec("packet_in", []), "packet_out": HeaderCodec("packet_out", [])}
    for header in info.controller_packet_metadata:
        name = header.preamble.name
        if name not in codecs:
            raise invalid(f"P4Info: controller header '{name}' is neither packet_in nor packet_out")
        fields = _fields(header, _wire_widths(header, program), plan)
        if len({f.id for f in fields}) < len(fields):
            raise invalid(f"P4Info: controller header '{name}' has two fields with the same id")
        codecs[name] = HeaderCodec(name, fields)
    return codecs["packet_in"], codecs["packet_out"]


def _wire_widths(header: p4i.ControllerPacketMetadata, program: Model) -> dict[str, int]:
    """Widths of the fields by name, empty if no header of the program has these fields."""
    names = [m.name for m in header.metadata]
    for instance in program.headers.values():
        if not instance.metadata and [f.name for f in instance.type.fields] == names:
            return {f.name: f.bits for f in instance.type.fields}
    return {}


def _fields(header: p4i.ControllerPacketMetadata, wire: dict[str, int], plan: TranslationPlan) -> list[MetadataField]:
    fields = []
    for m in header.metadata:
        kind = plan.of(m)
        if m.bitwidth < 1 and (kind is None or kind.sdn_bits):
            raise invalid(f"P4Info: controller header '{header.preamble.name}' has a field without bitwidth")
        bits = wire.get(m.name, max(m.bitwidth, 0))
        if kind is not None and bits:
            kind.use(bits)
        fields.append(MetadataField(m.id, m.name, bits))
    return fields
