# SPDX-License-Identifier: Apache-2.0
"""The choice of packets to trace: a text such as `dst h71 and udp and not port 3`, or `dropped or waited > 10us`.

| written | holds for packets |
|---|---|
| `src ADDRESS[/LENGTH]`, `dst ...`, `host ...` | from, to, or either; IPv4 or IPv6, or the name of a host |
| `sport N`, `dport N` | of that UDP or TCP port |
| `proto N`, `tcp`, `udp`, `icmp`, `icmp6`, `ip`, `ip6`, `arp` | of that protocol |
| `port N` | that came in by that port of the switch |
| `bytes N` | of that length |
| `dropped`, `marked` | that were dropped, that left with ECN's mark and came without it |
| `waited > TIME` | that waited longer in a queue |

with `and`, `or`, `not` and brackets. What stands in the packet is looked at before it is traced, by native code; what
becomes of it, afterwards: until then all packets that could be wanted are traced.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.base.quantities import time_ps_of, whole_number_of
from detour.engine.trace.matching import Key, read_key
from detour.engine.trace.tree import Dropped, Output, Visit

AddressOf = Callable[[str], str | None]
"""a name -> its address, or None"""

_ALL = (1 << 64) - 1
_WORDS = re.compile(r"\s*(?:([()]|>=|>|<=|<)|([^\s()<>=]+))")
_PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "icmp6": 58}
_FAMILIES = {"ip": 0x0800, "ip6": 0x86DD, "arp": 0x0806}
_SIDES = {"src": ("SOURCE",), "dst": ("DESTINATION",), "host": ("SOURCE", "DESTINATION")}
_NUMBERS = {
    # word: what it compares, and the greatest number that may follow
    "sport": (Key.SOURCE_PORT, 0xFFFF),
    "dport": (Key.DESTINATION_PORT, 0xFFFF),
    "port": (Key.INGRESS_PORT, 511),
    "bytes": (Key.LENGTH, 1 << 17),
}
_MOST_ALTERNATIVES = 256


class FilterError(DetourError):
    """A filter that does not parse; says where."""


@dataclass(frozen=True, slots=True)
class KeyCondition:
    """(word of the packet's key & mask) == value."""

    key: Key
    mask: int
    value: int


@dataclass(frozen=True, slots=True)
class Became:
    """The fate of a packet: `dropped`, `marked`, or `waited` longer than so many ps."""

    what: str
    ps: int = 0


@dataclass(frozen=True, slots=True)
class Negated:
    """not."""

    of: Any


@dataclass(frozen=True, slots=True)
class Joined:
    """`and` or `or`."""

    how: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Filter:
    """A filter that was read. `expression` None: everything."""

    text: str
    expression: Any = None

    @property
    def looks_back(self) -> bool:
        """Return whether it depends on what becomes of a packet."""
        return any(isinstance(each, Became) for each in _atoms(self.expression))

    def words(self) -> Int64Array:
        """For native code: a number of alternatives, and for each how many conditions and those."""
        alternatives = [()] if self.expression is None else _alternatives(self.expression, False)
        words = [len(alternatives)]
        for conditions in alternatives:
            words.append(len(conditions))
            for condition, negated in conditions:
                words += [condition.key, condition.mask, condition.value, int(negated)]
        return np.array(words, np.uint64).view(np.int64)

    def keeps(self, visit: Visit, tick_ps: int) -> bool:
        """Return whether a packet that was traced is wanted."""
        return self.expression is None or not self.looks_back or _holds(self.expression, visit, tick_ps)


EVERYTHING = Filter("")


def parse_filter(text: str, address_of: AddressOf = lambda name: None) -> Filter:
    """Read a filter. `address_of`: for names of hosts. Raises FilterError if it does not parse; the message shows
    where."""
    return Filter(text, _Parser(text, address_of).whole())


class _Parser:
    """Recursive descent over words."""

    def __init__(self, text: str, address_of: AddressOf) -> None:
        self._text, self._address_of = text, address_of
        self._words: list[tuple[str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            match = _WORDS.match(text, at)
            if match is None:
                raise self._error("unexpected text", at)
            self._words.append((match[match.lastindex or 0], match.start(match.lastindex or 0)))
            at = match.end()
        self._at = 0

    def whole(self) -> Any:
        if not self._words:
            return None
        expression = self._either()
        if self._at < len(self._words):
            raise self._here("'and' or 'or' is missing before")
        return expression

    def _either(self) -> Any:
        return self._joined("or", lambda: self._joined("and", self._one))

    def _joined(self, how: str, part: Callable[[], Any]) -> Any:
        parts = [part()]
        while self._peek() == how:
            self._at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Joined(how, tuple(parts))

    def _one(self) -> Any:
        word = self._next("a condition")
        if word == "not":
            return Negated(self._one())
        if word == "(":
            inner = self._either()
            if self._next("')'") != ")":
                raise self._here("')' is missing at", back=1)
            return inner
        if word in _PROTOCOLS:
            return KeyCondition(Key.PROTOCOL, _ALL, _PROTOCOLS[word])
        if word in _FAMILIES:
            return KeyCondition(Key.ETHERTYPE, _ALL, _FAMILIES[word])
        if word in ("dropped", "marked"):
            return Became(word)
        if word in _SIDES:
            return self._address(_SIDES[word])
        if word in _NUMBERS:
            return self._number(*_NUMBERS[word])
        if word == "proto":
            if self._peek() in _PROTOCOLS:
                return KeyCondition(Key.PROTOCOL, _ALL, _PROTOCOLS[self._next("")])
            return self._number(Key.PROTOCOL, 255, "a protocol")
        if word == "waited":
            return self._waited()
        raise self._here("no condition is called", back=1)

    def _number(self, key: Key, most: int, what: str = "a number") -> KeyCondition:
        word = self._next(what)
        try:
            return KeyCondition(key, _ALL, whole_number_of(word, most, 0))
        except DetourError:
            raise self._here(f"a number from 0 to {most} should be at", back=1) from None

    def _waited(self) -> Became:
        if self._next("'>'") not in (">", ">="):
            raise self._here("'>' should be at", back=1)
        word = self._next("a time")
        try:
            return Became("waited", time_ps_of(word))
        except (DetourError, ValueError):
            raise self._here("a time such as 10us should be at", back=1) from None

    def _address(self, sides: tuple[str, ...]) -> Any:
        word = self._next("an address")
        try:
            network = ipaddress.ip_network(self._address_of(word) or word, strict=False)
        except ValueError:
            raise self._here("an address, or a host's name, should be at", back=1) from None
        either = tuple(_prefix(side, network) for side in sides)
        return either[0] if len(either) == 1 else Joined("or", either)

    def _peek(self) -> str | None:
        return self._words[self._at][0] if self._at < len(self._words) else None

    def _next(self, what: str) -> str:
        if self._at >= len(self._words):
            raise self._error(f"{what} is missing at the end", len(self._text))
        self._at += 1
        return self._words[self._at - 1][0]

    def _here(self, what: str, back: int = 0) -> FilterError:
        word, at = self._words[self._at - back]
        return self._error(f"{what} '{word}'", at)

    def _error(self, what: str, at: int) -> FilterError:
        return FilterError(f'filter: {what}, position {at + 1} of "{self._text}"')


def _prefix(side: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> Joined:
    """Conditions on an address of a side."""
    value, mask = int(network.network_address), int(network.netmask)
    parts = [KeyCondition(Key.FAMILY, _ALL, network.version)]
    for part, shift in (("HIGH", 64), ("LOW", 0)):
        word_mask = (mask >> shift) & _ALL
        if word_mask:
            parts.append(KeyCondition(Key[f"{side}_{part}"], word_mask, (value >> shift) & word_mask))
    return Joined("and", tuple(parts))


def _atoms(expression: Any) -> Iterator[Any]:
    if isinstance(expression, Negated):
        yield from _atoms(expression.of)
    elif isinstance(expression, Joined):
        for part in expression.parts:
            yield from _atoms(part)
    elif expression is not None:
        yield expression


def _alternatives(expression: Any, negated: bool) -> list[tuple[tuple[KeyCondition, bool], ...]]:
    """Disjunctive normal form; what becomes of a packet counts as true either way."""
    if isinstance(expression, Negated):
        return _alternatives(expression.of, not negated)
    if isinstance(expression, Became):
        return [()]
    if isinstance(expression, KeyCondition):
        return [((expression, negated),)]
    parts = [_alternatives(part, negated) for part in expression.parts]
    if (expression.how == "or") != negated:
        return [each for part in parts for each in part]
    alternatives: list[tuple[tuple[KeyCondition, bool], ...]] = [()]
    for part in parts:
        alternatives = [(*before, *each) for before in alternatives for each in part]
        if len(alternatives) > _MOST_ALTERNATIVES:
            raise FilterError(f"filter: it has more than {_MOST_ALTERNATIVES} alternatives")
    return alternatives


def _holds(expression: Any, visit: Visit, tick_ps: int) -> bool:
    if isinstance(expression, Negated):
        return not _holds(expression.of, visit, tick_ps)
    if isinstance(expression, Joined):
        quantifier = all if expression.how == "and" else any
        return quantifier(_holds(part, visit, tick_ps) for part in expression.parts)
    if isinstance(expression, KeyCondition):
        word = int(read_key(visit.frame, visit.port)[expression.key]) & _ALL
        return word & expression.mask == expression.value
    return _became(expression, visit, tick_ps)


def _became(end: Became, visit: Visit, tick_ps: int) -> bool:
    if end.what == "dropped":
        return any(isinstance(leaf.outcome, Dropped) for _, leaf in visit.tree.leaves())
    if end.what == "waited":
        waits = (e.facts["wait_ticks"] for e in visit.tree.all_events() if e.kind == "queue")
        return any(wait * tick_ps > end.ps for wait in waits)
    before = int(read_key(visit.frame, visit.port)[Key.ECN])
    outputs = (leaf.outcome for _, leaf in visit.tree.leaves())
    return before != 3 and any(
        int(read_key(each.frame, each.port)[Key.ECN]) == 3 for each in outputs if isinstance(each, Output)
    )
