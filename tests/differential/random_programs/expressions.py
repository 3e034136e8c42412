# SPDX-License-Identifier: Apache-2.0
"""Random expressions of a type."""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.random_programs.source import BOOL, Kind, Scope, Source


class Expressions(Source):
    """Values and conditions of what is in scope."""

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
        """A cast; between signed and unsigned of other widths expected at least two."""
        if of == to:
            return text
        if of.width == 1 and to.signed:
            return f"({to})(bit<{to.width}>){text}"
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
