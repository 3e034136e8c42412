# SPDX-License-Identifier: Apache-2.0
"""Graphs of blocks as BMv2 has them: actions with jumps, pipelines of tables and conditions, states of parsers."""

from __future__ import annotations

from pathlib import PurePath

from detour.p4 import ir
from detour.p4.bmv2.values import Json, call, expression, hexadecimal, placed, plain
from detour.p4.ir import Block, Call
from detour.p4.lower import operators
from detour.p4.lower.builder import simplify, sorted_blocks
from detour.p4.lower.places import Storage
from detour.p4.lower.tables import DEFAULT_SIZE
from detour.p4.messages import CompileError, Message
from detour.p4.source import NOWHERE, Span
from detour.p4.types import BOOL

# ---------------------------------------------------------------- actions


def action(each: ir.Action) -> Json:
    data = [{"name": name, "bitwidth": bits} for name, bits in each.parameters]
    item = {"name": each.name, "id": each.number, "runtime_data": data, "primitives": primitives(each.body)}
    return placed(item, each.span)


def primitives(entry: Block) -> list[Json]:
    """The calls of a graph in one list. A condition that does not hold jumps, so does a block whose follower stands
    elsewhere; positions are known when all calls are in the list.
    """
    simplify(entry)
    order = sorted_blocks(entry, cycles=True)
    starts: dict[Block, int] = {}
    calls: list[Call] = []
    jumps: list[tuple[int, Block | None]] = []
    for block, following in zip(order, [*order[1:], None], strict=True):
        starts[block] = len(calls)
        calls += block.calls
        for test, target in _jumps(block.end, following):
            jumps.append((len(calls), target))
            calls.append(Call("_jump_if_zero", (test,), block.end.span) if test else Call("_jump", (), block.end.span))
    for position, target in jumps:
        to = len(calls) if target is None else starts[target]
        calls[position].arguments = (*calls[position].arguments, ir.Const(to))
    return [call(each) for each in calls]


def _jumps(end: ir.End, following: Block | None) -> list[tuple[ir.Value | None, Block | None]]:
    """Tests and targets of the jumps at the end of a block; None as target: the end of the action."""
    if isinstance(end, ir.Branch):
        jumps: list[tuple[ir.Value | None, Block | None]] = []
        if end.yes is following:
            return [(operators.as_data(end.condition), end.no)]
        if end.no is following:
            return [(operators.as_data(operators.invert(end.condition)), end.yes)]
        jumps.append((operators.as_data(end.condition), end.no))
        return [*jumps, (None, end.yes)]
    target = end.target if isinstance(end, ir.Goto) else None
    return [] if target is following else [(None, target)]


# ---------------------------------------------------------------- pipelines


class PipelineWriter:
    """Nodes of a control. Calls outside of actions get an action and a table that nobody else sees, as p4c does."""

    def __init__(self, program: ir.Program, ids: dict[str, int], names: dict[str, int]) -> None:
        self.program = program
        self.ids = ids
        self.names = names
        self.tables: list[Json] = []
        self.conditionals: list[Json] = []
        self.at: dict[Block, str | None] = {}
        self.by_table: dict[ir.Table, Json] = {}

    def write(self, pipeline: ir.Pipeline, number: int) -> Json:
        simplify(pipeline.entry)
        order = self._sorted(pipeline.entry)
        for block in reversed(order):
            self.at[block] = self._block(block)
        self.tables.reverse()
        unreached = [table for table in pipeline.tables if table not in self.by_table]
        self.tables += [_table(table, dict.fromkeys(each.name for each in table.actions), None) for table in unreached]
        self.conditionals.reverse()
        for kind, nodes in (("table", self.tables), ("conditional", self.conditionals)):
            for node in nodes:
                node["id"] = self.ids.setdefault(kind, 0)
                self.ids[kind] += 1
        item = {
            "name": pipeline.name,
            "id": number,
            "init_table": self.at[pipeline.entry],
            "tables": self.tables,
            "action_profiles": plain(pipeline.profiles),
            "conditionals": self.conditionals,
        }
        return placed(item, pipeline.span)

    @staticmethod
    def _sorted(entry: Block) -> list[Block]:
        try:
            order = sorted_blocks(entry)
        except ValueError as error:
            raise AssertionError("a control has a cycle") from error
        return order

    def _block(self, block: Block) -> str | None:
        """The name of the first node of a block, with those that follow."""
        name = self._end(block.end)
        if not block.calls:
            return name
        span = next((each.span for each in block.calls if each.span.file.name), NOWHERE)
        body = Block(calls=block.calls)
        made = ir.Action(self.unique(_place_name(span)), NOWHERE, (), body, len(self.program.actions))
        self.program.actions.append(made)
        return self._statement(made, name, span)

    def unique(self, name: str) -> str:
        number = self.names.get(name)
        self.names[name] = 0 if number is None else number + 1
        return name if number is None else f"{name}_{number}"

    def _statement(self, made: ir.Action, following: str | None, span: Span) -> str:
        made.name = made.name or self.unique(_place_name(span))
        table = ir.Table(
            self.unique(f"tbl_{made.name.rpartition('.')[2]}"),
            span,
            [],
            [made],
            ir.Use(made, ()),
            True,
            None,
            DEFAULT_SIZE,
        )
        self.tables.append(_table(table, {made.name: following}, following))
        return table.name

    def _end(self, end: ir.End) -> str | None:
        match end:
            case ir.Goto():
                return self.at[end.target]
            case ir.Branch():
                name = self.unique("node")
                node = {
                    "name": name,
                    "id": 0,
                    "expression": expression(end.condition),
                    "true_next": self.at[end.yes],
                    "false_next": self.at[end.no],
                }
                self.conditionals.append(placed(node, end.span))
                return name
            case ir.Invoke():
                return self._statement(end.action, self.at[end.target], end.span)
            case ir.ApplyTable():
                return self._apply(end)
        return None

    def _apply(self, end: ir.ApplyTable) -> str:
        table = end.table
        following: dict[str, str | None]
        if end.hit and end.miss:
            following = {"__HIT__": self.at[end.hit], "__MISS__": self.at[end.miss]}
        else:
            targets = zip(table.actions, end.by_action, strict=True)
            following = {each.name: self.at[target] for each, target in targets}
        same = len(set(following.values())) == 1 and "__HIT__" not in following
        item = _table(table, following, next(iter(following.values())) if same else None)
        known = self.by_table.get(table)
        if known is not None and self._leads_to(table.name, list(following.values())):
            text = f"table {table.name} is applied twice on one path"
            raise CompileError(Message(text, table.span, "BMv2 looks a table up once: declare a second table"))
        if known is not None and known["next_tables"] != following:
            text = f"table {table.name} is applied at two places that go on differently"
            raise CompileError(Message(text, table.span, "BMv2 has one follower of a table: declare a second table"))
        if known is None:
            self.by_table[table] = item
            self.tables.append(item)
        return table.name

    def _leads_to(self, table: str, names: list[str | None]) -> bool:
        """Whether control comes from one of these nodes to a table."""
        followers = {node["name"]: list(node["next_tables"].values()) for node in self.tables}
        followers |= {node["name"]: [node["true_next"], node["false_next"]] for node in self.conditionals}
        pending, visited = list(names), set()
        while pending:
            name = pending.pop()
            if name == table:
                return True
            if name is not None and name not in visited:
                visited.add(name)
                pending += followers.get(name, [])
        return False


def _place_name(span: Span) -> str:
    """The name of statements between tables: file and line."""
    stem = PurePath(span.file.name).stem if span.file.name else "statement"
    clean = "".join(char if char.isalnum() or char == "_" else "" for char in stem)
    between = "l" if clean[-1:].isdigit() else ""
    return f"{clean}{between}{span.line}" if span.file.name else clean


def _table(table: ir.Table, following: dict[str, str | None], base: str | None) -> Json:
    kinds = [key.kind for key in table.keys]
    item: dict[str, Json] = {"name": table.name, "id": 0}
    placed(item, table.span)
    item |= {
        "key": [_key(key) for key in table.keys if key.kind != "selector"],
        "match_type": _match_type(kinds),
        "type": table.kind,
        "max_size": table.size,
        "with_counters": table.with_counters,
        "support_timeout": table.timeouts,
        "direct_meters": table.direct_meter,
        "action_ids": [each.number for each in table.actions],
        "actions": [each.name for each in table.actions],
        "base_default_next": base,
        "next_tables": following,
    }
    if table.profile is not None:
        item["action_profile"] = table.profile
    if table.default is not None and table.kind == "simple":
        item["default_entry"] = {
            "action_id": table.default.action.number,
            "action_const": table.default_is_constant,
            "action_data": _data(table.default),
            "action_entry_const": table.default_is_constant,
        }
    if table.entries is not None:
        item["entries"] = [_entry(each) for each in table.entries]
    return item


def _data(use: ir.Use) -> list[str]:
    return [f"0x{number:x}" for number in use.data]


def _entry(entry: ir.Entry) -> Json:
    used = {"action_id": entry.use.action.number, "action_data": _data(entry.use)}
    return placed({"match_key": entry.match, "action_entry": used, "priority": entry.priority}, entry.span)


def _match_type(kinds: list[str]) -> str:
    if "range" in kinds:
        return "range"
    if "ternary" in kinds or "optional" in kinds:
        return "ternary"
    return "lpm" if "lpm" in kinds else "exact"


def _key(key: ir.Key) -> Json:
    return {
        "match_type": "ternary" if key.kind == "optional" else key.kind,
        "name": key.name,
        "target": [key.target.header, key.target.name],
        "mask": None if key.mask is None else hexadecimal(key.mask, key.width),
    }


# ---------------------------------------------------------------- parsers


_OPERATIONS = frozenset(("extract", "extract_VL", "verify", "advance"))


def parser(graph: ir.ParserGraph, number: int, first_state: int, storage: Storage) -> Json:
    order = simplify(graph.entry)
    names: dict[Block, str] = {}
    for block in order:
        wanted = block.name or ("start" if block is graph.entry else "state")
        name, again = wanted, 0
        while name in names.values():
            name, again = f"{wanted}_{again}", again + 1
        names[block] = name
    states: list[Json] = []
    for block in order:
        if block is not graph.entry and not block.calls and type(block.end) is ir.End:
            continue
        keys, transitions, calls = _transitions(block.end, names, storage)
        states.append(
            {
                "name": names[block],
                "id": first_state + len(states),
                "parser_ops": [_operation(each) for each in [*block.calls, *calls]],
                "transitions": transitions,
                "transition_key": keys,
            }
        )
    return {"name": graph.name, "id": number, "init_state": names[graph.entry], "parse_states": states}


def _operation(each: Call) -> Json:
    if each.op in _OPERATIONS:
        parameters = [_operand(each, value, number) for number, value in enumerate(each.arguments)]
        return placed({"parameters": parameters, "op": each.op}, None)
    if each.op == "assign" and isinstance(each.arguments[0], ir.Field):
        item = call(each)
        return {"parameters": item["parameters"], "op": "set"}
    return {"parameters": [call(each)], "op": "primitive"}


def _operand(each: Call, value: ir.Value, number: int) -> Json:
    if each.op == "verify":
        return expression(value)
    if each.op == "extract_VL" and number == 1:
        return {"type": "expression", "value": expression(value)}
    if isinstance(value, ir.Named | ir.Field | ir.Const):
        return expression(value)
    return {"type": "expression", "value": expression(value)}


def _transitions(end: ir.End, names: dict[Block, str], storage: Storage) -> tuple[list[Json], list[Json], list[Call]]:
    """Keys, transitions, and the calls that compute the key of a condition."""
    if isinstance(end, ir.Choose):
        transitions = [_transition(case, names[case.target]) for case in end.cases]
        return [expression(key) for key in end.keys], _without_ends(transitions, end, names), []
    if isinstance(end, ir.Branch):
        bit = operators.as_data(end.condition)
        calls: list[Call] = []
        if not isinstance(bit, ir.Field):
            place = storage.variable(BOOL, "tmp")
            calls.append(Call("assign", (place.value, bit), end.span))  # type: ignore[attr-defined]
            bit = place.value  # type: ignore[attr-defined]
        yes = {"type": "hexstr", "value": "0x01", "mask": None, "next_state": names[end.yes]}
        no = {"type": "default", "value": None, "mask": None, "next_state": names[end.no]}
        return [expression(bit)], _closed([yes, no], (end.yes, end.no), names), calls
    target = end.target if isinstance(end, ir.Goto) else None
    following = names[target] if target is not None else None
    return (
        [],
        _closed([{"type": "default", "value": None, "mask": None, "next_state": following}], (target,), names),
        [],
    )


def _transition(case: ir.Case, following: str) -> Json:
    if case.kind == "hexstr":
        value = hexadecimal(case.value, case.width)
        mask = None if case.mask is None else hexadecimal(case.mask, case.width)
        return {"type": "hexstr", "value": value, "mask": mask, "next_state": following}
    return {"type": case.kind, "value": case.value, "mask": None, "next_state": following}


def _without_ends(transitions: list[Json], end: ir.Choose, names: dict[Block, str]) -> list[Json]:
    return _closed(transitions, tuple(case.target for case in end.cases), names)


def _closed(transitions: list[Json], targets: tuple[Block | None, ...], names: dict[Block, str]) -> list[Json]:
    """Transitions to states that do nothing and end the parser go nowhere instead."""
    for transition, target in zip(transitions, targets, strict=True):
        if target is not None and not target.calls and type(target.end) is ir.End:
            transition["next_state"] = None
    return transitions
