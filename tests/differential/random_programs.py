# SPDX-License-Identifier: Apache-2.0
"""Random well-typed P4_16 programs for v1model, in the manner of p4c's p4smith. The same seed gives the same program.

What a program reads is defined: variables are initialized, fields are those of valid headers, divisors are not zero.
At the end of ingress everything that it has computed goes into a header of the packet. `python -m
tests.differential.random_programs SEED` prints one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

WIDTHS = (1, 3, 4, 7, 8, 8, 9, 12, 16, 16, 24, 32, 33, 48, 64)
LOOPS = False
"""Whether programs have loops. p4c 1.2.5.16 runs many of them once, whatever their bound, and fails at others ("Null
body"), so that nothing can be compared.
"""
_PROLOGUE = "#include <core.p4>\n#include <v1model.p4>\n"


@dataclass(frozen=True)
class Kind:
    """`bool` (width 0), `bit<width>` or `int<width>`."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return "bool" if not self.width else f"{'int' if self.signed else 'bit'}<{self.width}>"


BOOL = Kind(0)


@dataclass
class Scope:
    """What code at a place can read and write: expressions with their types."""

    readable: list[tuple[str, Kind]] = field(default_factory=list)
    writable: list[tuple[str, Kind]] = field(default_factory=list)
    optional: list[str] = field(default_factory=list)
    """Headers that may be invalid, by name: their fields are readable where they are known to be valid."""
    actions: list[tuple[str, list[tuple[str, Kind]]]] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    """Tables that have not been applied yet."""
    controls: list[tuple[str, list[tuple[str, Kind]]]] = field(default_factory=list)
    switches: bool = True
    """Whether code may have `switch`: BMv2's actions have none."""


class Generator:
    """One program. `text` makes it."""

    def __init__(self, seed: object) -> None:
        self.rng = random.Random(f"random program {seed}")
        self.lines: list[str] = []
        self.depth = 0
        self.counter = 0
        self.headers: dict[str, list[tuple[str, Kind]]] = {}
        self.metadata: list[tuple[str, Kind]] = []
        self.functions: list[tuple[str, Kind, list[tuple[str, Kind]]]] = []

    # ------------------------------------------------------------ text

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.emit(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.emit(tail)

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def kind(self) -> Kind:
        return Kind(self.rng.choice(WIDTHS), self.chance(0.15))

    # ------------------------------------------------------------ expressions

    def literal(self, kind: Kind) -> str:
        if kind == BOOL:
            return self.rng.choice(("true", "false"))
        top = 1 << kind.width
        value = self.rng.choice((0, 1, 2, top - 1, top >> 1, self.rng.randrange(top), self.rng.randrange(top)))
        if kind.signed:
            value = (value & (top - 1)) - (top if value & (top >> 1) else 0)
            return f"{kind.width}s{value}" if value >= 0 else f"(-{kind.width}s{min(-value, (top >> 1) - 1)})"
        text = f"{value & (top - 1):#x}" if self.chance(0.4) else str(value & (top - 1))
        return f"{kind.width}w{text}"

    def leaf(self, kind: Kind, scope: Scope) -> str:
        same = [name for name, of in scope.readable if of == kind]
        if same and self.chance(0.75):
            return self.rng.choice(same)
        others = [(name, of) for name, of in scope.readable if of != BOOL]
        if kind != BOOL and others and self.chance(0.7):
            name, of = self.rng.choice(others)
            if not kind.signed and of.width > kind.width and self.chance(0.6):
                low = self.rng.randrange(of.width - kind.width + 1)
                return f"{name}[{low + kind.width - 1}:{low}]"
            return self.cast(name, of, kind)
        return self.literal(kind)

    @staticmethod
    def cast(text: str, of: Kind, to: Kind) -> str:
        """A cast; between signed and unsigned of other widths it takes two."""
        if of == to:
            return text
        if of.signed != to.signed and of.width != to.width:
            return f"({to})({Kind(of.width, to.signed)}){text}"
        return f"({to}){text}"

    def expression(self, kind: Kind, scope: Scope, depth: int = 3) -> str:
        if depth == 0 or self.chance(0.25):
            return self.leaf(kind, scope)
        if kind == BOOL:
            return self.condition(scope, depth)
        choices: list[Callable[[Kind, Scope, int], str]] = [self._binary] * 5 + [self._unary, self._shift, self._mux]
        if kind.width > 1 and not kind.signed:
            choices += [self._concatenation, self._division]
        if self.functions:
            choices.append(self._call)
        choices.append(self._cast)
        return self.rng.choice(choices)(kind, scope, depth - 1)

    def _binary(self, kind: Kind, scope: Scope, depth: int) -> str:
        operators = ["+", "-", "&", "|", "^", "|+|", "|-|"] + (["*"] if kind.width <= 32 else [])
        left, right = self.expression(kind, scope, depth), self.expression(kind, scope, depth)
        return f"({left} {self.rng.choice(operators)} {right})"

    def _unary(self, kind: Kind, scope: Scope, depth: int) -> str:
        return f"({self.rng.choice('~-')}{self.expression(kind, scope, depth)})"

    def _shift(self, kind: Kind, scope: Scope, depth: int) -> str:
        amount = self.literal(Kind(3)) if self.chance(0.5) else self.expression(Kind(3), scope, min(depth, 1))
        return f"({self.expression(kind, scope, depth)} {self.rng.choice(('<<', '>>'))} {amount})"

    def _mux(self, kind: Kind, scope: Scope, depth: int) -> str:
        yes, no = self.expression(kind, scope, depth), self.expression(kind, scope, depth)
        return f"({self.condition(scope, depth)} ? {yes} : {no})"

    def _concatenation(self, kind: Kind, scope: Scope, depth: int) -> str:
        low = self.rng.randrange(1, kind.width)
        high = self.expression(Kind(kind.width - low), scope, depth)
        return f"({high} ++ {self.expression(Kind(low), scope, depth)})"

    def _division(self, kind: Kind, scope: Scope, depth: int) -> str:
        """A quotient of constants: BMv2 cannot divide by what p4c does not know."""
        divisor = self.rng.randrange(1, 1 << min(kind.width, 12))
        quotient = f"({self.literal(kind)} {self.rng.choice('/%')} {kind.width}w{divisor})"
        return f"({quotient} ^ {self.expression(kind, scope, depth)})"

    def _cast(self, kind: Kind, scope: Scope, depth: int) -> str:
        of = self.kind()
        return f"({self.cast(self.expression(of, scope, depth), of, kind)})"

    def _call(self, kind: Kind, scope: Scope, depth: int) -> str:
        name, returns, parameters = self.rng.choice(self.functions)
        arguments = ", ".join(self.expression(of, scope, min(depth, 1)) for _, of in parameters)
        return f"({self.cast(f'{name}({arguments})', returns, kind)})"

    def condition(self, scope: Scope, depth: int = 2) -> str:
        roll = self.rng.random()
        if depth > 0 and roll < 0.25:
            operator = self.rng.choice(("&&", "||"))
            return f"({self.condition(scope, depth - 1)} {operator} {self.condition(scope, depth - 1)})"
        if depth > 0 and roll < 0.35:
            return f"!{self.condition(scope, depth - 1)}"
        if roll < 0.42 and scope.optional:
            return f"h.{self.rng.choice(scope.optional)}.isValid()"
        if roll < 0.5 and any(of == BOOL for _, of in scope.readable):
            return self.leaf(BOOL, scope)
        kind = self.kind()
        operator = self.rng.choice(("==", "!=", "<", "<=", ">", ">="))
        left, right = self.expression(kind, scope, max(depth - 1, 0)), self.expression(kind, scope, max(depth - 1, 0))
        return f"({left} {operator} {right})"

    # ------------------------------------------------------------ statements

    def statements(self, scope: Scope, count: int, depth: int = 2) -> None:
        scope = replace(scope, readable=list(scope.readable), writable=list(scope.writable))
        for _ in range(count):
            self.statement(scope, depth)

    def statement(self, scope: Scope, depth: int) -> None:
        choices: list[Callable[[Scope, int], None]] = [self._assign] * 6 + [self._declare]
        if depth > 0:
            choices += [self._if] * 3 + [self._loop] * LOOPS + [self._switch] * scope.switches
        if scope.optional and depth > 0:
            choices += [self._guarded, self._validity]
        if scope.actions:
            choices += [self._action_call]
        if scope.tables:
            choices += [self._apply] * 3
        if scope.controls:
            choices += [self._apply_control]
        self.rng.choice(choices)(scope, depth)

    def _assign(self, scope: Scope, _: int) -> None:
        target, kind = self.rng.choice(scope.writable)
        if kind != BOOL and not kind.signed and kind.width > 3 and self.chance(0.15):
            low = self.rng.randrange(kind.width - 1)
            high = self.rng.randrange(low, kind.width)
            self.emit(f"{target}[{high}:{low}] = {self.expression(Kind(high - low + 1), scope, 2)};")
            return
        if kind != BOOL and self.chance(0.1):
            self.emit(f"{target} {self.rng.choice('+-&|^')}= {self.expression(kind, scope, 2)};")
            return
        self.emit(f"{target} = {self.expression(kind, scope)};")

    def _declare(self, scope: Scope, _: int) -> None:
        kind, name = self.kind() if self.chance(0.85) else BOOL, self.name("v")
        self.emit(f"{kind} {name} = {self.expression(kind, scope)};")
        scope.readable.append((name, kind))
        scope.writable.append((name, kind))

    def _if(self, scope: Scope, depth: int) -> None:
        with self.block(f"if ({self.condition(scope)})"):
            self.statements(scope, self.rng.randrange(1, 4), depth - 1)
        if self.chance(0.5):
            with self.block("else"):
                self.statements(scope, self.rng.randrange(1, 3), depth - 1)

    def _switch(self, scope: Scope, depth: int) -> None:
        kind = Kind(self.rng.choice((3, 4, 8)))
        with self.block(f"switch ({self.expression(kind, scope, 2)})"):
            for value in sorted(self.rng.sample(range(1 << kind.width), self.rng.randrange(1, 4))):
                with self.block(f"{value}:"):
                    self.statements(scope, self.rng.randrange(1, 3), 0)
            if self.chance(0.6):
                with self.block("default:"):
                    self.statements(scope, 1, depth - 1)

    def _loop(self, scope: Scope, _: int) -> None:
        name = self.name("i")
        inner = Scope([*scope.readable, (name, Kind(8))], scope.writable, scope.optional, switches=scope.switches)
        with self.block(f"for (bit<8> {name} = 0; {name} < {self.rng.randrange(1, 4)}; {name} = {name} + 1)"):
            self.statements(inner, self.rng.randrange(1, 3), 0)

    def _guarded(self, scope: Scope, depth: int) -> None:
        header = self.rng.choice(scope.optional)
        fields = [(f"h.{header}.{name}", kind) for name, kind in self.headers[header]]
        with self.block(f"if (h.{header}.isValid())"):
            others = [one for one in scope.optional if one != header]
            inner = Scope([*scope.readable, *fields], [*scope.writable, *fields], others, scope.actions)
            self.statements(inner, self.rng.randrange(1, 4), depth - 1)

    def _validity(self, scope: Scope, _: int) -> None:
        header = self.rng.choice(scope.optional)
        if self.chance(0.4):
            self.emit(f"h.{header}.setInvalid();")
            return
        self.emit(f"h.{header}.setValid();")
        for name, kind in self.headers[header]:
            self.emit(f"h.{header}.{name} = {self.expression(kind, scope, 1)};")

    def _action_call(self, scope: Scope, _: int) -> None:
        name, parameters = self.rng.choice(scope.actions)
        self._call_with(name, parameters, scope)

    def _apply_control(self, scope: Scope, _: int) -> None:
        name, parameters = self.rng.choice(scope.controls)
        self._call_with(f"{name}.apply", parameters, scope)

    def _call_with(self, name: str, parameters: list[tuple[str, Kind]], scope: Scope) -> None:
        """A call; arguments of `out` and `inout` parameters are all different, so that their order does not matter."""
        taken: set[str] = set()
        arguments = []
        for direction, kind in parameters:
            if direction in ("in", ""):
                arguments.append(self.expression(kind, scope, 1))
                continue
            places = [place for place, of in scope.writable if of == kind and place not in taken]
            if not places:
                return
            taken.add(self.rng.choice(places))
            arguments.append(max(taken, key=lambda one: one in places))
        if len(set(arguments)) == len(arguments):
            self.emit(f"{name}({', '.join(arguments)});")

    def _apply(self, scope: Scope, _: int) -> None:
        table = scope.tables.pop()
        if self.chance(0.5):
            self.emit(f"{table}.apply();")
            return
        with self.block(f"if ({table}.apply().{self.rng.choice(('hit', 'miss'))})"):
            self.statements(Scope(scope.readable, scope.writable, scope.optional), 2, 0)

    # ------------------------------------------------------------ declarations

    def text(self) -> str:
        self._types()
        self._functions()
        self._parser()
        with self.block("control V(inout Headers h, inout Meta m)"):
            self.emit("apply { }")
        control = self._inner_control()
        self._ingress(control)
        with self.block("control E(inout Headers h, inout Meta m, inout standard_metadata_t s)"), self.block("apply"):
            if self.chance(0.5):
                self.statements(self._scope(), self.rng.randrange(1, 4), 1)
        with self.block("control D(packet_out p, in Headers h)"), self.block("apply"):
            for name in [*self.headers, "result"]:
                self.emit(f"p.emit(h.{name});")
        self.emit("V1Switch(P(), V(), I(), E(), V(), D()) main;")
        return _PROLOGUE + "\n".join(self.lines) + "\n"

    def _fields(self, prefix: str, count: int) -> list[tuple[str, Kind]]:
        """Fields of whole bytes together."""
        fields = [(f"{prefix}{number}", self.kind()) for number in range(count)]
        rest = -sum(kind.width for _, kind in fields) % 8
        return [*fields, (f"{prefix}{count}", Kind(rest))] if rest else fields

    def _struct(self, word: str, name: str, fields: list[tuple[str, Kind]]) -> None:
        with self.block(f"{word} {name}"):
            for one, kind in fields:
                self.emit(f"{kind} {one};")

    def _types(self) -> None:
        for number in range(self.rng.randrange(2, 5)):
            fields = [("tag", Kind(8)), *self._fields("f", self.rng.randrange(1, 5))]
            self.headers[f"h{number}"] = fields
            self._struct("header", f"H{number}", fields)
        self.metadata = [(f"m{at}", self.kind()) for at in range(self.rng.randrange(3, 8))] + [("flag", BOOL)]
        self._struct("struct", "Meta", self.metadata)
        bits = sum(max(kind.width, 1) for _, kind in self.metadata)
        results = [(name, kind if kind.width else Kind(1)) for name, kind in self.metadata]
        padding = [("padding", Kind(-bits % 8))] if bits % 8 else []
        self._struct("header", "Result", [*results, *padding])
        self.results = [name for name, _ in padding]
        with self.block("struct Headers"):
            for number in range(len(self.headers)):
                self.emit(f"H{number} h{number};")
            self.emit("Result result;")

    def _functions(self) -> None:
        made = []
        for _ in range(self.rng.randrange(3)):
            name, returns = self.name("function"), self.kind()
            parameters = [(self.name("p"), self.kind()) for _ in range(self.rng.randrange(1, 4))]
            with self.block(f"{returns} {name}({', '.join(f'in {kind} {one}' for one, kind in parameters)})"):
                local, kind = self.name("v"), self.kind()
                scope = Scope(list(parameters))
                self.emit(f"{kind} {local} = {self.expression(kind, scope)};")
                scope = Scope([*parameters, (local, kind)], [(local, kind)], switches=False)
                self.statements(scope, self.rng.randrange(3), 1)
                if self.chance(0.4):
                    with self.block(f"if ({self.condition(scope)})"):
                        self.emit(f"return {self.expression(returns, scope)};")
                self.emit(f"return {self.expression(returns, scope)};")
            made.append((name, returns, parameters))
        self.functions = made

    def _parser(self) -> None:
        head = "parser P(packet_in p, out Headers h, inout Meta m, inout standard_metadata_t s)"
        names = list(self.headers)
        with self.block(head):
            for at, name in enumerate(names):
                state = "start" if at == 0 else f"parse_{name}"
                with self.block(f"state {state}"):
                    self.emit(f"p.extract(h.{name});")
                    if at + 1 == len(names):
                        self.emit("transition accept;")
                        continue
                    with self.block(f"transition select(h.{name}.tag)"):
                        label = self.rng.choice(("8w0x0 &&& 8w0x1", "8w0 .. 8w127", "8w1", "8w0x80 &&& 8w0xf0"))
                        self.emit(f"{label}: parse_{names[at + 1]};")
                        if at + 2 < len(names):
                            self.emit(f"8w{self.rng.randrange(256)}: parse_{names[at + 2]};")
                        self.emit("default: accept;")

    def _scope(self) -> Scope:
        sure = [(f"h.h0.{name}", kind) for name, kind in self.headers["h0"]]
        places = sure + [(f"m.{name}", kind) for name, kind in self.metadata]
        return Scope(list(places), list(places), [name for name in self.headers if name != "h0"])

    def _inner_control(self) -> list[tuple[str, Kind]] | None:
        if self.chance(0.4):
            return None
        parameters = [(self.rng.choice(("in", "inout", "inout")), self.kind()) for _ in range(self.rng.randrange(1, 4))]
        names = [(self.name("c"), direction, kind) for direction, kind in parameters]
        written = [(name, kind) for name, direction, kind in names if direction == "inout"]
        head = ", ".join(f"{direction} {kind} {name}" for name, direction, kind in names)
        with self.block(f"control Inner({head})(bit<8> k)"):
            local, kind = self.name("v"), self.kind()
            scope = Scope([*((name, of) for name, _, of in names), ("k", Kind(8))], written)
            self.emit(f"{kind} {local} = {self.literal(kind)};")
            scope.readable.append((local, kind))
            scope.writable.append((local, kind))
            with self.block("apply"):
                self.statements(scope, self.rng.randrange(1, 4), 1)
        return parameters

    def _ingress(self, control: list[tuple[str, Kind]] | None) -> None:
        scope = self._scope()
        with self.block("control I(inout Headers h, inout Meta m, inout standard_metadata_t s)"):
            if control:
                scope.controls = [(self.name("inner"), control) for _ in range(self.rng.randrange(1, 3))]
                for name, _ in scope.controls:
                    self.emit(f"Inner(8w{self.rng.randrange(256)}) {name};")
            callable_actions = []
            for _ in range(self.rng.randrange(2)):
                callable_actions.append(self._action(scope, directed=True))
            in_tables = [self._action(scope, directed=False) for _ in range(self.rng.randrange(1, 4))]
            scope.tables = [self._table(scope, in_tables) for _ in range(self.rng.randrange(1, 4))]
            scope.actions = callable_actions
            with self.block("apply"):
                self.emit("s.egress_spec = 9w1;")
                for name, kind in self.metadata:
                    self.emit(
                        f"m.{name} = {self.leaf(kind, Scope(self._scope().readable[: len(self.headers['h0'])]))};"
                    )
                self.statements(scope, self.rng.randrange(5, 12), 2)
                self._result()

    def _result(self) -> None:
        self.emit("h.result.setValid();")
        for name, kind in self.metadata:
            self.emit(f"h.result.{name} = {f'(bit<1>)m.{name}' if kind == BOOL else f'm.{name}'};")
        for name in self.results:
            self.emit(f"h.result.{name} = 0;")

    def _action(self, scope: Scope, *, directed: bool) -> tuple[str, list[tuple[str, Kind]]]:
        name = self.name("action")
        directions = ("in", "inout", "out") if directed else ("",)
        parameters = [(self.rng.choice(directions), self.kind()) for _ in range(self.rng.randrange(3))]
        # Controllers of BMv2 know bits only.
        parameters = [(direction, kind if directed else Kind(kind.width)) for direction, kind in parameters]
        names = [(self.name("a"), direction, kind) for direction, kind in parameters]
        head = ", ".join(f"{direction} {kind} {one}".strip() for one, direction, kind in names)
        with self.block(f"action {name}({head})"):
            for one, direction, kind in names:
                if direction == "out":
                    self.emit(f"{one} = {self.literal(kind)};")
            readable = [(one, kind) for one, _, kind in names]
            writable = [(one, kind) for one, direction, kind in names if "out" in direction]
            inner = Scope([*scope.readable, *readable], [*scope.writable, *writable], switches=False)
            self.statements(inner, self.rng.randrange(1, 4), 1 if self.chance(0.3) else 0)
        return name, parameters

    def _table(self, scope: Scope, actions: list[tuple[str, list[tuple[str, Kind]]]]) -> str:
        name = self.name("table")
        keys = [(one, kind) for one, kind in scope.readable if kind != BOOL and not kind.signed]
        with self.block(f"table {name}"):
            with self.block("key ="):
                prefixes = 0
                for one, _ in self.rng.sample(keys, min(len(keys), self.rng.randrange(1, 4))):
                    match = self.rng.choice(("exact", "exact", "ternary", "lpm"))
                    prefixes += match == "lpm"
                    self.emit(f"{one}: {'exact' if match == 'lpm' and prefixes > 1 else match};")
            with self.block("actions ="):
                for one, _ in actions:
                    self.emit(f"{one};")
                self.emit("NoAction;")
            default, parameters = self.rng.choice(actions)
            if self.chance(0.6):
                arguments = ", ".join(self.literal(kind) for _, kind in parameters)
                self.emit(f"default_action = {default}({arguments});")
            self.emit("size = 64;")
        return name


def write_programs(folder: Path, count: int, seed: int) -> list[Path]:
    """Writes programs; their seeds are `seed` and those that follow."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(seed, seed + count):
        path = folder / f"random_{number:05}.p4"
        text = Generator(number).text()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        paths.append(path)
    return paths


if __name__ == "__main__":
    sys.stdout.write(Generator(int(sys.argv[1]) if sys.argv[1:] else 1).text())
