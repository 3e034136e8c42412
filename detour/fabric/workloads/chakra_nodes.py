# SPDX-License-Identifier: Apache-2.0
"""Nodes of Chakra execution traces, from files of one NPU: protobuf (`trace.0.et`) and its dump as JSON.

A protobuf file, packed by gzip or not, is a stream of messages, each behind its length as a varint: one
`GlobalMetadata`, then a `Node` each (MLCommons Chakra, et_def.proto). What is not needed here is not decoded. A JSON
file has the same messages one behind the other, as protobuf's own dump writes them, or is an object with a list
`workload_graph`, as Chakra's JSON feeder reads it.

Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using Standardized Execution Traces", 2023.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError

NODE_TYPES = (
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
    "COMM_RECV_NODE", "COMM_COLL_NODE",
)  # fmt: skip
COLLECTIVE_TYPES = (
    "ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK", "BARRIER",
)  # fmt: skip
"""both by their numbers in the schema"""

_VALUES = {
    "double_val": 3, "float_val": 5, "int32_val": 7, "int64_val": 9, "uint32_val": 11, "uint64_val": 13,
    "sint32_val": 15, "sint64_val": 17, "fixed32_val": 19, "fixed64_val": 21, "sfixed32_val": 23, "sfixed64_val": 25,
    "bool_val": 27, "string_val": 29,
}  # fmt: skip
_SCHEMA: dict[str, list[tuple[str, int, str]]] = {
    "Flags": [("values", 1, "bool*")],
    "Attribute": [
        ("name", 1, "string"),
        *((name, number, name.removesuffix("_val")) for name, number in _VALUES.items()),
        ("bool_list", 28, "Flags"),
    ],
    "Metadata": [("version", 1, "string")],
    "Node": [
        ("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "int32"), ("data_deps", 5, "uint64*"),
        ("duration_micros", 7, "uint64"), ("attr", 10, "Attribute*"),
    ],
}  # fmt: skip
"""as `detour.base.protobuf.MessageFields`; the values of an attribute are alternatives"""
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class ChakraNode:
    """A node. `after`: those of `data_deps`; `ctrl_deps` name the operator that called it, which is over later.
    `attributes` by name: numbers, texts, and lists of truth values. `place`: which of the file's it is."""

    number: int
    name: str
    kind: str
    after: tuple[int, ...]
    micros: int
    attributes: dict[str, Any]
    place: int


@cache
def _messages() -> tuple[Any, Any]:
    """The classes of `GlobalMetadata` and `Node`."""
    from detour.base.protobuf import add_messages, message_class, new_pool

    pool = new_pool()
    add_messages(pool, "detour.chakra", _SCHEMA)
    return message_class(pool, "detour.chakra.Metadata"), message_class(pool, "detour.chakra.Node")


def read_nodes(file: Path) -> list[ChakraNode]:
    """All nodes of a file, in its order. Raises DetourError: the file cannot be read, or is not a trace; with the "
    "node."""
    try:
        data = file.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            with gzip.open(file) as packed:
                data = packed.read(_MOST_BYTES)
    except (OSError, EOFError) as error:
        raise DetourError(f"Chakra trace {file}: {getattr(error, 'strerror', None) or error}") from None
    try:
        decoded = _from_json(data) if data.lstrip()[:1] == b"{" else _from_protobuf(data)
        nodes = list(decoded)
        if wrong := [node for node in nodes if node.kind not in NODE_TYPES[1:]]:
            raise DetourError(f"node {wrong[0].number} ({wrong[0].name:.60}): there is no node type {wrong[0].kind}")
    except DetourError as error:
        raise DetourError(f"Chakra trace {file}: {error}") from None
    if not nodes:
        raise DetourError(f"Chakra trace {file}: there is no node in it")
    numbers = [node.number for node in nodes]
    if len(set(numbers)) < len(numbers):
        twice = next(k for place, k in enumerate(numbers) if k in set(numbers[:place]))
        raise DetourError(f"Chakra trace {file}: node {twice} appears twice")
    return nodes


def encoded_nodes(nodes: Sequence[ChakraNode]) -> bytes:
    """A protobuf file of one NPU. Numbers of attributes have the types that Chakra's feeder asks for."""
    from google.protobuf import proto

    metadata, node_class = _messages()
    encoded = BytesIO()
    proto.serialize_length_prefixed(metadata(version="0.0.4"), encoded)
    for node in nodes:
        attributes = [{"name": name, _type_of(name, value): value} for name, value in node.attributes.items()]
        kind = NODE_TYPES.index(node.kind)
        facts = {"id": node.number, "name": node.name, "type": kind, "data_deps": node.after, "attr": attributes}
        proto.serialize_length_prefixed(node_class(**facts, duration_micros=node.micros), encoded)
    return encoded.getvalue()


def _type_of(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "bool_val"
    if name == "tensor_size":
        return "uint64_val"
    return "int64_val" if name in ("comm_size", "num_ops") else "int32_val"


# -- protobuf -----------------------------------------------------------------------------------------------


def _from_protobuf(data: bytes) -> Iterator[ChakraNode]:
    from google.protobuf.message import DecodeError

    metadata, node = _messages()
    at, place = 0, -1
    while at < len(data):
        what = "its metadata" if place < 0 else f"node number {place + 1}"
        size, begin = _varint(data, at)
        at = begin + size
        if begin < 0 or at > len(data):
            raise DetourError(f"{what} is truncated")
        try:
            decoded = (metadata if place < 0 else node).FromString(data[begin:at])
        except DecodeError:
            raise DetourError(f"{what} is not a protobuf message of its schema") from None
        if place >= 0:
            kind = NODE_TYPES[decoded.type] if 0 <= decoded.type < len(NODE_TYPES) else str(decoded.type)
            attributes = {attribute.name: _value(attribute) for attribute in decoded.attr}
            after = tuple(decoded.data_deps)
            yield ChakraNode(decoded.id, decoded.name, kind, after, decoded.duration_micros, attributes, place)
        place += 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; -1 if it does not."""
    value = 0
    for k, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            return value, at + k + 1
    return 0, -1


def _value(attribute: Any) -> Any:
    """None: of a type that nothing here asks for."""
    if attribute.HasField("bool_list"):
        return list(attribute.bool_list.values)
    return next((value for field, value in attribute.ListFields() if field.name != "name"), None)


# -- JSON ---------------------------------------------------------------------------------------------------


def _from_json(data: bytes) -> Iterator[ChakraNode]:
    try:
        objects = list(_objects(data.decode()))
    except json.JSONDecodeError as error:
        raise DetourError(f"line {error.lineno}: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError):
        raise DetourError("it is not JSON") from None
    graph = objects[0].get("workload_graph") if isinstance(objects[0], dict) else None
    entries = graph if isinstance(graph, list) else objects[1:]
    for place, entry in enumerate(entries):
        try:
            yield _fed(entry, place) if entries is graph else _dumped(entry, place)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            raise DetourError(f"node number {place + 1} is not of the schema") from None


def _objects(text: str) -> Iterator[Any]:
    """JSON values one behind the other."""
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at == len(text):
            return
        value, at = decoder.raw_decode(text, at)
        yield value


def _dumped(entry: dict[str, Any], place: int) -> ChakraNode:
    """As protobuf writes it: large numbers as texts, what is 0 is not there."""
    attributes = {each["name"]: _dumped_value(each) for each in entry.get("attr", ())}
    number, name, kind = int(entry.get("id", 0)), str(entry.get("name", "")), str(entry.get("type", NODE_TYPES[0]))
    after, micros = tuple(map(int, entry.get("dataDeps", ()))), int(entry.get("durationMicros", 0))
    return ChakraNode(number, name, kind, after, micros, attributes, place)


def _dumped_value(attribute: dict[str, Any]) -> Any:
    values = (pair for pair in attribute.items() if pair[0] not in ("name", "docString"))
    key, value = next(values, ("", None))
    match key:
        case "boolList":
            return list(value["values"]) if value else []
        case "boolVal" | "stringVal":
            return value
        case "doubleVal" | "floatVal":
            return float(value or 0)
    return int(value) if isinstance(value, (int, str)) else None


def _fed(entry: dict[str, Any], place: int) -> ChakraNode:
    """As Chakra's JSON feeder takes it: attributes are keys."""
    kind = entry["NodeType"]
    keys = {"Id", "Name", "NodeType", "runtime", "data_deps", "ctrlDeps"}
    attributes = {key: value for key, value in entry.items() if key not in keys}
    after = tuple(map(int, entry.get("data_deps", ())))
    type_ = NODE_TYPES[kind] if 0 <= int(kind) < len(NODE_TYPES) else str(kind)
    micros = int(entry.get("runtime", 0))
    return ChakraNode(int(entry["Id"]), str(entry["Name"]), type_, after, micros, attributes, place)
