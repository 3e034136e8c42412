# SPDX-License-Identifier: Apache-2.0
"""Dragonfly: g groups of a switches in a full mesh, p hosts and h global ports a switch (Kim et al., ISCA 2008)."""

from __future__ import annotations

from collections.abc import Callable

from detour.base.errors import DetourError
from detour.topo.topology import Builder, Topology, check_counts, check_limits

# Both wirings number the global ports of a group j = 0 .. a*h-1 (port j % h of switch j // h) and say which group
# lies behind j and which of its ports is at the other end; g - 1 ports, one a group, make a round.


def _palmtree(group: int, j: int, g: int) -> tuple[int, int]:
    """Port j leads j + 1 groups back (Camarero et al., ACM TACO 2014)."""
    return (group - j - 1) % g, g - 2 - j


def _consecutive(group: int, j: int, g: int) -> tuple[int, int]:
    """Ports lead to groups 0, 1, 2... without one's own (Hastings et al.: "absolute")."""
    other = j if j < group else j + 1
    return other, group if group < other else group - 1


WIRINGS: dict[str, Callable[[int, int, int], tuple[int, int]]] = {"palmtree": _palmtree, "consecutive": _consecutive}


def dragonfly(p: int, a: int, h: int, g: int | None = None, wiring: str = "palmtree") -> Topology:
    """A Dragonfly; `g` is a*h+1 unless given.

    With g = a*h+1 every pair of groups has one link. With fewer groups every pair has a*h // (g-1) links, and
    global ports that cannot be shared out evenly stay free. Raises `DetourError`: the rule that the parameters break.
    """
    check_counts("dragonfly", p=p, a=a, h=h)
    most = a * h + 1
    g = most if g is None else g
    if g < 2:
        raise DetourError(f"dragonfly: g={g} is less than 2 groups")
    if g > most:
        raise DetourError(
            f"dragonfly: g={g} exceeds a*h+1={most} groups that {a}*{h} global links can connect directly"
        )
    if wiring not in WIRINGS:
        raise DetourError(f"dragonfly: wiring={wiring} is unknown; allowed: {', '.join(WIRINGS)}")
    spec = f"dragonfly:p={p},a={a},h={h}"
    spec += f",g={g}" if g != most else ""
    spec += f",wiring={wiring}" if wiring != "palmtree" else ""
    check_limits(spec, switches=g * a, hosts=g * a * p, ports=p + a - 1 + h)
    return _build(Builder("dragonfly", spec), p, a, h, g, WIRINGS[wiring])


def _build(
    builder: Builder, p: int, a: int, h: int, g: int, wire: Callable[[int, int, int], tuple[int, int]]
) -> Topology:
    for s in range(g * a):
        builder.add_switch(group=s // a, position=s % a)
        builder.add_hosts(s, p)

    def global_port(group: int, j: int) -> tuple[int, int]:
        return group * a + j // h, p + a + j % h

    for group in range(g):
        for i in range(a):
            for k in range(i + 1, a):
                # A switch's local ports lead to the others in order; it leaves itself out.
                builder.connect("local", (group * a + i, p + k), (group * a + k, p + 1 + i))
    rounds = a * h // (g - 1)
    for group in range(g):
        for start in range(0, rounds * (g - 1), g - 1):
            for j in range(g - 1):
                other, k = wire(group, j, g)
                if group < other:
                    builder.connect("global", global_port(group, start + j), global_port(other, start + k))
    return builder.build(groups=g, valiant_groups=g if g > 2 else 0)
