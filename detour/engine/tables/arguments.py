# SPDX-License-Identifier: Apache-2.0
"""Actions with their arguments, between Python and the words of a record."""

from __future__ import annotations

from collections.abc import Sequence

from detour.engine.compiler.model import ActionIr
from detour.engine.tables.errors import TableError

_WORD = (1 << 64) - 1


class Arguments:
    """Encodes the actions of one table or action profile. `everything` maps the index in records back."""

    def __init__(self, owner: str, actions: tuple[ActionIr, ...], everything: list[ActionIr]) -> None:
        self._owner = owner
        self._everything = everything
        self._by_name: dict[str | int, ActionIr] = {a.id: a for a in actions}
        self._by_name.update({a.name: a for a in reversed(actions)})
        # Index, bits of the parameters, and whether each of them is unsigned and fits one word.
        self._plans = {
            name: (a.index, [p.bits for p in a.params], all(p.words == 1 and not p.signed for p in a.params))
            for name, a in self._by_name.items()
        }

    def action(self, name: str | int) -> ActionIr:
        """The action with that name or JSON id."""
        action = self._by_name.get(name)
        if action is None:
            names = ", ".join(sorted(n for n in self._by_name if isinstance(n, str)))
            raise TableError(f"{self._owner}: action {name!r} is not one of {names}")
        return action

    def encode(self, name: str | int, params: tuple[int, ...]) -> list[int]:
        """The action's index, then the words of its arguments."""
        plan = self._plans.get(name)
        if plan is not None and plan[2] and len(plan[1]) == len(params):
            for value, bits in zip(params, plan[1], strict=True):
                if value >> bits:
                    break
            else:
                return [plan[0], *params]
        return self._encode_checked(name, params)

    def _encode_checked(self, name: str | int, params: tuple[int, ...]) -> list[int]:
        action = self.action(name)
        if len(params) != len(action.params):
            raise TableError(
                f"{self._owner}: action {action.name} takes {len(action.params)} arguments, not {len(params)}"
            )
        words = [action.index]
        for p, value in zip(action.params, params, strict=True):
            if value >> p.bits and not (p.signed and -(1 << (p.bits - 1)) <= value < 0):
                raise TableError(f"{self._owner}: {action.name}({p.name}={value:#x}) exceeds {p.bits} bits")
            words.append(value & _WORD)
            for i in range(1, p.words):
                words.append((value >> (64 * i)) & _WORD)
        return words

    def decode(self, words: Sequence[int]) -> tuple[ActionIr, tuple[int, ...]]:
        """The action and its arguments; negative constants come back as two's complement."""
        action = self._everything[words[0]]
        values = []
        for p in action.params:
            at = 1 + p.offset
            value = sum(words[at + i] << (64 * i) for i in range(p.words))
            values.append(value & ((1 << p.bits) - 1))
        return action, tuple(values)
