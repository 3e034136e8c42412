# SPDX-License-Identifier: Apache-2.0
"""Graphs of blocks as BMv2 has them: actions with jumps, pipelines of tables and conditions, states of parsers."""

from __future__ import annotations

from pathlib import PurePath

from detour.p4 import ir
from detour.p4.bmv2.values import Json, call, expression, placed, wrapped
from detour.p4.ir import Block, Call, hexadecimal
from detour.p4.lower import operators
from detour.p4.lower.builder import simplify, sorted_blocks
from detour.p4.lower.places import Storage
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
    starts: dict[Block | None, int] = {}
    calls: list[Call] = []
    jumps: list[tuple[Call, Block | None]] = []
    for block, following in zip(order, [*order[1:], None], strict=True):
        starts[block] = len(calls)
        calls += block.calls
        for test, target in _jumps(block.end, following):
            calls.append(Call("_jump_if_zero", (test,), block.end.span) if test else Call("_jump", (), block.end.span))
            jumps.append((calls[-1], target))
    starts[None] = len(calls)
    for jump, target in jumps:
        jump.arguments = (*jump.arguments, ir.Const(starts[target]))
    return [call(each) for each in calls]


def _jumps(end: ir.End, following: Block | None) -> list[tuple[ir.Value | None, Block | None]]:
    """Tests and targets of the jumps at the end of a block; None as target: the end of the action."""
    if isinstance(end, ir.Branch):
        yes, no = end.targets
        if no is following and yes is not following:
            return [(operators.as_data(operators.invert(end.condition)), yes)]
        test: tuple[ir.Value, Block] = (operators.as_data(end.condition), no)
        return [test] if yes is following else [test, (None, yes)]
    target = end.targets[0] if end.targets else None
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
        for block in reversed(sorted_blocks(pipeline.entry)):
            self.at[block] = self._block(block)
        self.tables.reverse()
        self.conditionals.reverse()
        unreached = [table for table in pipeline.tables if table not in self.by_table]
        self.tables += [_table(table, dict.fromkeys(each.name for each in table.actions)) for table in unreached]
        for kind, nodes in (("table", self.tables), ("conditional", self.conditionals)):
            for node in nodes:
                node["id"] = self.ids.setdefault(kind, 0)
                self.ids[kind] += 1
        return {
            "name": pipeline.name,
            "id": number,
            "init_table": self.at[pipeline.entry],
            "tables": self.tables,
            "action_profiles": pipeline.profiles,
            "conditionals": self.conditionals,
            "source_info": pipeline.span,
        }

    def _block(self, block: Block) -> str | None:
        """The name of the first node of a block, with those that follow."""
        name = self._end(block.end)
        if not block.calls:
            return name
        span = next((each.span for each in block.calls if each.span.file.name), NOWHERE)
        made = self.program.action(self.unique(_place_name(span)), NOWHERE, (), Block(calls=block.calls))
        return self._statement(made, name, span)

    def unique(self, name: str) -> str:
        number = self.names.get(name)
        self.names[name] = 0 if number is None else number + 1
        return name if number is None else f"{name}_{number}"

    def _statement(self, made: ir.Action, following: str | None, span: Span) -> str:
        made.name = made.name or self.unique(_place_name(span))
        table = ir.Table(self.unique(f"tbl_{made.name.rpartition('.')[2]}"), span, [made])
        table.set_default(made, (), constant=True)
        self.tables.append(_table(table, {made.name: following}))
        return table.name

    def _end(self, end: ir.End) -> str | None:
        following = [self.at[target] for target in end.targets]
        match end:
            case ir.Branch():
                node = {
                    "name": self.unique("node"),
                    "id": 0,
                    "expression": expression(end.condition),
                    "true_next": following[0],
                    "false_next": following[1],
                    "source_info": end.span,
                }
                self.conditionals.append(node)
                return node["name"]
            case ir.Invoke():
                return self._statement(end.action, following[0], end.span)
            case ir.ApplyTable():
                names = ["__HIT__", "__MISS__"] if end.on_hit else [each.name for each in end.table.actions]
                return self._apply(end.table, dict(zip(names, following, strict=True)))
        return following[0] if following else None

    def _apply(self, table: ir.Table, following: dict[str, str | None]) -> str:
        known = self.by_table.get(table)
        if known is None:
            self.by_table[table] = _table(table, following)
            self.tables.append(self.by_table[table])
            return table.name
        if self._leads_to(table.name, list(following.values())):
            problem, reason = "is applied twice on one path", "BMv2 looks a table up once"
        elif known["next_tables"] != following:
            problem, reason = "is applied at two places that go on differently", "BMv2 has one follower of a table"
        else:
            return table.name
        raise CompileError(Message(f"table {table.name} {problem}", table.span, f"{reason}: declare a second table"))

    def _leads_to(self, table: str, names: list[str | None]) -> bool:
        """Return whether control comes from one of these nodes to a table."""
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


def _table(table: ir.Table, following: dict[str, str | None]) -> Json:
    same = len(set(following.values())) == 1 and "__HIT__" not in following
    return {
        "name": table.name,
        "id": 0,
        "source_info": table.span,
        "key": [_key(key) for key in table.keys if key.kind != "selector"],
        "match_type": _match_type({key.kind for key in table.keys}),
        "type": "simple",
        "max_size": table.size,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [each.number for each in table.actions],
        "actions": [each.name for each in table.actions],
        "base_default_next": next(iter(following.values())) if same else None,
        "next_tables": following,
        **table.attributes,
    }


def _match_type(kinds: set[str]) -> str:
    if kinds & {"ternary", "optional"} and "range" not in kinds:
        return "ternary"
    return next((kind for kind in ("range", "lpm") if kind in kinds), "exact")


def _key(key: ir.Key) -> Json:
    return {
        "match_type": "ternary" if key.kind == "optional" else key.kind,
        "name": key.name,
        "target": [key.target.header, key.target.name],
        "mask": None if key.mask is None else hexadecimal(key.mask, key.width),
    }


# ---------------------------------------------------------------- parsers


def parser(name: str, entry: Block, number: int, first_state: int, storage: Storage) -> Json:
    """A parser. States that do nothing and end it are none: what leads to them leads nowhere."""
    names: dict[Block, str] = {}
    for block in simplify(entry):
        wanted = block.name or ("start" if block is entry else "state")
        state, again = wanted, 0
        while state in names.values():
            state, again = f"{wanted}_{again}", again + 1
        names[block] = state
    states: list[Json] = []
    for block in names:
        if block is not entry and _is_end(block):
            continue
        calls = list(block.calls)
        keys, cases = _cases(block.end, calls, storage)
        targets = [None if _is_end(target) else names[target] for target in block.end.targets] or [None]
        states.append(
            {
                "name": names[block],
                "id": first_state + len(states),
                "parser_ops": [_operation(each) for each in calls],
                "transitions": [{**case, "next_state": to} for case, to in zip(cases, targets, strict=True)],
                "transition_key": [expression(key) for key in keys],
            }
        )
    return {"name": name, "id": number, "init_state": names[entry], "parse_states": states}


def _is_end(block: Block) -> bool:
    return not block.calls and type(block.end) is ir.End


def _operation(each: Call) -> Json:
    arguments = each.arguments
    if each.op == "verify":
        return {"parameters": [expression(value) for value in arguments], "op": "verify"}
    if each.op in ("extract", "extract_VL", "advance"):
        # A number to advance by stands as it is, one that tells the length of a field as an expression.
        bare = (ir.Named, ir.Field, ir.Const) if each.op != "extract_VL" else ir.Named
        parameters = [expression(value) if isinstance(value, bare) else wrapped(value) for value in arguments]
        return {"parameters": parameters, "op": each.op}
    if each.op == "assign" and isinstance(arguments[0], ir.Field):
        return {"parameters": call(each)["parameters"], "op": "set"}
    return {"parameters": [call(each)], "op": "primitive"}


def _cases(end: ir.End, calls: list[Call], storage: Storage) -> tuple[tuple[ir.Value, ...], list[Json]]:
    """Keys and transitions, without their targets; the calls that compute the key of a condition go to `calls`."""
    default: Json = {"type": "default", "value": None, "mask": None}
    if isinstance(end, ir.Choose):
        return end.keys, end.cases
    if not isinstance(end, ir.Branch):
        return (), [default]
    bit = operators.as_data(end.condition)
    if not isinstance(bit, ir.Field):
        place = storage.scalar(BOOL, "tmp")
        calls.append(Call("assign", (place.ref, bit), end.span))
        bit = place.ref
    return (bit,), [{"type": "hexstr", "value": "0x01", "mask": None}, default]
