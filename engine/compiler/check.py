# SPDX-License-Identifier: Apache-2.0
"""What must hold of a program before code is made of it.

The document may come from anybody who may set a pipeline. What p4c writes is consistent; what is not would become
code that leaves its memory or does not end, so it is refused here, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from detour.engine.compiler.model import Header, Json, Model, PipelineIr, TableIr, find, refuse

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
    """A width in bits."""
    if type(bits) is not int or not 1 <= bits <= MAX_FIELD_BITS:
        raise refuse(f"{what} has {bits!r} bits; 1 to {MAX_FIELD_BITS} are possible", at)
    return int(bits)


def check_bytes(bits: int, what: str, at: Json) -> int:
    """The greatest width of a variable-length field."""
    if bits < 8 or bits % 8 or bits > 8 * MAX_HEADER_BYTES:
        raise refuse(f"{what} has up to {bits} bits, which is no possible number of bytes", at)
    return bits


def check_size(size: Json, what: str, at: Json) -> int:
    """A number of elements."""
    if not 0 <= size <= _MAX_SIZE:
        raise refuse(f"{what} has {size} elements", at)
    return int(size)


def check(model: Model) -> None:
    """Raises DetourError naming the first thing that cannot be."""
    _check_headers(model)
    _check_stacks(model)
    for table in model.tables.values():
        _check_table(table)
    for pipeline in model.pipelines.values():
        _check_nodes(model, pipeline)
        _check_ends(pipeline)
    for kind in ("field_lists", "learn_lists"):
        _check_ids(kind, model.json.get(kind) or [])
    for v in model.value_sets.values():
        check_width(v["compressed_bitwidth"], f"value set '{v['name']}'", v)
        check_size(v.get("max_size") or 0, f"value set '{v['name']}'", v)
    for table in model.tables.values():
        _check_direct_meter(model, table)
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
    """Elements lie side by side in the PHV, so each is in one stack, and they are alike."""
    used: set[str] = set()
    for stack in model.stacks.values():
        if not stack.headers or any(h.type is not stack.type for h in stack.headers):
            raise refuse(f"header stack '{stack.name}' has other headers than those of its type")
        _check_members(f"header stack '{stack.name}'", stack.headers, used)
    for union in model.unions.values():
        if len(union.members) != len(union.headers) or not union.headers:
            raise refuse(f"header union '{union.name}' does not have the members of its type")
    for ustack in model.union_stacks.values():
        types = [tuple(h.type.name for h in u.headers) for u in ustack.unions]
        if not types or any(t != types[0] for t in types):
            raise refuse(f"the unions of the stack '{ustack.name}' are not alike")
        for union in ustack.unions:
            _check_members(f"stack of header unions '{ustack.name}'", union.headers, used)


def _check_members(what: str, headers: Sequence[Header], used: set[str]) -> None:
    for h in headers:
        if h.metadata or h.name in used:
            raise refuse(f"{what}: header '{h.name}' is metadata or in a stack already")
        used.add(h.name)


def _check_table(table: TableIr) -> None:
    kinds = [f.match_type for f in table.key]
    strongest = next((k for k in ("range", "ternary", "lpm") if k in kinds), "exact")
    if table.match_type != strongest or (strongest == "lpm" and kinds.count("lpm") > 1):
        raise refuse(f"table '{table.name}' is {table.match_type}, its key is {', '.join(kinds)}", table.json)
    if table.default and table.default.action.name not in {a.name for a in table.actions}:
        raise refuse(f"the default action of table '{table.name}' is not one of its actions", table.json)
    check_size(table.max_size, f"table '{table.name}'", table.json)


def _check_direct_meter(model: Model, table: TableIr) -> None:
    if table.direct_meter:
        meter = find(model.meters, table.direct_meter, "meter", table.json)
        if meter.target is None:
            raise refuse(f"the direct meter of table '{table.name}' has no field for its result", table.json)


def _check_ids(kind: str, items: list[Json]) -> None:
    ids = [item["id"] for item in items]
    if any(type(i) is not int for i in ids) or len(set(ids)) < len(ids):
        raise refuse(f"the ids of {kind} are not different numbers: {ids}")


def _check_state(model: Model) -> None:
    """Arrays are allocated at once; a program must not take all memory of the machine."""
    need = sum(a.size * _COUNTER_BYTES for a in model.counters.values() if not a.direct)
    need += sum(a.size * _METER_BYTES for a in model.meters.values() if not a.direct)
    need += sum(a.size * ((a.bits + 63) // 64 * 8) for a in model.registers.values())
    if need > _MAX_STATE_BYTES:
        raise refuse(f"its arrays take {need >> 20} MiB, the limit is {_MAX_STATE_BYTES >> 20} MiB")


# -- the graph of a pipeline


def _check_nodes(model: Model, pipeline: PipelineIr) -> None:
    """A name means one thing; tables have their memory by name, whatever pipeline they are in."""
    names = [*pipeline.tables, *pipeline.conditionals, *pipeline.calls]
    for name, table in pipeline.tables.items():
        if names.count(name) > 1 or model.tables[name] is not table:
            raise refuse(f"there are two tables or conditions with the name '{name}'", table.json)


def _check_ends(pipeline: PipelineIr) -> None:
    """BMv2 would follow a cycle for ever."""
    edges = {name: tuple(_followers(t.json)) for name, t in pipeline.tables.items()}
    edges |= {name: (c.get("true_next"), c.get("false_next")) for name, c in pipeline.conditionals.items()}
    edges |= {name: (c.get("next_node"),) for name, c in pipeline.calls.items()}
    done: set[str] = set()
    for start in edges:
        cycle = _cycle(edges, start, done)
        if cycle is not None:
            raise refuse(f"control flow of pipeline '{pipeline.name}' comes back to '{cycle}'")


def _followers(table: Json) -> Iterator[str | None]:
    yield from table["next_tables"].values()
    yield table.get("base_default_next")


def _cycle(edges: dict[str, tuple[str | None, ...]], start: str, done: set[str]) -> str | None:
    """A node that can be reached from itself by way of `start`; `done` are nodes from which none can."""
    if start in done:
        return None
    above = {start: iter(edges[start])}  # the way from `start`, in order, with what is left to try
    while above:
        node, rest = next(reversed(above.items()))
        following = next((n for n in rest if n in edges and n not in done), None)
        if following is None:
            done.add(node)
            del above[node]
        elif following in above:
            return following
        else:
            above[following] = iter(edges[following])
    return None
