# SPDX-License-Identifier: Apache-2.0
"""Switches at the points of a grid: torus, and HyperX (Ahn et al., "HyperX: Topology, Routing, and Packaging of
Efficient Large-Scale Networks", SC 2009).

`dims` is the size in every dimension, like `4x4x2`. A switch's number counts the last dimension first. Packets go by
all shortest paths; there is no closed form for detours, so all switches are one group.
Each raises `DetourError`: the rule that its parameters break.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from math import prod

from detour.base.errors import DetourError
from detour.topo.topology import Builder, Topology, check_limits

_MOST_DIMENSIONS = 8


def torus(dims: str, hosts: int = 1) -> Topology:
    """Every switch is joined to its two neighbours in each dimension, around the edge too; where a dimension has two
    switches, by one link. `hosts`: of every switch."""
    return _grid("torus", dims, hosts, lambda at, to, size: (to - at) % size in (1, size - 1))


def hyperx(dims: str, hosts: int = 1) -> Topology:
    """Every switch is joined to all others that differ from it in one dimension only. `hosts`: of every switch."""
    return _grid("hyperx", dims, hosts, lambda at, to, size: True)


def _grid(family: str, dims: str, hosts: int, joined: Callable[[int, int, int], bool]) -> Topology:
    """`joined(at, to, size)`: whether switches at these places of a dimension of that size have a link."""
    sizes = _sizes(family, dims, hosts)
    spec = f"{family}:dims={dims},hosts={hosts}"
    reached = [[to for to in range(size) if to and joined(0, to, size)] for size in sizes]
    check_limits(spec, prod(sizes), prod(sizes) * hosts, hosts + sum(map(len, reached)))
    builder = Builder(family, spec)
    places = list(product(*map(range, sizes)))
    number = {place: builder.add_switch(group=0, position=index) for index, place in enumerate(places)}
    for switch in number.values():
        builder.add_hosts(switch, hosts)
    used = [hosts] * len(places)
    for place, switch in number.items():
        for dimension, size in enumerate(sizes):
            at = place[dimension]
            for to in range(at + 1, size):
                if joined(at, to, size):
                    other = number[(*place[:dimension], to, *place[dimension + 1 :])]
                    used[switch] += 1
                    used[other] += 1
                    builder.connect("local", (switch, used[switch]), (other, used[other]))
    return builder.build(groups=1)


def _sizes(family: str, dims: str, hosts: int) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,5}(x[0-9]{1,5})*", dims):
        raise DetourError(f"{family}: dims={dims} is not of the form 4x4x2")
    sizes = tuple(map(int, dims.split("x")))
    if min(sizes) < 2:
        raise DetourError(f"{family}: dims={dims}: a dimension has at least 2 switches")
    if len(sizes) > _MOST_DIMENSIONS:
        raise DetourError(f"{family}: dims={dims} are {len(sizes)} dimensions; expected at most {_MOST_DIMENSIONS}")
    if hosts < 1:
        raise DetourError(f"{family}: hosts={hosts} is less than 1")
    return sizes
