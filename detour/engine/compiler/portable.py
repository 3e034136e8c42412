# SPDX-License-Identifier: Apache-2.0
"""p4c's JSON for PSA and PNA (`psa_switch`, `pna_nic`) in the form that it has for v1model.

Parsers, controls and deparsers get v1model's names; PSA's second parser and its first deparser keep theirs. Arrays and
calculations that are instances of externs become v1model's. What else these architectures do is in `intrinsics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detour.engine.compiler.model import Json, find, parse_hex, refuse

V1MODEL, PSA, PNA = "v1model", "psa", "pna"
ARCHITECTURES = (V1MODEL, PSA, PNA)
EGRESS_PARSER, INGRESS_DEPARSER = "egress_parser", "ingress_deparser"
STATE = "$externs"
"""the header that has the state of each InternetChecksum, 16 bits by its name, and what a program does not use"""

_MARKS = {"psa_ingress_parser_input_metadata": PSA, "pna_main_parser_input_metadata": PNA}
_STAGES = {
    **{"ingress_parser": "parser", "main_parser": "parser", "main_control": "ingress"},
    **{"egress_deparser": "deparser", "main_deparser": "deparser"},
}
_ZERO = {"type": "hexstr", "value": "0x0"}
_UNUSED = "$unused"


def architecture_of(source: Json) -> str:
    """The architecture of a document that has the shape of BMv2 JSON: one of `ARCHITECTURES`."""
    return next((_MARKS[h["name"]] for h in source["headers"] if h["name"] in _MARKS), V1MODEL)


def as_v1model(source: Json) -> Json:
    """A document in v1model's form; itself if it has that. Raises DetourError naming an extern that is not known, or if
    externs and their calls are not as p4c writes them."""
    if architecture_of(source) == V1MODEL:
        return source
    try:
        return _Rewriting(source).document()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
        raise refuse(f"its externs, or calls of them, are malformed: {e!r}") from e


def _attributes(extern: Json) -> dict[str, Any]:
    """The values of an instance's constructor: numbers, and texts."""
    values = {}
    for a in extern.get("attribute_values") or []:
        value = a["value"]
        values[a["name"]] = parse_hex(value) if a["type"] == "hexstr" and isinstance(value, str) else value
    return values


class _Rewriting:
    """Instances of externs, and the calculations that their calls make necessary."""

    def __init__(self, source: Json) -> None:
        self._source = source
        self._externs = {e["name"]: e for e in source.get("extern_instances") or []}
        self._types = {t["name"]: {f[0]: f[1] for f in t["fields"]} for t in source["header_types"]}
        self._headers = {h["name"]: h["header_type"] for h in source["headers"]}
        self._calculations: list[Json] = []
        self._calls: dict[str, Callable[[list[Json], Json], tuple[str, list[Json]]]] = {
            "_Counter_count": lambda args, at: ("count", [self._array(args[0], "counter_array"), args[1]]),
            "_Meter_execute": lambda args, at: ("_Meter_execute", self._meter_call(*args)),
            "_Hash_get_hash": lambda args, at: (
                "_Hash_get_hash", [args[1], self._calculation(args[2], self._algorithm(args[0], at), at)],
            ),
            "_Hash_get_hash_mod": lambda args, at: (
                "modify_field_with_hash_based_offset",
                [args[1], args[2], self._calculation(args[3], self._algorithm(args[0], at), at), args[4]],
            ),
            "generate_digest": lambda args, at: ("generate_digest", [_ZERO, *args]),
            "recirculate": lambda args, at: ("recirculate", args or [_ZERO]),
        }  # fmt: skip

    def document(self) -> Json:
        source = self._source
        document = {key: self._rewritten(value) for key, value in source.items() if key != "extern_instances"}
        for kind in ("parsers", "pipelines", "deparsers"):
            for stage in document.get(kind) or []:
                stage["name"] = _STAGES.get(stage["name"], stage["name"])
        by_type: dict[str, list[Json]] = {}
        for extern in self._externs.values():
            by_type.setdefault(extern["type"], []).append(extern)
        document["meter_arrays"] = [*(document.get("meter_arrays") or []), *map(_meter, by_type.get("Meter", []))]
        document["calculations"] = [*(document.get("calculations") or []), *self._calculations]
        state = [[extern["name"], 16, False] for extern in by_type.get("InternetChecksum", [])]
        number = 1 + max((h["id"] for h in source["headers"]), default=0)
        document["header_types"].append({"name": STATE, "fields": [*state, [_UNUSED, 32, False]]})
        document["headers"].append({"name": STATE, "id": number, "metadata": True, "header_type": STATE})
        return document

    def _rewritten(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._rewritten(each) for each in node]
        if not isinstance(node, dict):
            return node
        rewritten = {key: self._rewritten(value) for key, value in node.items()}
        op = node.get("op")
        if op in self._calls:
            rewritten["op"], rewritten["parameters"] = self._calls[op](rewritten["parameters"], node)
        elif isinstance(op, str) and op.startswith("_InternetChecksum_"):
            state, *args = rewritten["parameters"]
            state = {"type": "field", "value": [STATE, state["value"]]}
            lists = (self._calculation(a, "csum16", node) if a["type"] == "field_list" else a for a in args)
            rewritten["parameters"] = [state, *lists]
        return rewritten

    def _array(self, extern: Json, kind: str) -> Json:
        return {"type": kind, "value": extern["value"]}

    def _meter_call(self, meter: Json, index: Json, result: Json) -> list[Json]:
        """Compile a call of a meter. For a colour whose result is not used p4c writes the colour and then the index."""
        if result["type"] in ("runtime_data", "hexstr"):
            index, result = result, {"type": "field", "value": [STATE, _UNUSED]}
        return [self._array(meter, "meter_array"), index, result]

    def _algorithm(self, extern: Json, at: Json) -> str:
        return str(_attributes(find(self._externs, extern["value"], "extern", at)).get("algo"))

    def _bits(self, value: Json, at: Json) -> int:
        """Return how wide a part of what is hashed is; what is not a field is refused where it is compiled."""
        if value["type"] != "field":
            return int(value.get("bitwidth", 0))
        header, name = value["value"]
        fields = find(self._types, find(self._headers, header, "header", at), "header type", at)
        bits = find(fields, name, "field", at)
        return bits if type(bits) is int else 0

    def _calculation(self, fields: Json, algorithm: str, at: Json) -> Json:
        """psa_switch fills what is hashed up to bytes on the left, v1model on the right."""
        if fields["type"] != "field_list":
            raise refuse(f"'{fields['type']}' as input of a hash", at)
        name = f"${algorithm}_{len(self._calculations)}"
        given = fields["value"] if isinstance(fields["value"], list) else [fields["value"]]
        inputs = list(map(_input, given))
        if spare := -sum(self._bits(each, at) for each in inputs) % 8:
            inputs.insert(0, {**_ZERO, "bitwidth": spare})
        self._calculations.append({"name": name, "id": -1, "algo": algorithm, "input": inputs})
        return {"type": "calculation", "value": name}


def _input(value: Json) -> Json:
    """A part of what is hashed. A constant is as wide as its digits; psa_switch takes fields of invalid headers too."""
    if value["type"] == "hexstr":
        return {"bitwidth": 4 * len(value["value"].removeprefix("0x")), **value}
    return {**value, "always": True}


def _meter(extern: Json) -> Json:
    values = _attributes(extern)
    return {
        "name": extern["name"],
        "is_direct": False,
        "size": int(values.get("n_meters", 0)),
        "rate_count": int(values.get("rate_count", 2)),
        "type": values.get("type"),
    }
