# SPDX-License-Identifier: Apache-2.0
"""Ids, aliases and names of P4Info's objects (P4Runtime specification, sections 6.3 and 6.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from detour.p4 import core
from detour.p4.messages import Messages

ID_BITS = 24
"""Bits of an id below the byte that tells the kind of the object."""


class _Annotated(Protocol):
    @property
    def annotations(self) -> tuple[core.Annotation, ...]: ...


Item = TypeVar("Item", bound=_Annotated)


def hashed(name: str) -> int:
    """Bob Jenkins's one-at-a-time hash of a name, 32 bits."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def given_id(annotations: tuple[core.Annotation, ...]) -> int | None:
    """The number in `@id`."""
    number = core.annotated(annotations, "id")
    return number if isinstance(number, int) else None


class Objects:
    """The objects of one kind, in the order in which P4Info lists them, with their ids."""

    def __init__(self, prefix: int, what: str) -> None:
        self.prefix = prefix
        self.what = what
        self.names: dict[str, core.Declaration | None] = {}
        self.owners: dict[str, object] = {}
        self.ids: dict[str, int] = {}

    def add(self, name: str, declaration: core.Declaration | None, messages: Messages, owner: object = None) -> bool:
        """Add a name, and return whether it is new. It is an error to give a name to two objects: to two declarations,
        or to one in two instances (`owner`) of a control.
        """
        if name not in self.names:
            self.names[name] = declaration
            self.owners[name] = owner
            return True
        if declaration is not None and (self.names[name] is not declaration or self.owners[name] is not owner):
            messages.error(
                declaration.span,
                f"two {self.what}s have the control-plane name {name}",
                "give one of them another name with @name",
            )
        return False

    def number(self, messages: Messages) -> None:
        """Give all objects ids. Ids in the source go first, then those of names, in their order."""
        used: dict[int, str] = {}
        for name, declaration in self.names.items():
            given = given_id(declaration.annotations) if declaration else None
            if given is None:
                continue
            assert declaration is not None
            identifier = given if given >> ID_BITS else self.prefix << ID_BITS | given
            is_taken = identifier in used
            if is_taken or identifier >> ID_BITS != self.prefix:
                why = (
                    f"{used[identifier]} has it"
                    if identifier in used
                    else f"ids of {self.what}s begin with another byte"
                )
                messages.error(declaration.span, f"{name} cannot have the id {given:#x}: {why}")
            used[identifier] = name
            self.ids[name] = identifier
        for name in self.names:
            if name not in self.ids:
                low = hashed(name)
                while (identifier := self.prefix << ID_BITS | low & ((1 << ID_BITS) - 1)) in used:
                    low += 1
                used[identifier] = name
                self.ids[name] = identifier


def aliases(names: set[str]) -> dict[str, str]:
    """The shortest suffix of each name, at a dot, that no other name has. Objects of different kinds may have the same
    name, and then have the same alias.
    """
    suffixes: dict[str, int] = {}
    for name in names:
        for suffix in _suffixes(name):
            suffixes[suffix] = suffixes.get(suffix, 0) + 1
    return {name: next((one for one in _suffixes(name) if suffixes[one] == 1), name) for name in names}


def _suffixes(name: str) -> list[str]:
    """Suffixes of a name, the shortest first: `c`, `b.c`, `a.b.c`."""
    words = name.split(".")
    return [".".join(words[at:]) for at in reversed(range(len(words)))]


def numbered(items: Sequence[Item]) -> list[tuple[int, Item]]:
    """Match fields, parameters or metadata with their ids: what `@id` says, else the place (from 1), or the next free
    one.
    """
    given = [given_id(one.annotations) for one in items]
    used = set(given)
    ids: list[int] = []
    for place, one in enumerate(given, 1):
        if one is None:
            one = place
            while one in used:
                one += 1
            used.add(one)
        ids.append(one)
    return list(zip(ids, items, strict=True))
