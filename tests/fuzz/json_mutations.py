# SPDX-License-Identifier: Apache-2.0
"""Mutations of BMv2 JSON that know what it is made of: keys, types, ids, widths, names, edges of graphs."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Json = Any
Place = tuple[Any, Any]
"""A dict or list and a key or index in it."""

_EDGES = ("next_state", "init_state", "true_next", "false_next", "base_default_next", "init_table", "next_node")
_WIDTHS = ("bitwidth", "compressed_bitwidth", "max_length", "size", "max_size", "rate_count", "prefix_length")
_NUMBERS = (-1, -8, 0, 1, 2, 7, 9, 63, 65, 129, 2047, 2049, 65537, 1 << 20, 1 << 31, 1 << 63, 10**30, -(1 << 40))
_HEX = ("0x", "-0x1", "0xzz", "", "0x" + "f" * 40, "0x" + "1" + "0" * 600, "0x10000", "0x7fffffff", "-0x80000000", "12")
_OTHERS = (
    None, True, False, 1.5, float("nan"), [], {}, [[]], {"type": "field"}, "x", "\ud800", 'a"b\n\0', "%v1", "é" * 99,
)  # fmt: skip
_DEEP_TEXT = '{"a":' * 3000 + "1" + "}" * 3000


class Mutator:
    """Makes mutants of documents; `donors` are documents whose parts they may get."""

    def __init__(self, donors: list[Json], rng: random.Random) -> None:
        self._donors, self._rng = donors, rng
        self._ways: list[tuple[int, Callable[[Json, Place], None]]] = [
            (4, self._delete), (3, self._other_type), (5, self._number), (5, self._like_another),
            (3, self._from_donor), (3, self._duplicate), (2, self._shuffle), (1, self._nest),
        ]  # fmt: skip

    def mutant(self, text: str) -> str:
        """The text of a mutant."""
        document = json.loads(text)
        with suppress(RecursionError):
            for _ in range(self._rng.choice((1, 1, 1, 2, 3, 8))):
                self._mutate(document)
        try:
            text = json.dumps(document)
        except RecursionError:  # nested several times
            return _DEEP_TEXT
        return self._spoil(text) if self._rng.random() < 0.03 else text

    def _mutate(self, document: Json) -> None:
        kind = self._rng.random()
        if kind < 0.2:
            self._rewire(document)
        elif kind < 0.35:
            self._resize(document)
        else:
            place = self._any_place(document)
            if place is not None:
                weights, ways = zip(*self._ways, strict=True)
                self._rng.choices(ways, weights)[0](document, place)

    def _any_place(self, document: Json) -> Place | None:
        """Walks down from the root; deep places are as likely as shallow ones."""
        node, places = document, []
        while isinstance(node, dict | list) and node:
            keys = [k for k in node if k != "source_info"] or list(node) if isinstance(node, dict) else range(len(node))
            key = self._rng.choice(keys)
            places.append((node, key))
            node = node[key]
        return self._rng.choice(places[-4:]) if places else None

    def _places(self, document: Json, keys: tuple[str, ...]) -> list[Place]:
        """Where any of the keys is."""
        places: list[Place] = []
        todo = [document]
        while todo:
            node = todo.pop()
            if isinstance(node, dict):
                places += [(node, k) for k in node if k in keys]
                todo.extend(node.values())
            elif isinstance(node, list):
                todo.extend(node)
        return places

    # -- ways to mutate

    def _delete(self, _: Json, place: Place) -> None:
        del place[0][place[1]]

    def _other_type(self, _: Json, place: Place) -> None:
        place[0][place[1]] = copy.deepcopy(self._rng.choice(_OTHERS))

    def _number(self, _: Json, place: Place) -> None:
        """Another number, in whatever way the one that is there is written."""
        old = place[0][place[1]]
        if isinstance(old, str):
            place[0][place[1]] = self._rng.choice(_HEX)
        elif isinstance(old, int) and self._rng.random() < 0.5:
            place[0][place[1]] = old + self._rng.choice((-1, 1, 1000))
        else:
            place[0][place[1]] = self._rng.choice(_NUMBERS)

    def _like_another(self, document: Json, place: Place) -> None:
        """What stands behind the same key elsewhere: confuses ids, names and kinds of expressions."""
        others = self._places(document, (place[1],)) if isinstance(place[1], str) else []
        if others:
            node, key = self._rng.choice(others)
            place[0][place[1]] = copy.deepcopy(node[key])

    def _from_donor(self, _: Json, place: Place) -> None:
        donor = self._rng.choice(self._donors)
        others = self._places(donor, (place[1],)) if isinstance(place[1], str) else []
        if others:
            node, key = self._rng.choice(others)
            place[0][place[1]] = copy.deepcopy(node[key])

    def _duplicate(self, _: Json, place: Place) -> None:
        node, key = place
        if isinstance(node, list):
            node.insert(self._rng.randrange(len(node) + 1), copy.deepcopy(node[key]))
        elif isinstance(node[key], list) and node[key]:
            node[key].extend(copy.deepcopy(node[key]) * self._rng.choice((1, 1, 2, 40)))

    def _shuffle(self, _: Json, place: Place) -> None:
        node = place[0]
        if isinstance(node, list):
            self._rng.shuffle(node)
        else:
            values = list(node.values())
            self._rng.shuffle(values)
            node.update(zip(list(node), values, strict=True))

    def _nest(self, _: Json, place: Place) -> None:
        """Expressions in expressions."""
        value = place[0][place[1]]
        for _level in range(self._rng.choice((1, 20, 100, 240))):
            value = {"type": "expression", "value": {"op": "~", "left": None, "right": value}}
        place[0][place[1]] = value

    def _rewire(self, document: Json) -> None:
        """Another edge of the parser's or the pipelines' graph: cycles, unreachable nodes, nodes of the other graph."""
        places = self._places(document, _EDGES)
        nexts = [node[key] for node, key in self._places(document, ("next_tables",))]
        places += [(t, k) for t in nexts if isinstance(t, dict) for k in t]
        names = [n[k] for n, k in self._places(document, ("name",)) if isinstance(n[k], str)]
        edges = [node[key] for node, key in places]
        if places:
            node, key = self._rng.choice(places)
            node[key] = self._rng.choice(self._rng.choice((edges, edges, names, [None, "nowhere"])) or [None])

    def _resize(self, document: Json) -> None:
        """Another width or size."""
        places = self._places(document, _WIDTHS)
        for node, key in self._places(document, ("fields",)):
            if isinstance(node[key], list):
                places += [(f, 1) for f in node[key] if isinstance(f, list) and len(f) > 1]
        if places:
            node, key = self._rng.choice(places)
            choices = (*_NUMBERS, "*") if key == 1 else _NUMBERS
            node[key] = self._rng.choice(choices)

    def _spoil(self, text: str) -> str:
        """No JSON any more, or JSON that is deeper than Python can recurse."""
        kind, at = self._rng.randrange(4), self._rng.randrange(len(text))
        if kind == 0:
            return text[:at]
        if kind == 1:
            return text[:at] + self._rng.choice(("\0", "{", "]", '"', "1e999", "\ud800")) + text[at + 1 :]
        if kind == 2:
            return _DEEP_TEXT
        return '{"header_types":' + "[" * 100_000 + "]" * 100_000 + "}"
