# SPDX-License-Identifier: Apache-2.0
"""Builds the `Model` from BMv2 JSON and refuses what is malformed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from detour.engine.compiler.model import (
    MAX_PRIORITY,
    ActionCall,
    ActionIr,
    ActionProfileIr,
    Array,
    ConstEntry,
    FieldSpec,
    Header,
    HeaderType,
    Json,
    KeyField,
    Model,
    Param,
    PipelineIr,
    Selector,
    Stack,
    TableIr,
    Union,
    check_bytes,
    check_size,
    check_width,
    find,
    parse_hex,
    refuse,
)
from detour.engine.compiler.older import in_present_form
from detour.engine.compiler.portable import architecture_of, as_v1model
from detour.engine.compiler.shape import check_shape

T = TypeVar("T")
_MAX_STATE_BYTES = 1 << 30
_COUNTER_BYTES, _METER_BYTES = 16, 80
_CORE_ERRORS = (
    *("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds"),
    *("HeaderTooShort", "ParserTimeout", "ParserInvalidArgument"),
)
_MATCH_TYPES = ("exact", "lpm", "ternary", "range")
_LISTS = ("elements", "input", "transition_key")
_ASSIGNMENTS = ("assign", "modify_field")
_ZERO = {"type": "hexstr", "value": "0x0"}


def load(source: Json) -> Model:
    """The model of a BMv2 JSON document. Raises `DetourError` naming what is missing or malformed."""
    source = in_present_form(source)
    check_shape(source)
    model = _Loader(_without_empty_fields(as_v1model(source)), architecture_of(source)).model()
    _check(model)
    return model


class _Loader:
    def __init__(self, source: Json, architecture: str) -> None:
        self.json, self.architecture = source, architecture
        self.table_count = 0
        version = (source.get("__meta__") or {}).get("version") or [2, 0]
        if version[0] != 2:
            raise refuse(f"BMv2 JSON version {version[0]}.{version[1]}; version 2 is what p4c-bm2-ss writes")
        for extern in source.get("extern_instances") or []:
            raise refuse(f"extern '{extern['name']}' of type '{extern['type']}' is not part of v1model", extern)

    def model(self) -> Model:
        source = self.json
        self.types = _each("header type", source["header_types"], _header_type)
        self.by_id: dict[int, Header] = {}
        self.headers = _each("header", source["headers"], self._header)
        self.unions: dict[int, Union] = {}
        unions = _each("header union", source.get("header_unions"), self._union)
        negative = _negative_arguments(source)
        self.actions = [_action(a, index, negative) for index, a in enumerate(source["actions"])]
        self.by_action_id = {a.id: a for a in self.actions}
        self.by_action_name = {a.name: a for a in reversed(self.actions)}
        self.profiles = self._profiles()
        pipelines = _each("pipeline", source["pipelines"], self._pipeline)
        for name in ("ingress", "egress"):
            pipelines.setdefault(name, PipelineIr(name, None, {}, {}, {}))
        return Model(
            json=source,
            architecture=self.architecture,
            headers=self.headers,
            stacks=_each("header stack", source.get("header_stacks"), self._stack),
            unions=unions,
            union_stacks=_each("stack of header unions", source.get("header_union_stacks"), self._union_stack),
            errors=_errors(source.get("errors") or []),
            actions=self.actions,
            pipelines=pipelines,
            tables={t.name: t for p in pipelines.values() for t in p.tables.values()},
            profiles=self.profiles,
            counters=_arrays("counter", source.get("counter_arrays")),
            meters=_arrays("meter", source.get("meter_arrays")),
            registers=_arrays("register", source.get("register_arrays")),
            calculations=_each("calculation", source.get("calculations")),
            value_sets=_each("value set", source.get("parse_vsets")),
        )

    def _header(self, h: Json) -> Header:
        header = Header(h["name"], self._type(h), bool(h["metadata"]))
        if h["id"] in self.by_id:
            raise refuse(f"header '{header.name}' has the id of another one: {h['id']}", h)
        self.by_id[h["id"]] = header
        return header

    def _type(self, item: Json) -> HeaderType:
        """The header type that a header or stack names."""
        kind = self.types.get(item["header_type"])
        if kind is None:
            raise refuse(f"'{item['name']}' has the type '{item['header_type']}', which is not a header type", item)
        return kind

    def _union(self, u: Json) -> Union:
        members = {t["name"]: tuple(h[0] for h in t["headers"]) for t in self.json.get("header_union_types") or []}
        names = find(members, u["union_type"], "header union type", u)
        union = Union(u["name"], names, tuple(find(self.by_id, i, "header", u) for i in u["header_ids"]))
        if len(names) != len(union.headers) or not names:
            raise refuse(f"header union '{union.name}' does not have the members of its type")
        for header in union.headers:
            if header.union is not None or header.metadata:
                raise refuse(f"header '{header.name}' is in two unions, or is metadata", u)
            header.union = union
        self.unions[u["id"]] = union
        return union

    def _stack(self, s: Json) -> Stack:
        kind, headers = self._type(s), tuple(find(self.by_id, i, "header", s) for i in s["header_ids"])
        if not headers or any(h.type is not kind for h in headers):
            raise refuse(f"header stack '{s['name']}' has other headers than those of its type")
        return Stack(s["name"], tuple((h,) for h in headers))

    def _union_stack(self, s: Json) -> Stack:
        unions = tuple(find(self.unions, i, "header union", s) for i in s["header_union_ids"])
        types = [tuple(h.type.name for h in u.headers) for u in unions]
        if not types or any(t != types[0] for t in types):
            raise refuse(f"the unions of the stack '{s['name']}' differ")
        return Stack(s["name"], tuple(u.headers for u in unions), unions[0].members)

    def _profiles(self) -> dict[str, ActionProfileIr]:
        profiles: dict[str, ActionProfileIr] = {}
        for pipeline in self.json["pipelines"]:
            for p in pipeline.get("action_profiles") or []:
                s = p.get("selector")
                selector = Selector(s["algo"], s["input"]) if s else None
                size = check_size(p["max_size"], f"action profile '{p['name']}'", p)
                profiles[p["name"]] = ActionProfileIr(p["name"], len(profiles), size, selector)
        return profiles

    def _pipeline(self, p: Json) -> PipelineIr:
        tables = _each("table", p.get("tables"), self._table)
        conditionals = _each("condition", p.get("conditionals"))
        calls = _each("call of an action", p.get("action_calls"))
        return PipelineIr(p["name"], p.get("init_table"), tables, conditionals, calls)

    def _table(self, t: Json) -> TableIr:
        if t["type"] not in ("simple", "indirect", "indirect_ws"):
            raise refuse(f"table '{t['name']}' has the unknown type '{t['type']}'", t)
        self.table_count += 1
        if t.get("action_ids") is not None:
            actions = tuple(find(self.by_action_id, i, "action", t) for i in t["action_ids"])
        else:
            actions = tuple(find(self.by_action_name, n, "action", t) for n in t.get("actions") or ())
        profile = None
        if t["type"] != "simple":
            profile = find(self.profiles, t.get("action_profile"), "action profile", t)
        if profile:
            profile.actions.update({a.index: a for a in actions})
        key = tuple(self._key_field(k, t) for k in t["key"])
        default, entries = t.get("default_entry"), t.get("entries")
        return TableIr(
            name=t["name"],
            index=self.table_count - 1,
            match_type=t["match_type"],
            key=key,
            actions=actions,
            max_size=len(entries) if entries is not None else t["max_size"] if t.get("max_size") is not None else 1024,
            with_counters=bool(t.get("with_counters")),
            support_timeout=bool(t.get("support_timeout")),
            profile=profile,
            direct_meter=t.get("direct_meters"),
            default=self._call(default) if default else None,
            default_const=bool(default and default.get("action_entry_const")),
            default_action_const=bool(default and default.get("action_const")),
            entries=tuple(self._entry(e, key) for e in entries) if entries is not None else None,
            json=t,
        )

    def _key_field(self, k: Json, table: Json) -> KeyField:
        match_type, target = k["match_type"], k["target"]
        if match_type == "valid":
            return KeyField(k.get("name") or target, "exact", target, "$valid$", 1)
        if not (isinstance(target, list) and len(target) == 2 and all(isinstance(t, str) for t in target)):
            raise refuse(f"key '{k.get('name')}' of table '{table['name']}' is computed at run time", table)
        if match_type not in _MATCH_TYPES:
            raise refuse(f"match kind '{match_type}' in table '{table['name']}'", table)
        name = k.get("name") or ".".join(target)
        mask = parse_hex(k["mask"]) if k.get("mask") is not None else None
        if target[1] == "$valid$":
            return KeyField(name, match_type, target[0], target[1], 1, mask)
        if target[0] not in self.headers:
            raise refuse(f"there is no header '{target[0]}'", table)
        spec = find_field(self.headers[target[0]], target[1], table)
        return KeyField(name, match_type, target[0], target[1], spec.bits, mask)

    def _call(self, entry: Json) -> ActionCall:
        action = find(self.by_action_id, entry["action_id"], "action", entry)
        args = tuple(parse_hex(d) for d in entry["action_data"])
        if len(args) != len(action.params):
            raise refuse(f"action '{action.name}' takes {len(action.params)} arguments, not {len(args)}", entry)
        return ActionCall(action, args)

    def _entry(self, e: Json, key: tuple[KeyField, ...]) -> ConstEntry:
        if len(e["match_key"]) != len(key):
            raise refuse(f"an entry has {len(e['match_key'])} values for a key of {len(key)} fields", e)
        values = tuple(_match(m, f) for m, f in zip(e["match_key"], key, strict=True))
        priority = MAX_PRIORITY - (e.get("priority") or 0)
        return ConstEntry(values, self._call(e["action_entry"]), priority)


def _each(what: str, items: Iterable[Json] | None, make: Callable[[Json], T] = lambda item: item) -> dict[str, T]:
    """Return the results of `make` for each item, by name."""
    objects: dict[str, T] = {}
    for item in items or ():
        name = item["name"]
        if name in objects:
            raise refuse(f"two of the kind {what} have the name '{name}'", item)
        objects[name] = make(item)
    return objects


def _action(a: Json, index: int, negative: set[tuple[int, int]]) -> ActionIr:
    params, offset = [], 0
    for i, p in enumerate(a["runtime_data"]):
        signed = (a["id"], i) in negative
        bits = check_width(p["bitwidth"], f"parameter '{p['name']}' of action '{a['name']}'", a)
        words = (bits + signed + 63) // 64
        params.append(Param(p["name"], bits, offset, words, signed))
        offset += words
    return ActionIr(a["name"], a["id"], index, tuple(params), offset, a)


def find_field(header: Header, name: str, at: Json = None) -> FieldSpec:
    for spec in header.type.fields:
        if spec.name == name:
            return spec
    raise refuse(f"header '{header.name}' has no field '{name}'", at)


def _match(m: Json, f: KeyField) -> Any:
    """A component of a const entry's key as the tables take it; bits beyond the width are cut as in BMv2."""
    full = (1 << f.bits) - 1
    if m["match_type"] != f.match_type and (m["match_type"], f.match_type) != ("valid", "exact"):
        raise refuse(f"an entry matches '{f.name}' as {m['match_type']}, its table as {f.match_type}", m)
    match m["match_type"]:
        case "exact":
            return parse_hex(m["key"]) & full
        case "valid":
            return int(bool(m["key"]))
        case "lpm":
            if not 0 <= m["prefix_length"] <= f.bits:
                raise refuse(f"an entry has a prefix of {m['prefix_length']} bits of '{f.name}', which has {f.bits}", m)
            return (parse_hex(m["key"]) & full, m["prefix_length"])
        case "ternary":
            return (parse_hex(m["key"]) & full, parse_hex(m["mask"]) & full)
        case "range":
            return (parse_hex(m["start"]) & full, parse_hex(m["end"]) & full)
    raise AssertionError("the shape was checked")


def _negative_arguments(source: Json) -> set[tuple[int, int]]:
    """(action id, parameter) for which the program itself gives a negative constant."""
    negative: set[tuple[int, int]] = set()
    for pipeline in source["pipelines"]:
        for t in pipeline.get("tables") or []:
            calls = [e["action_entry"] for e in t.get("entries") or []]
            if t.get("default_entry"):
                calls.append(t["default_entry"])
            for c in calls:
                negative.update((c["action_id"], i) for i, d in enumerate(c["action_data"]) if d.startswith("-"))
    return negative


def _header_type(t: Json) -> HeaderType:
    fields = []
    for f in t["fields"]:
        signed = bool(f[2]) if len(f) > 2 else False
        saturating = bool(f[3]) if len(f) > 3 else False
        what = f"field '{f[0]}' of header type '{t['name']}'"
        if f[1] == "*":
            fixed = sum(check_width(g[1], what, t) for g in t["fields"] if g[1] != "*")
            fields.append(FieldSpec(f[0], check_bytes((t.get("max_length") or 0) * 8 - fixed, what, t), variable=True))
        else:
            fields.append(FieldSpec(f[0], check_width(f[1], what, t), signed, saturating))
    if sum(f.variable for f in fields) > 1:
        raise refuse(f"header type '{t['name']}' has two variable-length fields", t)
    return HeaderType(t["name"], tuple(fields))


def _errors(pairs: Iterable[Any]) -> dict[str, int]:
    """Error codes; core errors that the program does not declare get numbers of their own, as in BMv2."""
    errors = dict(pairs)
    free = (n for n in range(len(errors) + len(_CORE_ERRORS) + 1) if n not in set(errors.values()))
    for name in _CORE_ERRORS:
        if name not in errors:
            errors[name] = next(free)
    return errors


def _arrays(what: str, items: Iterable[Json] | None) -> dict[str, Array]:
    def array(a: Json) -> Array:
        target = a.get("result_target")
        if a.get("type") not in (None, "packets", "bytes"):
            raise refuse(f"meter '{a['name']}' has the unknown type '{a['type']}'", a)
        return Array(
            name=a["name"],
            size=check_size(a.get("size") or 0, f"{what} '{a['name']}'", a),
            direct=bool(a.get("is_direct")),
            bits=check_width(a.get("bitwidth"), f"{what} '{a['name']}'", a) if what == "register" else 0,
            unit=a.get("type") or "",
            rates=a.get("rate_count") or 2,
            table=a.get("binding"),
            target=(target[0], target[1]) if target else None,
        )

    return _each(what, items, array)


# -- `bit<0>`: a field without bits is always 0 and takes no place in a packet; p4c keeps it in its JSON


def _without_empty_fields(source: Json) -> Json:
    """The same program without its fields of 0 bits; itself if it has none. Raises DetourError if it uses one where a
    constant cannot stand: in the key of a table, or by a number."""
    empty = {(kind["name"], f[0]) for kind in source["header_types"] for f in kind["fields"] if f[1] == 0}
    if not empty:
        return source
    named = [each for kind in ("headers", "header_stacks") for each in source.get(kind) or []]
    gone = {(each["name"], f) for each in named for kind, f in empty if kind == each["header_type"]}
    kinds = [{**k, "fields": [f for f in k["fields"] if f[1] != 0]} for k in source["header_types"]]
    return {**_rewritten(source, gone), "header_types": kinds}


def _rewritten(node: Any, gone: set[tuple[str, str]]) -> Any:
    if isinstance(node, list):
        return [_rewritten(each, gone) for each in node if not _is_set(each, "set", gone)]
    if not isinstance(node, dict):
        return node
    if _is_gone(node, gone):
        return _ZERO
    if node.get("op") == "access_field":
        raise refuse("a field is named by its number in a program with fields of 0 bits", node)
    if any(_is_set(node, op, gone) for op in _ASSIGNMENTS):
        return {"op": "no_op", "parameters": []}  # jumps count primitives
    if "match_type" in node and isinstance(node.get("target"), list) and tuple(node["target"]) in gone:
        raise refuse(f"table key '{'.'.join(node['target'])}' has 0 bits", node)
    return {
        key: _rewritten([e for e in value if key not in _LISTS or not _is_gone(e, gone)], gone)
        if isinstance(value, list)
        else _rewritten(value, gone)
        for key, value in node.items()
    }


def _is_gone(node: Any, gone: set[tuple[str, str]]) -> bool:
    kind = node.get("type") if isinstance(node, dict) else None
    return kind in ("field", "stack_field") and tuple(node["value"]) in gone


def _is_set(node: Any, op: str, gone: set[tuple[str, str]]) -> bool:
    """Return whether it assigns to such a field; `set` is the parser's."""
    return isinstance(node, dict) and node.get("op") == op and any(_is_gone(e, gone) for e in node["parameters"][:1])


# -- what must hold of a program before code is made of it


def _check(model: Model) -> None:
    """The document may come from anybody who may set a pipeline. What p4c writes is consistent; what is not would be
    code that leaves its memory or does not end, so it is refused here, by name."""
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
            raise refuse(f"header '{h.name}' has {h.type.bits} bits, which are not whole bytes")
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
