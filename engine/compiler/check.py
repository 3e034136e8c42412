# SPDX-License-Identifier: Apache-2.0
"""What must hold of a program before code is made of it.

The document may come from anybody who may set a pipeline. What p4c writes is consistent; what is not would become
code that leaves its memory or does not end, so it is refused here, by name.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from detour.engine.compiler.model import Json, Model, PipelineIr, TableIr, find, refuse

MAX_FIELD_BITS = 2048
"""Widest field, parameter or register: p4c's own limit for BMv2."""
MAX_PHV_BYTES = 1 << 16
"""Largest PHV; the loop has one for every packet in flight."""
MAX_HEADER_BYTES = 1 << 16
"""Most bytes that a deparser or a digest may write: the loop's scratch memory has no more (`loop/layout.py`)."""
_MAX_STATE_BYTES = 1 << 30
_COUNTER_BYTES, _METER_BYTES = 16, 80
_MAX_SIZE = (1 << 31) - 1


def check_width(bits: Json, what: str, at: Json) -> int:
    if type(bits) is not int or not 1 <= bits <= MAX_FIELD_BITS:
        raise refuse(f"{what} has {bits!r} bits; 1 to {MAX_FIELD_BITS} are possible", at)
    return int(bits)


def check_bytes(bits: int, what: str, at: Json) -> int:
    if bits < 8 or bits % 8 or bits > 8 * MAX_HEADER_BYTES:
        raise refuse(f"{what} has up to {bits} bits, which is no possible number of bytes", at)
    return bits


def check_size(size: Json, what: str, at: Json) -> int:
    if not 0 <= size <= _MAX_SIZE:
        raise refuse(f"{what} has {size} elements", at)
    return int(size)


def check(model: Model) -> None:
    """Raises DetourError naming the first thing that cannot be."""
    _check_headers(model)
    _check_stacks(model)
    for table in model.tables.values():
        _check_table(model, table)
    for pipeline in model.pipelines.values():
        _check_graph(model, pipeline)
    for kind in ("field_lists", "learn_lists"):
        ids = [item["id"] for item in model.json.get(kind) or []]
        if any(type(i) is not int for i in ids) or len(set(ids)) < len(ids):
            raise refuse(f"the ids of {kind} are not different numbers: {ids}")
    for v in model.value_sets.values():
        check_width(v["compressed_bitwidth"], f"value set '{v['name']}'", v)
        check_size(v.get("max_size") or 0, f"value set '{v['name']}'", v)
    _check_state(model)


def _check_headers(model: Model) -> None:
    for h in model.headers.values():
        if h.name == "standard_metadata" and not h.metadata:
            raise refuse("standard_metadata is a header, not metadata")
        if not h.metadata and h.type.bits % 8:
            raise refuse(f"header '{h.name}' has {h.type.bits} bits, which are no whole bytes")
    for name, code in model.errors.items():
        check_size(code, f"error '{name}'", None)


def _check_stacks(model: Model) -> None:
    """Elements lie side by side in the PHV, so each is in one stack."""
    used: set[str] = set()
    for what, stacks in (("header stack", model.stacks), ("stack of header unions", model.union_stacks)):
        for stack in stacks.values():
            for h in stack.headers:
                if h.metadata or h.name in used:
                    raise refuse(f"{what} '{stack.name}': header '{h.name}' is metadata or in a stack already")
                used.add(h.name)


def _check_table(model: Model, table: TableIr) -> None:
    kinds = [f.match_type for f in table.key]
    strongest = next((k for k in ("range", "ternary", "lpm") if k in kinds), "exact")
    if table.match_type != strongest or (strongest == "lpm" and kinds.count("lpm") > 1):
        raise refuse(f"table '{table.name}' is {table.match_type}, its key is {', '.join(kinds)}", table.json)
    if table.default and table.default.action.name not in {a.name for a in table.actions}:
        raise refuse(f"the default action of table '{table.name}' is not one of its actions", table.json)
    check_size(table.max_size, f"table '{table.name}'", table.json)
    if table.direct_meter and find(model.meters, table.direct_meter, "meter", table.json).target is None:
        raise refuse(f"the direct meter of table '{table.name}' has no field for its result", table.json)


def _check_state(model: Model) -> None:
    """Arrays are allocated at once; a program must not take all memory of the machine."""
    need = sum(a.size * _COUNTER_BYTES for a in model.counters.values() if not a.direct)
    need += sum(a.size * _METER_BYTES for a in model.meters.values() if not a.direct)
    need += sum(a.size * ((a.bits + 63) // 64 * 8) for a in model.registers.values())
    if need > _MAX_STATE_BYTES:
        raise refuse(f"its arrays take {need >> 20} MiB, the limit is {_MAX_STATE_BYTES >> 20} MiB")


def _check_graph(model: Model, pipeline: PipelineIr) -> None:
    """A name means one thing, since tables have their memory by name whatever pipeline they are in; and control flow
    ends: BMv2 would follow a cycle for ever."""
    names = [*pipeline.tables, *pipeline.conditionals, *pipeline.calls]
    for name, table in pipeline.tables.items():
        if names.count(name) > 1 or model.tables[name] is not table:
            raise refuse(f"there are two tables or conditions with the name '{name}'", table.json)
    edges = {n: (*t.json["next_tables"].values(), t.json.get("base_default_next")) for n, t in pipeline.tables.items()}
    edges |= {n: (c.get("true_next"), c.get("false_next")) for n, c in pipeline.conditionals.items()}
    edges |= {n: (c.get("next_node"),) for n, c in pipeline.calls.items()}
    try:
        TopologicalSorter({n: [f for f in following if f] for n, following in edges.items()}).prepare()
    except CycleError as e:
        raise refuse(f"control flow of pipeline '{pipeline.name}' comes back to '{e.args[1][0]}'") from None
