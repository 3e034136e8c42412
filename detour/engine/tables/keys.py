# SPDX-License-Identifier: Apache-2.0
"""Table keys, between tuples of Python values and the packed words that are hashed and compared."""

from __future__ import annotations

from typing import Any, NamedTuple

from detour.engine.compiler.model import KeyField
from detour.engine.compiler.slots import KeyLayout
from detour.engine.tables.errors import TableError
from detour.engine.tables.hashing import PackedKey

_REMEMBERED = 4096


class Match(NamedTuple):
    """A key in canonical form. `identity` tells entries apart (also by priority); `prefix`: the LPM field's length."""

    identity: int | tuple[Any, ...]
    key: PackedKey
    mask: PackedKey
    bounds: tuple[tuple[int, int], ...]
    prefix: int


class KeyCodec:
    """Checks and packs the keys of one table."""

    def __init__(self, table: str, fields: tuple[KeyField, ...], layout: KeyLayout) -> None:
        self._table, self._fields, self._layout = table, fields, layout
        self._words = layout.words
        # Position of each field in the key seen as one integer.
        self._shifts = [64 * p.word + p.shift for p in layout.places]
        self._full = [(1 << f.bits) - 1 for f in fields]
        # What the program itself masks off the packet's value before matching.
        static = [f.mask if f.mask is not None else (1 << f.bits) - 1 for f in fields]
        self._exact_plan = tuple(zip(self._full, static, self._shifts, strict=True))
        self._plan = tuple(
            (f.match_type, f.name, full, cover, shift, _prefix_masks(f))
            for f, (full, cover, shift) in zip(fields, self._exact_plan, strict=True)
        )
        self._masks: dict[int, PackedKey] = {}
        self._exact = all(f.match_type == "exact" for f in fields)
        self._exact_mask = self._split(sum(full << shift for full, shift in zip(self._full, self._shifts, strict=True)))

    def _split(self, value: int) -> PackedKey:
        if self._words == 1:
            return (value,)
        if self._words == 2:
            return (value & 0xFFFFFFFFFFFFFFFF, value >> 64)
        return tuple((value >> (64 * i)) & 0xFFFFFFFFFFFFFFFF for i in range(self._words))

    def encode(self, key: tuple[Any, ...], priority: int = 0) -> Match:
        """The canonical form of a key; bits outside masks and prefixes are cleared. `priority`: part of the identity in
        ternary and range tables, 0 in others."""
        if len(key) != len(self._fields):
            raise TableError(f"{self._table}: the key has {len(self._fields)} fields, not {len(key)}")
        try:
            return self._encode_exact(key) if self._exact else self._encode_masked(key, priority)
        except (TypeError, ValueError) as e:
            raise TableError(f"{self._table}: {key} is not a key of this table: {e}") from e

    def _encode_exact(self, key: tuple[int, ...]) -> Match:
        packed = 0
        for value, (full, static, shift) in zip(key, self._exact_plan, strict=True):
            if not 0 <= value <= full:
                self._too_wide(value, key)
            packed |= (value & static) << shift
        words = self._split(packed)
        return Match(packed, words, self._exact_mask, (), 0)

    def _encode_masked(self, key: tuple[Any, ...], priority: int) -> Match:
        packed = mask = prefix = 0
        bounds: tuple[tuple[int, int], ...] = ()
        for element, (kind, name, full, static, shift, prefix_masks) in zip(key, self._plan, strict=True):
            if kind == "ternary":
                value, m = element if type(element) is tuple else _ternary(element, full)
            elif kind == "lpm":
                value, prefix = element
                if not 0 <= prefix < len(prefix_masks):
                    raise TableError(f"{self._table}: {name} has {len(prefix_masks) - 1} bits, not {prefix}")
                m = prefix_masks[prefix]
            elif kind == "exact":
                value, m = element, full
            else:
                low, high = element
                if not 0 <= low <= high <= full:
                    raise TableError(f"{self._table}: {name}: {low}..{high} is not a range")
                bounds = (*bounds, (low, high))
                continue
            if not (0 <= value <= full and 0 <= m <= full):
                self._too_wide(value, key)
            packed |= (value & m & static) << shift
            mask |= m << shift
        # Masks are few: entries share the tuple.
        mask_words = self._masks.get(mask) or self._new_mask(mask)
        return Match((packed, mask, priority, *bounds), self._split(packed), mask_words, bounds, prefix)

    def _new_mask(self, mask: int) -> PackedKey:
        if len(self._masks) >= _REMEMBERED:
            self._masks.clear()
        words = self._masks[mask] = self._split(mask)
        return words

    def _too_wide(self, value: int, key: tuple[Any, ...]) -> None:
        raise TableError(f"{self._table}: {value:#x} is too wide for its field in {key}")

    def decode(self, match: Match) -> tuple[Any, ...]:
        """The key that `encode` was given, in canonical form."""
        packed = sum(w << (64 * i) for i, w in enumerate(match.key))
        mask = sum(w << (64 * i) for i, w in enumerate(match.mask))
        bounds = iter(match.bounds)
        key: list[Any] = []
        for f, full, shift in zip(self._fields, self._full, self._shifts, strict=True):
            value = packed >> shift & full
            match f.match_type:
                case "exact":
                    key.append(value)
                case "lpm":
                    key.append((value, match.prefix))
                case "ternary":
                    key.append((value, mask >> shift & full))
                case _:
                    key.append(next(bounds))
        return tuple(key)


def _prefix_masks(field: KeyField) -> tuple[int, ...]:
    """The mask of every prefix length, for LPM fields."""
    if field.match_type != "lpm":
        return ()
    return tuple(((1 << length) - 1) << (field.bits - length) for length in range(field.bits + 1))


def _ternary(element: Any, full: int) -> tuple[int, int]:
    if element is None:
        return 0, 0
    if isinstance(element, int):
        return element, full
    value, mask = element
    return value, mask
