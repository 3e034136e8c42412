# SPDX-License-Identifier: Apache-2.0
"""Programs made for a table: BMv2 JSON with one table of any key, and arrays that packets index as they like.

The packet is one header: the key's fields, `member` (what the selector hashes), `index` and `value`. Metadata tells
what happened: `result` (the action's argument + 1; 0: no action), `read` (the register) and `colour` (the meter).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
RESULT_BITS = 32
INDEX_BITS = 40
MEMBER_BITS = 16
_WIDTHS = (1, 2, 7, 8, 9, 12, 16, 31, 32, 33, 48, 63, 64, 65, 127, 128, 129, 200)


@dataclass(frozen=True)
class Key:
    """A component of the key."""

    name: str
    bits: int
    kind: str
    mask: int | None = None


@dataclass(frozen=True)
class Layout:
    """What a program is made for."""

    keys: tuple[Key, ...]
    profile: str  # "", "profile" or "selector"
    size: int
    counters: bool
    register_bits: int
    array_size: int

    @property
    def kind(self) -> str:
        """The table's match kind."""
        kinds = {k.kind for k in self.keys}
        return next((k for k in ("range", "ternary", "lpm") if k in kinds), "exact")

    @property
    def fields(self) -> list[tuple[str, int]]:
        """The header, filled up to whole bytes."""
        fields = [(k.name, k.bits) for k in self.keys]
        fields += [("member", MEMBER_BITS), ("index", INDEX_BITS), ("value", self.register_bits)]
        rest = -sum(bits for _, bits in fields) % 8
        return [*fields, ("pad", rest)] if rest else fields


def any_layout(rng: random.Random) -> Layout:
    """A random layout; most of them are small."""
    family = rng.choice(("exact", "lpm", "ternary", "range", "mixed"))
    kinds = {
        "exact": ["exact"] * rng.randrange(1, 5),
        "lpm": ["lpm", *["exact"] * rng.randrange(3)],
        "ternary": ["ternary"] * rng.randrange(1, 4) + ["exact"] * rng.randrange(2),
        "range": ["range"] * rng.randrange(1, 3) + ["exact"] * rng.randrange(2),
        "mixed": ["range", "ternary", "lpm", "exact"][: rng.randrange(2, 5)],
    }[family]
    rng.shuffle(kinds)
    keys = []
    for number, kind in enumerate(kinds):
        bits = rng.choice(_WIDTHS)
        mask = rng.getrandbits(bits) if kind in ("exact", "ternary") and rng.random() < 0.2 else None
        keys.append(Key(f"k{number}", bits, kind, mask))
    return Layout(
        tuple(keys),
        rng.choice(("", "", "", "profile", "selector")),
        rng.choice((4, 64, 1024, 1 << 16)),
        rng.random() < 0.5,
        rng.choice(_WIDTHS),
        rng.choice((0, 1, 7, 100)),
    )


def document(layout: Layout) -> Json:
    """The program."""
    pipelines = [
        {
            "name": "ingress",
            "id": 0,
            "init_table": "t",
            "tables": [_table(layout), _arrays_table()],
            "action_profiles": [_profile(layout)] if layout.profile else [],
            "conditionals": [],
        },
        {"name": "egress", "id": 1, "init_table": None, "tables": [], "action_profiles": [], "conditionals": []},
    ]
    return {
        "__meta__": {"version": [2, 23], "compiler": "tests.fuzz"},
        "header_types": [
            {"name": "standard_metadata", "id": 0, "fields": [["ingress_port", 9, False], ["egress_spec", 9, False]]},
            {"name": "meta_t", "id": 1, "fields": _metadata(layout)},
            {"name": "h_t", "id": 2, "fields": [[name, bits, False] for name, bits in layout.fields]},
        ],
        "headers": [
            {"name": "standard_metadata", "id": 0, "header_type": "standard_metadata", "metadata": True},
            {"name": "m", "id": 1, "header_type": "meta_t", "metadata": True},
            {"name": "h", "id": 2, "header_type": "h_t", "metadata": False},
        ],
        "errors": [],
        "parsers": [_parser()],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"], "primitives": []}],
        "counter_arrays": [{"name": "c", "id": 0, "size": layout.array_size, "is_direct": False}],
        "register_arrays": [{"name": "r", "id": 0, "size": layout.array_size, "bitwidth": layout.register_bits}],
        "meter_arrays": [
            {"name": "b", "id": 0, "size": layout.array_size, "is_direct": False, "type": "bytes", "rate_count": 2}
        ],
        "actions": _actions(layout),
        "pipelines": pipelines,
    }


def _metadata(layout: Layout) -> list[list[Any]]:
    return [["result", RESULT_BITS + 1, False], ["read", layout.register_bits, False], ["colour", 8, False]]


def _parser() -> Json:
    extract = {"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}
    end = {"type": "default", "value": None, "mask": None, "next_state": None}
    start = {"name": "start", "id": 0, "parser_ops": [extract], "transitions": [end], "transition_key": []}
    return {"name": "parser", "id": 0, "init_state": "start", "parse_states": [start]}


def _field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def _actions(layout: Layout) -> list[Json]:
    result = {"op": "+", "left": {"type": "runtime_data", "value": 0}, "right": {"type": "hexstr", "value": "0x01"}}
    index = _field("h", "index")
    touch = [
        ("register_read", [_field("m", "read"), {"type": "register_array", "value": "r"}, index]),
        ("register_write", [{"type": "register_array", "value": "r"}, index, _field("h", "value")]),
        ("count", [{"type": "counter_array", "value": "c"}, index]),
        ("execute_meter", [{"type": "meter_array", "value": "b"}, index, _field("m", "colour")]),
    ]
    mark = [("assign", [_field("m", "result"), {"type": "expression", "value": result}])]
    number = [{"name": "number", "bitwidth": RESULT_BITS}]
    # An argument behind the one that counts, so that records have more than a word of data.
    more = [*number, {"name": "more", "bitwidth": layout.register_bits}]
    return [
        {"name": "mark", "id": 0, "runtime_data": number, "primitives": _calls(mark)},
        {"name": "mark_more", "id": 1, "runtime_data": more, "primitives": _calls(mark)},
        {"name": "nothing", "id": 2, "runtime_data": [], "primitives": []},
        {"name": "touch", "id": 3, "runtime_data": [], "primitives": _calls(touch)},
    ]


def _calls(calls: list[tuple[str, list[Json]]]) -> list[Json]:
    return [{"op": op, "parameters": parameters} for op, parameters in calls]


def _table(layout: Layout) -> Json:
    table: Json = {
        "name": "t",
        "id": 0,
        "key": [_key(k) for k in layout.keys],
        "match_type": layout.kind,
        "type": {"": "simple", "profile": "indirect", "selector": "indirect_ws"}[layout.profile],
        "max_size": layout.size,
        "with_counters": layout.counters,
        "support_timeout": True,
        "direct_meters": None,
        "action_ids": [0, 1, 2],
        "actions": ["mark", "mark_more", "nothing"],
        "base_default_next": "arrays",
        "next_tables": {"mark": "arrays", "mark_more": "arrays", "nothing": "arrays"},
    }
    if layout.profile:
        table["action_profile"] = "p"
    else:
        table["default_entry"] = {"action_id": 2, "action_const": False, "action_data": [], "action_entry_const": False}
    return table


def _key(key: Key) -> Json:
    mask = None if key.mask is None else hex(key.mask)
    return {"match_type": key.kind, "name": f"h.{key.name}", "target": ["h", key.name], "mask": mask}


def _arrays_table() -> Json:
    return {
        "name": "arrays",
        "id": 1,
        "key": [],
        "match_type": "exact",
        "type": "simple",
        "max_size": 1024,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [3],
        "actions": ["touch"],
        "base_default_next": None,
        "next_tables": {"touch": None},
        "default_entry": {"action_id": 3, "action_const": True, "action_data": [], "action_entry_const": True},
    }


def _profile(layout: Layout) -> Json:
    profile: Json = {"name": "p", "id": 0, "max_size": min(layout.size, 64)}
    if layout.profile == "selector":
        profile["selector"] = {"algo": "identity", "input": [_field("h", "member")]}
    return profile
