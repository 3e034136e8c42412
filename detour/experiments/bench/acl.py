# SPDX-License-Identifier: Apache-2.0
"""Access control lists like those of providers, and packets for them, all from a seed.

The lists have the structure that Taylor and Turner found in real ones ("ClassBench: A Packet Classification
Benchmark", IEEE/ACM Transactions on Networking 15(3), 2007): prefixes of source and destination come from binary trees
whose nodes branch with a probability and a skew (section III.B), in pairs of lengths with a few large peaks; ports are
of five classes (WC any, HI from 1024 on, LO below, EM one port, AR another range) in pairs that depend on the protocol
(III.A); rules that match less come first. The numbers below are ours, of the size of those in ClassBench's parameter
files acl1 to acl5. Left out is the correlation between a rule's two addresses.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

_PORT_BITS = 16
_WIDTHS = (32, 32, 8, 8)
_TOGETHER = 500  # rules that a header is compared with at once
_WC, _HI, _LO = (0, 65535), (1024, 65535), (0, 1023)
_SKEW = 0.6
"""1 - (weight of the lighter child / weight of the heavier one)"""
_BRANCHING = (0.35,) * 8 + (0.25,) * 8 + (0.2,) * 8 + (0.5,) * 8
"""by depth: how likely a node of an address tree has two children"""
_SOURCE_LENGTHS = {0: 8, 8: 2, 12: 2, 16: 6, **dict.fromkeys(range(17, 24), 2), 24: 10, 27: 8}
_SOURCE_LENGTHS |= {25: 6, 26: 6, 28: 5, 29: 3, 30: 4, 31: 9, 32: 24}
_DESTINATION_LENGTHS = {0: 6, 8: 1, 12: 1, 16: 3, **dict.fromkeys(range(17, 24), 1), 24: 5, 27: 6}
_DESTINATION_LENGTHS |= {25: 3, 26: 4, 28: 5, 29: 3, 30: 5, 31: 18, 32: 42}
_PROTOCOLS = {6: 70, 17: 20, 1: 4, 0: 6}
"""0: any"""
_PORT_CLASSES = {("WC", "EM"): 70, ("WC", "AR"): 12, ("WC", "WC"): 9, ("WC", "HI"): 5, ("EM", "WC"): 2, ("HI", "EM"): 1}
_PORT_CLASSES |= {("WC", "LO"): 1}
_TCP_FLAGS = {(0, 0): 90, (0x10, 0x10): 5, (0, 0x02): 5}
"""(value, mask): any, ACK set, SYN not set"""


class Rule(NamedTuple):
    """A line of a list: (value, mask) or, for ports, (low, high)."""

    source: tuple[int, int]
    destination: tuple[int, int]
    source_ports: tuple[int, int]
    destination_ports: tuple[int, int]
    protocol: tuple[int, int]
    flags: tuple[int, int]

    @property
    def scope(self) -> int:
        """Number of matching headers."""
        low = [32 - mask.bit_count() for _, mask in (self.source, self.destination)]
        low += [8 - mask.bit_count() for _, mask in (self.protocol, self.flags)]
        ports = [high - low + 1 for low, high in (self.source_ports, self.destination_ports)]
        return (ports[0] * ports[1]) << sum(low)


class _AddressTree:
    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers
        self._ones: dict[tuple[int, int], float] = {}  # depth, path -> how likely the way goes on with a 1

    def prefix(self, length: int) -> tuple[int, int]:
        """A walk from the root, as value and mask."""
        path = 0
        for depth in range(length):
            ones = self._ones.get((depth, path))
            if ones is None:
                heavier = 1 / (2 - _SKEW) if self._numbers.random() < _BRANCHING[depth] else 1.0
                ones = self._ones[depth, path] = self._numbers.choice((heavier, 1 - heavier))
            path = path << 1 | (self._numbers.random() < ones)
        return path << (32 - length), (1 << 32) - (1 << (32 - length))


class _Ports:
    """Ports of the five classes; single ones and ranges come from short lists, the first ones more often."""

    def __init__(self, numbers: random.Random) -> None:
        self._numbers = numbers
        self._single = [numbers.choice((numbers.randrange(1024), numbers.randrange(65536))) for _ in range(150)]
        starts = [numbers.randrange(65000) for _ in range(50)]
        self._ranges = [(low, low + numbers.choice((1, 2, 9, 10, 50, 99, 100, 500))) for low in starts]

    def of(self, port_class: str) -> tuple[int, int]:
        if port_class == "EM":
            port = self._single[self._early(len(self._single))]
            return port, port
        if port_class == "AR":
            return self._ranges[self._early(len(self._ranges))]
        return {"WC": _WC, "HI": _HI, "LO": _LO}[port_class]

    def _early(self, count: int) -> int:
        return min(int(self._numbers.expovariate(6 / count)), count - 1)


def rules(count: int, seed: int = 1) -> list[Rule]:
    """A list, of which the first rule that matches counts; none appears twice, none matches nearly all addresses."""
    numbers = random.Random(seed)
    sources, destinations, ports = _AddressTree(numbers), _AddressTree(numbers), _Ports(numbers)

    def draw(weights: dict[Any, int]) -> Any:
        return numbers.choices(list(weights), list(weights.values()))[0]

    drawn: dict[Rule, None] = {}
    while len(drawn) < count:
        lengths = draw(_SOURCE_LENGTHS), draw(_DESTINATION_LENGTHS)
        if sum(lengths) < 16:
            continue
        protocol = draw(_PROTOCOLS)
        classes = draw(_PORT_CLASSES) if protocol in (6, 17) else ("WC", "WC")
        flags = draw(_TCP_FLAGS) if protocol == 6 else (0, 0)
        source, destination = sources.prefix(lengths[0]), destinations.prefix(lengths[1])
        source_ports, destination_ports = map(ports.of, classes)
        of_protocol = (protocol, 0xFF if protocol else 0)
        drawn[Rule(source, destination, source_ports, destination_ports, of_protocol, flags)] = None
    return sorted(drawn, key=lambda rule: rule.scope)


def blocks(ports: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The fewest prefixes that make up a range, as value and mask."""
    low, end = ports[0], ports[1] + 1
    while low < end:
        size = min(low & -low or 1 << _PORT_BITS, 1 << (end - low).bit_length() - 1)
        yield low, (1 << _PORT_BITS) - size
        low += size


def packed(header: tuple[int, ...] | list[int]) -> int:
    """A header's fields, or their masks, as one number of 112 bits."""
    return int.from_bytes(struct.pack("!IIHHBB", *header))


def expanded(listed: list[Rule]) -> Iterator[tuple[int, int]]:
    """The rules with port ranges as prefixes: value and mask of 112 bits for each combination, the first one counts."""
    for rule in listed:
        for source in blocks(rule.source_ports):
            for destination in blocks(rule.destination_ports):
                fields = (rule.source, rule.destination, source, destination, rule.protocol, rule.flags)
                yield packed([value for value, _ in fields]), packed([mask for _, mask in fields])


def headers(listed: list[Rule], count: int, hit: bool, seed: int = 1) -> list[tuple[int, ...]]:
    """Headers in the order of a rule's fields: random ones that a rule matches, or mixtures of several such ones that
    no rule matches."""
    numbers = random.Random(seed)
    masked = np.array([(r.source, r.destination, r.protocol, r.flags) for r in listed], dtype=np.int64)
    ranges = np.array([(r.source_ports, r.destination_ports) for r in listed], dtype=np.int64)

    def inside(rule: Rule) -> tuple[int, ...]:
        source, destination, protocol, flags = (
            value | numbers.getrandbits(bits) & ~mask
            for (value, mask), bits in zip(
                (rule.source, rule.destination, rule.protocol, rule.flags), _WIDTHS, strict=True
            )
        )
        ports = (numbers.randint(*rule.source_ports), numbers.randint(*rule.destination_ports))
        return source, destination, *ports, protocol, flags

    def matched(header: tuple[int, ...]) -> bool:
        fields, ports = np.array(header)[[0, 1, 4, 5]], np.array(header)[2:4]
        for end in range(len(listed), 0, -_TOGETHER):  # most mixtures match a broad rule, of which the last ones are
            here = slice(max(end - _TOGETHER, 0), end)
            same = (fields & masked[here, :, 1] == masked[here, :, 0]).all(axis=1)
            if (same & ((ranges[here, :, 0] <= ports) & (ports <= ranges[here, :, 1])).all(axis=1)).any():
                return True
        return False

    made: list[tuple[int, ...]] = []
    while len(made) < count:
        some = [inside(rule) for rule in numbers.choices(listed, k=3)]
        mixture = some[0][:1] + some[1][1:2] + some[2][2:]
        if hit:
            made.append(some[0])
        elif not matched(mixture):
            made.append(mixture)
    return made
