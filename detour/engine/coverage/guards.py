# SPDX-License-Identifier: Apache-2.0
"""The conditions for a packet to reach a point of a program: header values and table entries on the shortest way there,
as far as they follow directly from the BMv2 JSON (`detour coverage --suggest`). Whether they agree with each other, and
what a local variable depends on, is not examined."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.engine.compiler.covering import BRANCH, HIT, MISS, TABLE_OUTCOME, program_digest
from detour.engine.compiler.model import Json, one_line
from detour.engine.compiler.older import in_present_form
from detour.engine.compiler.program import Program
from detour.engine.compiler.traced_steps import case_of, key_name
from detour.engine.compiler.tracing import source_of
from detour.engine.coverage.document import CoverageDocument, Point

_Needs = tuple[str, ...]
_Edges = Callable[[Any], Iterable[tuple[Any, _Needs]]]
"""from a node, and what that takes"""

_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_VALID, _INVALID = "{} is valid", "{} is not valid"


class Guards:
    """Conditions in one program."""

    def __init__(self, source: Json) -> None:
        source = in_present_form(source)
        self._states = {state["name"]: state for parser in source["parsers"][:1] for state in parser["parse_states"]}
        self._first = next((parser["init_state"] for parser in source["parsers"]), None)
        self._pipelines = source["pipelines"]
        self._tables = {table["name"]: table for each in self._pipelines for table in each["tables"]}
        self._actions = {action["id"]: action for action in source["actions"]}
        self._droppers = {
            number
            for number, action in self._actions.items()
            if "mark_to_drop" in {call["op"] for call in action["primitives"]}
        }
        self._conditions = {each["name"]: each for pipeline in self._pipelines for each in pipeline["conditionals"]}

    def needs(self, point: Point) -> list[str]:
        """List the conditions for reaching a point, in order; empty if no way there was found."""
        if point.name.startswith("state "):
            return self._in_parser(point)
        if point.name.startswith("deparser emit "):
            return self._with_headers([_VALID.format(point.name.removeprefix("deparser emit "))])
        ways = [way for node, more in self._places(point) if (way := self._through_pipelines(node, more)) is not None]
        return self._with_headers(min(ways, key=len)) if ways else []

    def _places(self, point: Point) -> Iterator[tuple[str, _Needs]]:
        """Nodes of the pipelines where the point is, and what it takes there."""
        if point.kind == BRANCH and point.name in self._conditions:
            yield point.name, tuple(_of_condition(self._conditions[point.name], point.outcome == "true"))
        elif point.kind == TABLE_OUTCOME and point.name in self._tables:
            yield point.name, _of_table(self._tables[point.name], point.outcome)
        else:
            name = point.name.partition(" #")[0]
            for table in self._tables.values():
                if any(name == each["name"] and _has(each, point) for each in self._actions_of(table)):
                    yield table["name"], _of_table(table, name)

    def _actions_of(self, table: Json) -> list[Json]:
        """By their ids: several actions of a program may have one name."""
        return [self._actions[number] for number in table["action_ids"]]

    def _through_pipelines(self, to: str, more: _Needs) -> list[str] | None:
        first = (0, self._pipelines[0]["init_table"], False) if self._pipelines else None
        way = _shortest(first, lambda node: node[1] == to, self._onward)
        return None if way is None else list(dict.fromkeys((*way, *more)))

    def _onward(self, node: tuple[int, str | None, bool]) -> Iterator[tuple[Any, _Needs]]:
        """The next nodes of the pipelines: (number of the pipeline, table or condition, the packet is dropped)."""
        number, name, dropped = node
        if name is None:
            if number + 1 < len(self._pipelines) and not dropped:
                yield (number + 1, self._pipelines[number + 1]["init_table"], False), ()
        elif (condition := self._conditions.get(name)) is not None:
            for value, key in ((True, "true_next"), (False, "false_next")):
                yield (number, condition[key], dropped), tuple(_of_condition(condition, value))
        else:
            after = {
                outcome: (number, to, dropped or action in self._droppers)
                for outcome, action, to in self._outcomes(self._tables[name])
            }
            alike = len({*after.values()}) == 1
            for outcome, to in after.items():
                yield to, () if alike else _of_table(self._tables[name], outcome)

    def _outcomes(self, table: Json) -> Iterator[tuple[str, int | None, str | None]]:
        """What a table may come to (an action, or that it misses), the id of the action that runs then, and what
        follows."""
        to, otherwise = table["next_tables"], table.get("base_default_next")
        for action in self._actions_of(table):
            yield action["name"], action["id"], to.get("__HIT__", to.get(action["name"], otherwise))
        if table["key"]:
            default = self._actions.get((table.get("default_entry") or {}).get("action_id"), {})
            yield MISS, default.get("id"), to.get("__MISS__", to.get(default.get("name"), otherwise))

    # -- the parser

    def _in_parser(self, point: Point) -> list[str]:
        name = point.name.removeprefix("state ").partition(" #")[0]
        way = _shortest(self._first, lambda state: state == name, self._transitions)
        if way is None or name not in self._states:
            return []
        for transition in self._states[name]["transitions"]:
            outcome = f"{case_of(transition)} -> {transition['next_state'] or 'accept'}"
            if point.kind == BRANCH and point.outcome == outcome:
                way = [*way, *self._of_transition(self._states[name], transition)]
        return list(way)

    def _with_headers(self, needs: list[str]) -> list[str]:
        """Instead of headers that must be valid, what makes the parser extract them."""
        headers = {header for header in self._extracted(self._states) if _VALID.format(header) in needs}
        not_these = {header for header in self._extracted(self._states) if _INVALID.format(header) in needs}

        def onward(at: tuple[str | None, frozenset[str]]) -> Iterator[tuple[Any, _Needs]]:
            state, before = at
            if state is not None:
                after = before | self._extracted([state])
                yield from (((to, after), needed) for to, needed in self._transitions(state))

        start = (self._first, frozenset[str]())
        there = _shortest(start, lambda at: at[0] is None and headers <= at[1] and not at[1] & not_these, onward)
        if there is None or not headers | not_these:
            return needs
        return [*there, *(each for each in needs if each not in {_VALID.format(header) for header in headers})]

    def _extracted(self, states: Iterable[str]) -> frozenset[str]:
        operations = (op for state in states for op in self._states[state]["parser_ops"] if op["op"] == "extract")
        return frozenset(
            op["parameters"][0]["value"] for op in operations if isinstance(op["parameters"][0]["value"], str)
        )

    def _transitions(self, name: str | None) -> Iterator[tuple[str | None, _Needs]]:
        if name is not None:
            state = self._states[name]
            for transition in state["transitions"]:
                yield transition["next_state"], self._of_transition(state, transition)

    def _of_transition(self, state: Json, transition: Json) -> _Needs:
        key = ", ".join(key_name(field) for field in state["transition_key"])
        others = [case for each in state["transitions"] if (case := case_of(each)) != "default"]
        if not key or not others:
            return ()
        case = case_of(transition)
        return (f"{key} is none of {', '.join(others)}" if case == "default" else f"{key} = {case}",)


def suggestions(document: CoverageDocument, file: Path) -> list[tuple[Point, list[str]]]:
    """For what is not covered of the program in a file of BMv2 JSON, what a packet needs to get there. Raises
    `DetourError`: it is not such a file, or the document has nothing of that program."""
    source = Program.from_json(file).json
    digest = program_digest(source)
    covered = next((program for program in document.programs.values() if program.digest == digest), None)
    if covered is None:
        raise DetourError(f"{file}: the coverage is for other programs: {', '.join(sorted(document.programs))}")
    guards = Guards(source)
    return [(point, guards.needs(point)) for point in covered.missed()]


def _shortest(first: Hashable, is_there: Callable[[Any], bool], edges: _Edges) -> list[str] | None:
    """Return the conditions of the way that has the fewest; None if there is no way."""
    numbers = itertools.count()
    waiting: list[tuple[int, int, Any, list[str]]] = [(0, next(numbers), first, [])]
    seen: set[Hashable] = set()
    while waiting:
        count, _, node, needs = heapq.heappop(waiting)
        if is_there(node):
            return needs
        if node in seen:
            continue
        seen.add(node)
        for to, more in edges(node):
            heapq.heappush(waiting, (count + len(more), next(numbers), to, [*needs, *more]))
    return None


def _has(action: Json, point: Point) -> bool:
    """Return whether a statement is the action's; of one without a place in the source only the action's name is
    known."""
    places = [source_of(call) or {} for call in action["primitives"]]
    return not point.file or any((each.get("file"), each.get("line")) == (point.file, point.line) for each in places)


def _of_table(table: Json, outcome: str) -> _Needs:
    """Return the conditions for a table to hit, to miss, or to run an action."""
    key = ", ".join(f"{each['name']}: {each['match_type']}" for each in table["key"])
    name = table["name"]
    if not table["key"]:
        return () if len(table["actions"]) == 1 else (f"{outcome} as default action of {name}",)
    if outcome == MISS:
        return (f"no entry of {name} ({key}) that matches",)
    ran = "" if outcome == HIT else f", with {outcome}"
    return (f"an entry of {name} ({key}) that matches{ran}",)


def _of_condition(condition: Json, value: bool) -> list[str]:
    direct = _of_expression(condition["expression"], value)
    text = one_line((condition.get("source_info") or {}).get("source_fragment") or condition["name"])
    return [f"{text} is {str(value).lower()}"] if direct is None else direct


def _of_expression(expression: Json, value: bool) -> list[str] | None:
    """Return the conditions that make an expression true or false; None: they do not follow directly."""
    while expression["type"] == "expression":
        inner = expression["value"]
        if "op" not in inner:
            expression = inner
            continue
        match inner["op"]:
            case "not":
                return _of_expression(inner["right"], not value)
            case "and" | "or" if value == (inner["op"] == "and"):
                sides = [_of_expression(inner[side], value) for side in ("left", "right")]
                return None if None in sides else [need for side in sides for need in side or ()]
            case "d2b":
                return _of_field(inner["right"], value)
            case op if op in _NEGATED and _is_plain(inner["left"], "field") and _is_plain(inner["right"], "hexstr"):
                op = op if value else _NEGATED[op]
                return [f"{key_name(inner['left'])} {'=' if op == '==' else op} {inner['right']['value']}"]
            case _:
                return None
    return None


def _of_field(field: Json, value: bool) -> list[str] | None:
    if not _is_plain(field, "field"):
        return None
    header, name = field["value"]
    if name == "$valid$":
        return [(_VALID if value else _INVALID).format(header)]
    return [f"{key_name(field)} = {int(value)}"]


def _is_plain(value: Json, kind: str) -> bool:
    """Not a local variable, whose value follows from something else."""
    return value["type"] == kind and not (
        kind == "field" and value["value"][0] == "scalars" and "." not in value["value"][1]
    )
