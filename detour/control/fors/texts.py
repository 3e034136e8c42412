# SPDX-License-Identifier: Apache-2.0
"""Fat-trees and failed links from texts, as the command takes them."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree, TreeLink
from detour.topo.keyvalues import check_keys, split_spec, whole_number


def parse_fabric(
    topo: str, fail: str | None = None, servers: int | None = None, population: str | None = None,
    group: str | None = None,
) -> FatTree:  # fmt: skip
    """The fabric of `ft:m0=20,m1=18` with failed links `0:0,5:1` (leaf:spine; `*:3`: spine 3).

    `ft:m0=4,m1=6,hosts=8,cables=2,speed=1/2`: eight servers at a leaf (m0), two cables from leaf to spine (1), each of
    half a server's rate (1). `0:3` are then both cables, `0:3:1` is one.

    Three levels: `ft3:pods=4,leaves=2,aggs=2,cores=2,hosts=2` (cores: of a plane) or `fat-tree:k=4`. `3:1,2/0:1`: leaf
    3 and its pod's aggregation switch 1; aggregation switch 0 of pod 2 and core 1 of its plane.

    `servers`, or `population` for every leaf (`20,19,...`): those that are there. `group`: those that take part, like
    `0-3,20-23,45`. Raises `DetourError`: what is wrong with the texts."""
    kind, values = split_spec(topo)
    if kind.lower() not in _KINDS:
        raise DetourError(f"topology {topo!r}: FORS runs on fat-trees of two levels, like ft:m0=20,m1=18")
    bare = _KINDS[kind.lower()](topo, values)
    if servers is not None and population is not None:
        raise DetourError(
            "--servers spreads servers over leaves, --population gives the number of each: give one of the two"
        )
    changes: dict[str, tuple[int, ...]] = {}
    if servers is not None:
        changes["population"] = spread(bare, servers)
    if population is not None:
        changes["population"] = _numbers(population, f"population {population!r}", ranges=False)
    if group is not None:
        changes["group"] = _numbers(group, f"group {group!r}", ranges=True)
    return replace(bare, **changes).with_failed(parse_links(bare, fail))


def _two_levels(topo: str, values: dict[str, str]) -> FatTree:
    check_keys(topo, values, ("m0", "m1"), ("hosts", "cables", "speed"))
    spines, leaves = (whole_number(topo, key, values[key]) for key in ("m0", "m1"))
    hosts, cables = (whole_number(topo, key, values.get(key, str(n))) for key, n in (("hosts", spines), ("cables", 1)))
    for key, number in (("hosts", hosts), ("cables", cables)):
        if number < 1:
            raise DetourError(f"{topo!r}: {key}={number} is less than 1")
    speed = values.get("speed", "1")
    match = re.fullmatch(r"(\d{1,3})(?:/(\d{1,3}))?", speed, re.ASCII)
    if not match or int(match[2] or 1) == 0:
        raise DetourError(f"{topo!r}: speed={speed} is not a number like 2 or a fraction like 1/2")
    return FatTree(spines, leaves, hosts=hosts, cables=cables, speed=Fraction(int(match[1]), int(match[2] or 1)))


def _three_levels(topo: str, values: dict[str, str]) -> FatTree:
    names = ("pods", "leaves", "aggs", "cores")
    check_keys(topo, values, names, ("hosts",))
    values = {"hosts": values["aggs"], **values}
    pods, leaves, aggs, cores, hosts = (whole_number(topo, name, values[name]) for name in (*names, "hosts"))
    return FatTree.three_levels(pods, leaves, aggs, cores, hosts)


def _fat_tree(topo: str, values: dict[str, str]) -> FatTree:
    check_keys(topo, values, ("k",), ("blocking",))
    k, blocking = (whole_number(topo, key, values.get(key, "1")) for key in ("k", "blocking"))
    if k < 2 or k % 2 or blocking < 1:
        raise DetourError(f"{topo!r}: k must be an even number from 2 on, and blocking 1 or more")
    half = k // 2
    return FatTree.three_levels(k, half, half, half, half * blocking)


_KINDS = {"ft": _two_levels, "ft3": _three_levels, "fat-tree": _fat_tree}
_END = r"\s*(\d+|\*)\s*"
_LINK = re.compile(rf"(?:{_END}/)?{_END}:{_END}(?::{_END})?", re.ASCII)


def parse_links(fabric: FatTree, text: str | None) -> frozenset[TreeLink]:
    """Links given as `leaf:spine,...`, with `*` for all leaves or all spines (a switch that is down).
    `leaf:spine:cable` is one of several parallel cables; on three levels `pod/plane:core` is a link to a core. Raises
    `DetourError`: a part is not of that form, or there is no such link."""
    links: set[TreeLink] = set()
    for part in text.split(",") if text is not None else ():
        match = _LINK.fullmatch(part)
        if not match or (match[4] if fabric.cores else match[1]):
            like = "leaf:spine, like 0:3" if fabric.cables == 1 else "leaf:spine or leaf:spine:cable, like 0:3:1"
            like = "leaf:agg, like 3:1, or pod/agg:core" if fabric.cores else like
            raise DetourError(f"failed links {text!r}: {part.strip()!r} is not {like}")
        low = match[1] is None
        ends = [end for end in match.groups() if end is not None]
        shape = (fabric.all_leaves, fabric.spines, fabric.cables) if low else fabric.high.shape
        ranges = [range(n) if end == "*" else (int(end),) for end, n in zip([*ends, "*"][:3], shape, strict=True)]
        if any(max(numbers) >= limit for numbers, limit in zip(ranges, shape, strict=True)):
            raise DetourError(f"{fabric.name} has no link {''.join(part.split())} {fabric.ends_text(2 if low else 3)}")
        links.update((u, j * fabric.cables + k) if low else (u, j, k) for u, j, k in product(*ranges))
    return frozenset(links)


def spread(fabric: FatTree, servers: int) -> tuple[int, ...]:
    """A population of `servers`, as even as it can be, the first leaves one more. Raises `DetourError`: there are not
    that many places."""
    if not 1 <= servers <= fabric.slots:
        raise DetourError(f"{fabric.name} has places for 1..{fabric.slots} servers, not for {servers}")
    least, more = divmod(servers, len(fabric.population))
    return tuple(least + (leaf < more) for leaf in range(len(fabric.population)))


def _numbers(text: str, what: str, *, ranges: bool) -> tuple[int, ...]:
    """Numbers `4,2,3`; with `ranges` also `0-3`, both ends included. Raises `DetourError`: a part is neither."""
    form = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?" if ranges else r"\s*(\d{1,6})\s*()", re.ASCII)
    numbers: list[int] = []
    for part in text.split(","):
        match = form.fullmatch(part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            like = "a number or a range like 0-3" if ranges else "a number"
            raise DetourError(f"{what}: {part.strip()!r} is not {like}")
        numbers += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(numbers)
