# SPDX-License-Identifier: Apache-2.0
"""Actions with their arguments between `p4r.Action` and tuples of integers (spec, "Action Specification")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from detour.engine.compiler import model
from detour.engine.p4runtime.bytestrings import encode, out_of_range
from detour.engine.p4runtime.errors import Code, Refused, invalid

_Scope = p4i.ActionRef.Scope


class ActionCodec:
    """One action of P4Info."""

    def __init__(self, id_: int, name: str, params: list[tuple[int, str, int]]) -> None:
        """`params`: (id, name, bits) in the order of the BMv2 JSON."""
        self.id, self.name, self.params = id_, name, params
        self._slots = {p[0]: (i, p[2], p[1]) for i, p in enumerate(params)}
        self._blank: list[int | None] = [None] * len(params)

    def decode(self, params: Iterable[p4r.Action.Param]) -> tuple[int, ...]:
        """The arguments in the order of the JSON. Every parameter must be given once."""
        values = self._blank.copy()
        slots = self._slots
        for p in params:
            slot = slots.get(p.param_id)
            if slot is None:
                raise invalid(f"action '{self.name}' has no parameter {p.param_id}")
            at, bits, name = slot
            if values[at] is not None:
                raise invalid(f"action '{self.name}': parameter '{name}' is given twice")
            data = p.value
            value = int.from_bytes(data, "big")
            if value >> bits or not data:
                raise out_of_range(data, bits, f"action '{self.name}': parameter '{name}'")
            values[at] = value
        if None in values:
            missing = self.params[values.index(None)][1]
            raise invalid(f"action '{self.name}': parameter '{missing}' is missing")
        return tuple(values)  # type: ignore[arg-type]

    def encode(self, values: tuple[int, ...], into: p4r.Action) -> None:
        """Fill in an action message."""
        into.action_id = self.id
        for (id_, _, _), value in zip(self.params, values, strict=True):
            p = into.params.add()
            p.param_id, p.value = id_, encode(value)


@dataclass(frozen=True, slots=True)
class TableAction:
    """An action as a table may use it. `key` is the id by which the engine knows it in this table."""

    codec: ActionCodec
    key: int
    scope: int


class TableActions:
    """The actions that one table (or the tables of an action profile) may run."""

    def __init__(self, where: str, refs: list[TableAction]) -> None:
        self.where = where
        self.by_id = {r.codec.id: r for r in refs}
        # p4c copies an action for each table that uses it, so an action is known by its name.
        self._by_name = {r.codec.name: r.codec for r in refs}
        self.no_action = self._by_name["NoAction"].id if "NoAction" in self._by_name else 0
        """P4Info id of core.p4's action that does nothing; 0 if it is not one of them"""

    def decode(self, action: p4r.Action, default: bool = False) -> tuple[int, tuple[int, ...]]:
        """(the engine's id, arguments) of an action in an entry, or in the default entry."""
        ref = self.by_id.get(action.action_id)
        if ref is None:
            raise invalid(f"{self.where}: {action.action_id:#x} is not one of its actions")
        if ref.scope and ref.scope == (_Scope.TABLE_ONLY if default else _Scope.DEFAULT_ONLY):
            place = "the default entry" if default else "an entry"
            raise Refused(Code.PERMISSION_DENIED, f"{self.where}: action '{ref.codec.name}' may not be in {place}")
        return ref.key, ref.codec.decode(action.params)

    def encode(self, action: model.ActionIr, params: tuple[int, ...], into: p4r.Action) -> None:
        """Fill in the message for an action as read back from the engine."""
        codec = self._by_name.get(action.name)
        if codec is not None:  # const entries may run an action that P4Info hides
            codec.encode(params, into)
