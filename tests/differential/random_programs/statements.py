# SPDX-License-Identifier: Apache-2.0
"""Random statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.differential.random_programs.expressions import Expressions
from tests.differential.random_programs.source import BOOL, OURS, P4C, Kind, Names, Parameters, Scope, Table

STACK = "stack"
STACK_SIZE = 3
UNION = "union"
CELLS = 8


class Statements(Expressions):
    """Bodies of functions, actions and controls."""

    def statements(self, scope: Scope, count: int, depth: int = 2) -> None:
        scope = replace(scope, readable=list(scope.readable), writable=list(scope.writable))
        for _ in range(count):
            self.statement(scope, depth)

    def statement(self, scope: Scope, depth: int) -> None:
        self.rng.choice(self._choices(scope, depth))(scope, depth)

    def _choices(self, scope: Scope, depth: int) -> list[Callable[[Scope, int], None]]:
        """What is possible, as often as it shall be chosen."""
        choices: list[Callable[[Scope, int], None]] = [self._assign] * 6 + [self._declare]
        if depth > 0:
            choices += [self._if] * 3 + [self._loop] * 2 * self._loops(scope) + [self._switch] * scope.switches
            choices += [self._end] * bool(scope.ends)
            choices += [self._guarded, self._validity] * bool(scope.optional)
        choices += [self._shift_stack] * 2 * (f"{STACK}[0]" in scope.optional)
        choices += [self._action_call] * bool(scope.actions)
        choices += [self._apply] * 3 * bool(scope.tables)
        choices += [self._apply_control] * bool(scope.controls)
        choices += [self._register] * bool(scope.registers)
        return choices

    def _assign(self, scope: Scope, _: int) -> None:
        target, kind = self.rng.choice(scope.writable)
        if kind != BOOL and not kind.signed and kind.width > 3 and self.chance(0.15):
            low = self.rng.randrange(kind.width - 1)
            high = self.rng.randrange(low, kind.width)
            self.emit(f"{target}[{high}:{low}] = {self.expression(Kind(high - low + 1), scope, 2)};")
            return
        if kind != BOOL and self.chance(0.1):
            operator = self.rng.choice(("+", "-", "&", "|", "^", "|+|", "|-|"))
            self.emit(f"{target} {operator}= {self.expression(kind, scope, 2)};")
            return
        self.emit(f"{target} = {self.expression(kind, scope)};")

    def _declare(self, scope: Scope, _: int) -> None:
        kind, name = self.kind() if self.chance(0.85) else BOOL, self.name("v")
        self.emit(f"{kind} {name} = {self.expression(kind, scope)};")
        scope.readable.append((name, kind))
        scope.writable.append((name, kind))

    # ------------------------------------------------------------ control flow

    def _if(self, scope: Scope, depth: int) -> None:
        with self.block(f"if ({self.condition(scope)})"):
            self.statements(scope, self.rng.randrange(1, 4), depth - 1)
        if self.chance(0.5):
            with self.block("else"):
                self.statements(scope, self.rng.randrange(1, 3), depth - 1)

    def _switch(self, scope: Scope, depth: int) -> None:
        kind = Kind(self.rng.choice((3, 4, 8)))
        with self.block(f"switch ({self.expression(kind, scope, 2)})"):
            values = sorted(self.rng.sample(range(1 << kind.width), self.rng.randrange(1, 4)))
            self._cases([str(value) for value in values], scope)
            if self.rewritten and self.chance(0.5):
                with self.only(P4C):
                    self.emit("default: { }")
                return
            with self.block("default:"):
                self.statements(scope, self.rng.randrange(2), depth - 1)

    def _cases(self, labels: list[str], scope: Scope) -> None:
        """Each with a body, or with that of the next one."""
        for label in labels:
            if label != labels[-1] and self.chance(0.15):
                self.emit(f"{label}:")
                continue
            with self.block(f"{label}:"):
                self.statements(scope, self.rng.randrange(1, 3), 0)

    def _loops(self, scope: Scope) -> bool:
        return scope.loops or (self.rewritten and scope.switches)

    def _loop(self, scope: Scope, _: int) -> None:
        if self.rewritten:
            self._rewritten_loop(scope)
            return
        name = self.name("i")
        inner = replace(scope, readable=[*scope.readable, (name, Kind(8))], tables=[], ends=())
        with self.block(f"for (bit<8> {name} = 0; {name} < {self.rng.randrange(1, 4)}; {name} = {name} + 1)"):
            self.statements(inner, self.rng.randrange(1, 3), 0)
            if self.chance(0.3):
                with self.block(f"if ({self.condition(inner, 1)})"):
                    self.emit(self.rng.choice(("break;", "continue;")))
                self.statements(inner, 1, 0)

    def _rewritten_loop(self, scope: Scope) -> None:
        """p4c gets the iterations one after the other, and a variable for the end of the loop."""
        name, goes_on, first = self.name("i"), self.name("go"), self.rng.randrange(3)
        last = first + self.rng.randrange(3)
        inner = replace(scope, readable=[*scope.readable, (name, Kind(8))], tables=[], ends=())
        body, rest = self._lines(inner), self._lines(inner)
        condition, end = self.condition(inner, 1), self.rng.choice(("break", "continue"))
        counted = f"bit<8> {name} = {first}; {name} <= {last}; {name} = {name} + 1"
        head = self.rng.choice((counted, f"bit<8> {name} in {first} .. {last}"))
        with self.only(OURS), self.block(f"for ({head})"):
            self._write(body)
            self.emit(f"if ({condition}) {{ {end}; }}")
            self._write(rest)
        with self.only(P4C), self.block(""):
            self.emit(f"bool {goes_on} = true;")
            for value in range(first, last + 1):
                with self.block(f"if ({goes_on})"):
                    self.emit(f"bit<8> {name} = {value};")
                    self._write(body)
                    with self.block(f"if ({condition})"):
                        self.emit(f"{goes_on} = {str(end == 'continue').lower()};")
                    with self.block("else"):
                        self._write(rest)

    def _lines(self, scope: Scope) -> list[str]:
        """Statements that are written later, perhaps several times."""
        start = len(self.lines)
        self.statements(scope, self.rng.randrange(1, 3), 0)
        lines = [line.lstrip() for line, _ in self.lines[start:]]
        del self.lines[start:]
        return lines

    def _write(self, lines: list[str]) -> None:
        for line in lines:
            self.emit(line)

    def _end(self, scope: Scope, _: int) -> None:
        with self.block(f"if ({self.condition(scope, 1)})"):
            self.statements(scope, self.rng.randrange(2), 0)
            self.emit(f"{self.rng.choice(scope.ends)};")

    # ------------------------------------------------------------ headers

    def _fields_of(self, header: str) -> Names:
        return [(f"h.{header}.{name}", kind) for name, kind in self.headers[header]]

    def _guarded(self, scope: Scope, depth: int) -> None:
        """Code that reads a header; it does nothing that could make the header invalid."""
        header = self.rng.choice(scope.optional)
        fields = self._fields_of(header)
        root = header.split(".")[0].split("[")[0]
        with self.block(f"if (h.{header}.isValid())"):
            others = [one for one in scope.optional if not one.startswith(root)]
            readable, writable = [*scope.readable, *fields], [*scope.writable, *fields]
            inner = replace(scope, readable=readable, writable=writable, optional=others, actions=[], tables=[])
            self.statements(inner, self.rng.randrange(1, 4), depth - 1)

    def _validity(self, scope: Scope, _: int) -> None:
        header = self.rng.choice(scope.optional)
        if self.chance(0.4):
            self.emit(f"h.{header}.setInvalid();")
            return
        self.emit(f"h.{header}.setValid();")
        for name, kind in self.headers[header]:
            self.emit(f"h.{header}.{name} = {self.expression(kind, scope, 1)};")

    def _shift_stack(self, _: Scope, __: int) -> None:
        self.emit(f"h.{STACK}.{self.rng.choice(('push_front', 'pop_front'))}({self.rng.randrange(1, STACK_SIZE)});")

    # ------------------------------------------------------------ calls

    def _action_call(self, scope: Scope, _: int) -> None:
        action = self.rng.choice(scope.actions)
        arguments = self.arguments(action.parameters, scope)
        if arguments is not None:
            self.emit(f"{action.name}({', '.join(arguments)});")

    def _apply_control(self, scope: Scope, _: int) -> None:
        name, parameters = self.rng.choice(scope.controls)
        arguments = self.arguments(parameters, scope)
        if arguments is not None:
            self.emit(f"{name}.apply({', '.join(arguments)});")

    def arguments(self, parameters: Parameters, scope: Scope) -> list[str] | None:
        """Those of `out` and `inout` parameters are all different, and no others name them, so that their order does
        not matter. None: there is no place for one.
        """
        arguments: list[str] = []
        for direction, kind in parameters:
            places = [place for place, of in scope.writable if of == kind and place not in arguments]
            if direction == "in":
                arguments.append(self.expression(kind, scope, 1))
            elif places:
                arguments.append(self.rng.choice(places))
            else:
                return None
        return arguments

    def _apply(self, scope: Scope, _: int) -> None:
        table = scope.tables.pop()
        inner = replace(scope, tables=[], controls=[], ends=())
        roll = self.rng.random()
        if roll < 0.3:
            self.emit(f"{table.name}.apply();")
        elif roll < 0.6:
            self._switch_on_action(table, inner)
        else:
            result = self.rng.choice(("hit", "miss"))
            with self.block(f"if ({'!' * self.chance(0.2)}{table.name}.apply().{result})"):
                self.statements(inner, 2, 0)

    def _switch_on_action(self, table: Table, scope: Scope) -> None:
        with self.block(f"switch ({table.name}.apply().action_run)"):
            self._cases(self.rng.sample(table.actions, self.rng.randrange(1, len(table.actions) + 1)), scope)
            if self.chance(0.6):
                with self.block("default:"):
                    self.statements(scope, 1, 0)

    def _register(self, scope: Scope, _: int) -> None:
        name, kind = self.rng.choice(scope.registers)
        index = f"(bit<32>){self.expression(Kind(3), scope, 1)}"
        places = [place for place, of in scope.writable if of == kind]
        if places and self.chance(0.6):
            self.emit(f"{name}.read({self.rng.choice(places)}, {index});")
        else:
            self.emit(f"{name}.write({index}, {self.expression(kind, scope, 1)});")
