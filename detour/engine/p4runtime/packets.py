# SPDX-License-Identifier: Apache-2.0
"""Controller headers: metadata of packet-in and packet-out as the bits in front of the frame.

The header with `@controller_header` is the first on the wire at the CPU port; its fields follow each other
without gaps in the order of P4Info (spec, "ControllerPacketMetadata" and "Packet I/O").
"""

from __future__ import annotations

from collections.abc import Iterable

from finsy.proto import p4i, p4r

from detour.engine.p4runtime.bytestrings import decode, encode
from detour.engine.p4runtime.errors import invalid


class HeaderCodec:
    """The controller header of one direction."""

    def __init__(self, name: str, fields: list[tuple[int, str, int]]) -> None:
        """`fields`: (metadata id, name, bits)."""
        self.name = name
        self.bits = sum(bits for _, _, bits in fields)
        self.size = (self.bits + 7) // 8
        left = 8 * self.size
        self._fields: list[tuple[int, int, int]] = []  # id, shift, mask
        self._by_id: dict[int, tuple[str, int, int]] = {}  # id -> name, bits, shift
        for id_, field, bits in fields:
            left -= bits
            self._fields.append((id_, left, (1 << bits) - 1))
            self._by_id[id_] = (field, bits, left)

    def pack(self, metadata: Iterable[p4r.PacketMetadata]) -> bytes:
        """The header of a packet-out. Every field must be given once."""
        header, seen = 0, set()
        for m in metadata:
            found = self._by_id.get(m.metadata_id)
            if found is None:
                raise invalid(f"{self.name}: there is no metadata field {m.metadata_id}")
            name, bits, shift = found
            if m.metadata_id in seen:
                raise invalid(f"{self.name}: the metadata field '{name}' is given twice")
            seen.add(m.metadata_id)
            header |= decode(m.value, bits, f"{self.name}: metadata field '{name}'") << shift
        for id_, (name, _, _) in self._by_id.items():
            if id_ not in seen:
                raise invalid(f"{self.name}: the metadata field '{name}' is missing")
        return header.to_bytes(self.size, "big")

    def unpack(self, frame: bytes, into: p4r.PacketIn) -> bool:
        """Fills in a packet-in; False when the frame is too short to have the header."""
        if len(frame) < self.size:
            return False
        header = int.from_bytes(frame[: self.size], "big")
        for id_, shift, mask in self._fields:
            m = into.metadata.add()
            m.metadata_id, m.value = id_, encode(header >> shift & mask)
        into.payload = frame[self.size :]
        return True


def header_codecs(info: p4i.P4Info) -> tuple[HeaderCodec, HeaderCodec]:
    """Codecs for packet-in and packet-out; without controller headers the frame is the payload."""
    codecs = {"packet_in": HeaderCodec("packet_in", []), "packet_out": HeaderCodec("packet_out", [])}
    for header in info.controller_packet_metadata:
        name = header.preamble.name
        if name not in codecs:
            raise invalid(f"P4Info: controller header '{name}' is neither packet_in nor packet_out")
        fields = [(m.id, m.name, m.bitwidth) for m in header.metadata]
        if any(bits < 1 for _, _, bits in fields):
            raise invalid(f"P4Info: controller header '{name}' has a field without bitwidth")
        if len({id_ for id_, _, _ in fields}) < len(fields):
            raise invalid(f"P4Info: controller header '{name}' has two fields with one id")
        codecs[name] = HeaderCodec(name, fields)
    return codecs["packet_in"], codecs["packet_out"]
