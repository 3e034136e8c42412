# SPDX-License-Identifier: Apache-2.0
"""Holds what a switch made of packets against the model."""

from __future__ import annotations

from collections import Counter

from tests.differential.rfc import packets
from tests.differential.rfc.model import Outcome, Rfc
from tests.differential.rfc.through import Fabric

NODE = packets.node()


def describe(kind: Outcome | tuple[int, int] | str) -> str:
    """A class of outcomes in words: `forwarded`, `discarded`, `ICMPv6 3/0`."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, Outcome):
        if kind.port is not None:
            return "forwarded"
        if kind.icmp is None:
            return "discarded"
        return f"ICMPv6 {kind.icmp[0]}/{kind.icmp[1]}"
    return f"ICMPv6 {kind[0]}/{kind[1]}"


def compare(switch: Fabric, sent: list[bytes], seen: Counter[str] | None = None, model: type[Rfc] = Rfc) -> list[str]:
    """What differs, a description a packet; `seen` counts the model's outcomes."""
    problems = []
    for packet, got in zip(sent, switch.outcomes(sent), strict=True):
        expected = model(NODE, packet).outcome()
        if seen is not None:
            seen[describe(expected)] += 1
        if got != expected:
            problems.append(f"{packet.hex()}\n  RFCs:   {_text(expected)}\n  switch: {_text(got)}")
    return problems


def _text(outcome: Outcome) -> str:
    if outcome.port is not None:
        return f"port {outcome.port}: {outcome.packet.hex()}"
    return describe(outcome) + (f", pointer {outcome.icmp[2]}" if outcome.icmp else "")
