# SPDX-License-Identifier: Apache-2.0
"""The language of filters, and native code that decides by it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detour.engine.trace.filters import Filter, FilterError, parse_filter
from detour.engine.trace.matching import KEY_WORDS, Key, read_key

NAMES = {"h1": "fd00::1", "h2": "10.0.0.2"}


def ipv4(
    source: str = "10.0.0.1", target: str = "10.0.0.2", sport: int = 1, dport: int = 2, protocol: int = 17
) -> bytes:
    head = bytes([0x45, 2, 0, 28, 0, 0, 0, 0, 64, protocol, 0, 0])
    addresses = b"".join(bytes(int(part) for part in each.split(".")) for each in (source, target))
    return bytes(12) + b"\x08\x00" + head + addresses + struct.pack("!HHHH", sport, dport, 8, 0)


def holds(condition: Filter, frame: bytes, port: int = 1) -> bool:
    """What native code would say, from the words that it gets."""
    key, words = read_key(frame, port), condition.words().view(np.uint64).tolist()
    at = 1
    for _ in range(words[0]):
        count, at = words[at], at + 1
        conditions = [words[at + 4 * i : at + 4 * i + 4] for i in range(count)]
        at += 4 * count
        if all(((int(key[k]) & mask) == value) != bool(negated) for k, mask, value, negated in conditions):
            return True
    return False


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("udp", True),
        ("tcp", False),
        ("not tcp", True),
        ("src 10.0.0.1", True),
        ("src 10.0.0.0/24 and dst h2", True),
        ("src 10.1.0.0/16", False),
        ("host h2", True),
        ("dst h1", False),
        ("sport 1 and dport 2", True),
        ("sport 2 or dport 2", True),
        ("not (sport 2 or dport 2)", False),
        ("port 1 and bytes 42", True),
        ("port 2", False),
        ("ip and proto udp", True),
        ("ip6 or arp", False),
        ("proto 17", True),
        ("dropped", True),  # until it is known
        ("not dropped and tcp", False),
    ],
)
def test_what_holds(text: str, expected: bool) -> None:
    assert holds(parse_filter(text, NAMES.get), ipv4()) is expected


@pytest.mark.parametrize(
    ("text", "position", "what"),
    [
        ("src", 4, "missing at the end"),
        ("udp tcp", 5, "'and' or 'or'"),
        ("sport 70000", 7, "0 to 65535"),
        ("(udp", 5, "missing"),
        ("nonsense 3", 1, "no condition is called 'nonsense'"),
        ("src h9", 5, "an address"),
        ("waited 3us", 8, "'>'"),
        ("waited > soon", 10, "a time"),
        ("udp and", 8, "missing at the end"),
    ],
)
def test_errors_show_where(text: str, position: int, what: str) -> None:
    with pytest.raises(FilterError, match=f"position {position} ") as error:
        parse_filter(text, NAMES.get)
    assert what in str(error.value)


def test_too_many_alternatives_are_refused() -> None:
    text = " and ".join(f"(sport {i} or dport {i})" for i in range(12))
    with pytest.raises(FilterError, match="alternatives"):
        parse_filter(text).words()


def test_headers_behind_extensions_and_tags() -> None:
    udp = struct.pack("!HHHH", 7, 8, 8, 0)
    hop_by_hop = bytes([17, 0, 1, 4, 0, 0, 0, 0])
    ipv6 = struct.pack("!IHBB", (6 << 28) | (3 << 20), 16, 0, 64) + bytes(15) + b"\1" + bytes(15) + b"\2"
    key = read_key(bytes(12) + b"\x81\x00\x00\x05\x86\xdd" + ipv6 + hop_by_hop + udp, 3)
    expected = {
        Key.ETHERTYPE: 0x86DD, Key.SOURCE_LOW: 1, Key.DESTINATION_LOW: 2, Key.PROTOCOL: 17, Key.SOURCE_PORT: 7,
        Key.DESTINATION_PORT: 8, Key.INGRESS_PORT: 3, Key.FAMILY: 6, Key.ECN: 3,
    }  # fmt: skip
    assert {each: int(key[each]) for each in expected} == expected


@given(st.binary(max_size=80), st.integers(0, 511))
@settings(max_examples=300, deadline=None)
def test_any_bytes_have_a_key(frame: bytes, port: int) -> None:
    key = read_key(frame, port)
    assert len(key) == KEY_WORDS
    assert key[Key.INGRESS_PORT] == port
    assert key[Key.LENGTH] == len(frame)


_CONDITIONS = st.sampled_from(["udp", "tcp", "sport 1", "dport 9", "port 1", "src 10.0.0.1"])


def _expressions() -> st.SearchStrategy[tuple[str, Callable[[dict[str, bool]], bool]]]:
    atoms = _CONDITIONS.map(lambda text: (text, lambda truth: truth[text]))

    def grown(inner: st.SearchStrategy) -> st.SearchStrategy:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            inner.map(lambda a: (f"not ({a[0]})", lambda truth: not a[1](truth))),
            pairs.map(lambda p: (f"({p[0][0]} and {p[1][0]})", lambda truth: p[0][1](truth) and p[1][1](truth))),
            pairs.map(lambda p: (f"({p[0][0]} or {p[1][0]})", lambda truth: p[0][1](truth) or p[1][1](truth))),
        )

    return st.recursive(atoms, grown, max_leaves=6)


@given(_expressions(), st.integers(0, 2), st.sampled_from([6, 17]))
@settings(max_examples=200, deadline=None)
def test_expressions_mean_what_they_say(expression: tuple, sport: int, protocol: int) -> None:
    text, meaning = expression
    frame = ipv4(sport=sport, dport=9, protocol=protocol)
    truth = {
        "udp": protocol == 17, "tcp": protocol == 6, "sport 1": sport == 1, "dport 9": True, "port 1": True,
        "src 10.0.0.1": True,
    }  # fmt: skip
    assert holds(parse_filter(text), frame) is meaning(truth)
