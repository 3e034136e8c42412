# SPDX-License-Identifier: Apache-2.0
"""Random declarations, which make a program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.differential.random_programs.source import BOOL, OURS, P4C, Action, Kind, Names, Parameters, Scope, Table
from tests.differential.random_programs.statements import CELLS, STACK, STACK_SIZE, UNION, Statements

_PROLOGUE = "#include <core.p4>\n#include <v1model.p4>\nerror { Odd }\n"
_REST = "inout Meta m, inout standard_metadata_t s"


class Program(Statements):
    """One program: `text` is the source, `text_for_p4c` what p4c gets in its place."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.metadata: Names = []
        self.chain: list[str] = []
        """Headers that the parser extracts one after the other, some of them."""
        self.varbit = self.chance(0.3)
        self.parser_errors = self.chance(0.4)
        self._make()
        self.text, self.text_for_p4c = _PROLOGUE + self.source(OURS), _PROLOGUE + self.source(P4C)

    def _make(self) -> None:
        self._types()
        self._functions()
        self._parser()
        with self.block("control V(inout Headers h, inout Meta m)"):
            self.emit("apply { }")
        control = self._inner_control()
        self._ingress(control)
        self._egress()
        with self.block("control D(packet_out p, in Headers h)"), self.block("apply"):
            for name in self._members():
                self.emit(f"p.emit(h.{name});")
        self.emit("V1Switch(P(), V(), I(), E(), V(), D()) main;")

    # ------------------------------------------------------------ types

    def _fields(self, prefix: str, count: int) -> Names:
        """Fields of whole bytes together."""
        fields = [(f"{prefix}{number}", self.kind()) for number in range(count)]
        rest = -sum(kind.width for _, kind in fields) % 8
        return [*fields, (f"{prefix}{count}", Kind(rest))] if rest else fields

    def _struct(self, word: str, name: str, fields: Names) -> None:
        with self.block(f"{word} {name}"):
            for one, kind in fields:
                self.emit(f"{kind} {one};")

    def _header(self, name: str) -> Names:
        fields = [("tag", Kind(8)), *self._fields("f", self.rng.randrange(1, 5))]
        self._struct("header", name, fields)
        return fields

    def _types(self) -> None:
        self.chain = [f"h{number}" for number in range(self.rng.randrange(2, 5))]
        for name in self.chain:
            self.headers[name] = self._header(name.upper())
        self.stack, self.union = self.chance(0.4), self.chance(0.4)
        if self.stack:
            fields = self._header("Element")
            self.headers |= {f"{STACK}[{number}]": fields for number in range(STACK_SIZE)}
        if self.union:
            self.headers |= {f"{UNION}.{member}": self._header(f"Union{member}") for member in "ab"}
            with self.block("header_union Either"):
                self.emit("Uniona a;")
                self.emit("Unionb b;")
        if self.varbit:
            with self.block("header Variable"):
                self.emit("varbit<56> bytes;")
        self.metadata = [(f"m{at}", self.kind()) for at in range(self.rng.randrange(3, 8))] + [("flag", BOOL)]
        self._struct("struct", "Meta", self.metadata)
        bits = sum(max(kind.width, 1) for _, kind in self.metadata)
        results = [(name, kind if kind.width else Kind(1)) for name, kind in self.metadata]
        padding = [("padding", Kind(-bits % 8))] if bits % 8 else []
        self._struct("header", "Result", [*results, *padding])
        self.padding = [name for name, _ in padding]
        with self.block("struct Headers"):
            kinds = {STACK: f"Element[{STACK_SIZE}]", UNION: "Either", "variable": "Variable", "result": "Result"}
            for name in self._members():
                self.emit(f"{kinds.get(name, name.upper())} {name};")

    def _members(self) -> list[str]:
        """Of the struct of headers."""
        some = [(self.varbit, "variable"), (self.stack, STACK), (self.union, UNION)]
        return [*self.chain, *(name for present, name in some if present), "result"]

    def _functions(self) -> None:
        for _ in range(self.rng.randrange(3)):
            name, returns = self.name("function"), self.kind()
            parameters = [(self.name("p"), self.kind()) for _ in range(self.rng.randrange(1, 4))]
            with self.block(f"{returns} {name}({', '.join(f'in {kind} {one}' for one, kind in parameters)})"):
                local, kind = self.name("v"), self.kind()
                self.emit(f"{kind} {local} = {self.expression(kind, Scope(list(parameters)))};")
                scope = Scope([*parameters, (local, kind)], [(local, kind)])
                self.statements(scope, self.rng.randrange(3), 1)
                if self.chance(0.4):
                    with self.block(f"if ({self.condition(scope)})"):
                        self.emit(f"return {self.expression(returns, scope)};")
                self.emit(f"return {self.expression(returns, scope)};")
            self.functions.append((name, returns, parameters))

    # ------------------------------------------------------------ parser

    def _parser(self) -> None:
        with self.block(f"parser P(packet_in p, out Headers h, {_REST})"):
            ends = ["accept"] + ["parse_stack"] * self.stack + ["parse_union"] * self.union
            for at, name in enumerate(self.chain):
                with self.block(f"state {'start' if at == 0 else f'parse_{name}'}"):
                    self.emit(f"p.extract(h.{name});")
                    if self.varbit and at == 0:
                        length = f"(bit<32>)h.{name}.tag[{self.rng.choice(('1:0', '2:1', '7:6'))}]"
                        self.emit(f"p.extract(h.variable, {length} << 3);")
                    if self.parser_errors and self.chance(0.6):
                        self.emit(f"verify(h.{name}.tag {self.rng.choice(('!= 1', '< 128', '>= 2'))}, error.Odd);")
                    self._transition(f"h.{name}", self.chain[at + 1 : at + 3], self.rng.choice(ends))
            if self.stack:
                with self.block("state parse_stack"):
                    self.emit(f"p.extract(h.{STACK}.next);")
                    with self.block(f"transition select(h.{STACK}.last.tag)"):
                        self.emit(f"{self._label()}: parse_stack;")
                        self.emit(f"default: {'parse_union' if self.union else 'accept'};")
            if self.union:
                with self.block("state parse_union"), self.block("transition select(p.lookahead<bit<8>>())"):
                    self.emit(f"{self._label()}: parse_a;")
                    self.emit("default: parse_b;")
                for member in "ab":
                    with self.block(f"state parse_{member}"):
                        self.emit(f"p.extract(h.{UNION}.{member});")
                        self.emit("transition accept;")

    def _label(self) -> str:
        return self.rng.choice(("8w0x0 &&& 8w0x1", "8w0 .. 8w127", "8w1", "8w0x80 &&& 8w0xf0", "8w3 .. 8w200"))

    def _transition(self, header: str, following: list[str], end: str) -> None:
        if not following:
            self.emit(f"transition {end};")
            return
        others = [f"{header}.{name}" for name, kind in self.headers[header[2:]][1:] if not kind.signed]
        second = self.rng.choice(others) if others and self.chance(0.3) else ""
        with self.block(f"transition select({header}.tag{f', {second}' * bool(second)})"):
            any_other = ", _" if second else ""
            self.emit(f"{f'({self._label()}{any_other})' if second else self._label()}: parse_{following[0]};")
            if len(following) > 1:
                value = f"8w{self.rng.randrange(256)}"
                self.emit(f"{f'({value}, 1)' if second else value}: parse_{following[1]};")
            self.emit(f"default: {end};")

    # ------------------------------------------------------------ controls

    def _scope(self) -> Scope:
        first = self.chain[0]
        sure = [(f"h.{first}.{name}", kind) for name, kind in self.headers[first]]
        places = sure + [(f"m.{name}", kind) for name, kind in self.metadata]
        readable = places + [("(s.parser_error == error.Odd)", BOOL)] * self.parser_errors
        return Scope(readable, list(places), [name for name in self.headers if name != first], switches=True)

    def _inner_control(self) -> Parameters | None:
        if self.chance(0.4):
            return None
        directions = ("in", "inout", "inout", "out")
        parameters = [(self.rng.choice(directions), self.kind()) for _ in range(self.rng.randrange(1, 4))]
        names = [(self.name("c"), direction, kind) for direction, kind in parameters]
        written = [(name, kind) for name, direction, kind in names if direction != "in"]
        head = ", ".join(f"{direction} {kind} {name}" for name, direction, kind in names)
        with self.block(f"control Inner({head})(bit<8> k)"):
            local, kind = self.name("v"), self.kind()
            scope = Scope([*((name, of) for name, _, of in names), ("k", Kind(8))], written, switches=True)
            self.emit(f"{kind} {local} = {self.literal(kind)};")
            scope.readable.append((local, kind))
            scope.writable.append((local, kind))
            scope.ends = ("return", "exit")
            with self.block("apply"):
                self._initialize_outputs(names)
                self.statements(scope, self.rng.randrange(1, 4), 1)
        return parameters

    def _initialize_outputs(self, names: list[tuple[str, str, Kind]]) -> None:
        for name, direction, kind in names:
            if direction == "out":
                self.emit(f"{name} = {self.literal(kind)};")

    def _ingress(self, control: Parameters | None) -> None:
        scope = self._scope()
        scope.ends = ("return", "exit")
        with self.block(f"control I(inout Headers h, {_REST})"):
            if control:
                scope.controls = [(self.name("inner"), control) for _ in range(self.rng.randrange(1, 3))]
                for name, _ in scope.controls:
                    self.emit(f"Inner(8w{self.rng.randrange(256)}) {name};")
            if self.chance(0.3):
                scope.registers = [(self.name("register"), Kind(self.rng.choice((8, 16, 32, 33))))]
                for name, kind in scope.registers:
                    self.emit(f"register<{kind}>({CELLS}) {name};")
            for _ in range(self.rng.randrange(3)):
                scope.actions = [*scope.actions, self._action(scope)]
            in_tables = [self._action(scope, in_table=True) for _ in range(self.rng.randrange(1, 4))]
            scope.tables = [self._table(scope, in_tables) for _ in range(self.rng.randrange(1, 4))]
            with self.block("apply"), self.block(f"if (h.{self.chain[0]}.isValid())"):
                self.emit("s.egress_spec = 9w1;")
                for name, kind in self.metadata:
                    self.emit(f"m.{name} = {self._initial(kind)};")
                self.statements(scope, self.rng.randrange(5, 12), 2)

    def _initial(self, kind: Kind) -> str:
        first = self.chain[0]
        return self.leaf(kind, Scope([(f"h.{first}.{name}", of) for name, of in self.headers[first]]))

    def _egress(self) -> None:
        head, guard = f"control E(inout Headers h, {_REST})", f"if (h.{self.chain[0]}.isValid())"
        with self.block(head), self.block("apply"), self.block(guard):
            if self.chance(0.5):
                self.statements(self._scope(), self.rng.randrange(1, 4), 1)
            self.emit("h.result.setValid();")
            for name, kind in self.metadata:
                self.emit(f"h.result.{name} = {f'(bit<1>)m.{name}' if kind == BOOL else f'm.{name}'};")
            for name in self.padding:
                self.emit(f"h.result.{name} = 0;")

    # ------------------------------------------------------------ actions and tables

    def _action(self, scope: Scope, *, in_table: bool = False) -> Action:
        directions = ("in", "inout", "out")
        count = self.rng.randrange(3) if not in_table or self.chance(0.3) else 0
        parameters = [(self.rng.choice(directions), self.kind()) for _ in range(count)]
        # Controllers of BMv2 know bits only.
        data = [Kind(self.kind().width) for _ in range(self.rng.randrange(3))] if in_table else []
        action = Action(self.name("action"), parameters, data)
        names = [(self.name("a"), direction, kind) for direction, kind in [*parameters, *(("", one) for one in data)]]
        head = ", ".join(f"{direction} {kind} {one}".strip() for one, direction, kind in names)
        start = len(self.lines)
        with self.block(f"action {action.name}({head})"):
            self._initialize_outputs(names)
            readable = [(one, kind) for one, _, kind in names]
            writable = [(one, kind) for one, direction, kind in names if "out" in direction]
            inner = replace(
                scope,
                readable=[*scope.readable, *readable],
                writable=[*scope.writable, *writable],
                actions=[one for one in scope.actions if not one.copies_out_on_exit],
                tables=[],
                controls=[],
                loops=True,
                switches=False,
            )
            self.statements(inner, self.rng.randrange(1, 4), 1 if self.chance(0.4) else 0)
        ends = ("exit;", *(f"{one.name}(" for one in inner.actions if one.exits))
        return replace(action, exits=any(end in line for line, _ in self.lines[start:] for end in ends))

    def _table(self, scope: Scope, actions: list[Action]) -> Table:
        uses = {action.name: self.arguments(action.parameters, scope) for action in actions}
        listed = [action for action in actions if uses[action.name] is not None]
        table = Table(self.name("table"), [*(action.name for action in listed), "NoAction"])
        with self.block(f"table {table.name}"):
            keys = self._keys(scope)
            with self.block("actions ="):
                for action in listed:
                    bound = ", ".join(uses[action.name] or ())
                    self.emit(f"{action.name}{f'({bound})' if bound else ''};")
                self.emit("NoAction;")
            if listed and self.chance(0.6):
                self.emit(f"default_action = {self._use(self.rng.choice(listed), uses)};")
            if listed and self.chance(0.25):
                self._entries(keys, listed, uses)
            self.emit("size = 64;")
        return table

    def _keys(self, scope: Scope) -> list[tuple[str, Kind]]:
        """Match kinds and types of the keys."""
        places = [(name, kind) for name, kind in scope.writable if not kind.signed]
        made: list[tuple[str, Kind]] = []
        with self.block("key ="):
            for name, kind in self.rng.sample(places, min(len(places), self.rng.randrange(1, 4))):
                match = self.rng.choice(("exact", "exact", "ternary", "lpm", "range", "optional"))
                if kind == BOOL or (match == "lpm" and (kind.width % 8 or any(other == "lpm" for other, _ in made))):
                    match = "exact"
                made.append((match, kind))
                if kind != BOOL and self.chance(0.15):
                    name = f'({name} {self.rng.choice("+^")} {self.literal(kind)}): {match} @name("{self.name("key")}")'
                    self.emit(f"{name};")
                else:
                    self.emit(f"{name}: {match};")
        return made

    def _use(self, action: Action, uses: dict[str, list[str] | None]) -> str:
        return f"{action.name}({', '.join([*(uses[action.name] or ()), *map(self.literal, action.data)])})"

    def _entries(self, keys: list[tuple[str, Kind]], actions: list[Action], uses: dict[str, list[str] | None]) -> None:
        taken: set[str] = set()
        with self.block("const entries ="):
            for _ in range(self.rng.randrange(1, 5)):
                sets = ", ".join(self._set(match, kind) for match, kind in keys)
                if sets not in taken:
                    taken.add(sets)
                    self.emit(f"({sets}): {self._use(self.rng.choice(actions), uses)};")

    def _set(self, match: str, kind: Kind) -> str:
        """What an entry says of a key."""
        if match == "exact" or kind == BOOL:
            return self.literal(kind) if kind == BOOL else f"{kind.width}w{self.rng.randrange(1 << min(kind.width, 4))}"
        width = kind.width
        value, top = self.rng.randrange(1 << width), 1 << width
        if match == "optional" or self.chance(0.2):
            every = f"{width}w0 .. {width}w{top - 1}" if match == "range" and width > 31 else "_"
            return self.rng.choice((every, f"{width}w{value}"))
        if match == "range":
            low, high = sorted((value, self.rng.randrange(top)))
            return f"{width}w{low} .. {width}w{high}"
        prefix = self.rng.randrange(1, width + 1)
        mask = (top - 1) & ~((1 << (width - prefix)) - 1) if match == "lpm" else self.rng.randrange(1, top)
        return f"{width}w{value & mask} &&& {width}w{mask}"


def for_p4c(path: Path) -> Path:
    """The file that p4c gets in place of another one."""
    rewritten = path.with_suffix(".p4c.p4")
    return rewritten if rewritten.exists() else path


def write_programs(folder: Path, count: int, seed: int) -> list[Path]:
    """Write programs; their seeds are `seed` and those that follow."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(seed, seed + count):
        path, program = folder / f"random_{number:05}.p4", Program(number)
        path.write_text(program.text)
        rewritten = path.with_suffix(".p4c.p4")
        rewritten.unlink(missing_ok=True)
        if program.text_for_p4c != program.text:
            rewritten.write_text(program.text_for_p4c)
        paths.append(path)
    return paths
