# SPDX-License-Identifier: Apache-2.0
"""Forwarding tables of three levels for OpenSM, and the fabric as ibsim reads it (`control.fors.subnet`: two levels).

Path bits are plane * cores + core of the plane; inside a pod the plane alone matters. A leaf sends what has plane j in
its LID to aggregation switch j, and that to core i of the plane, or down if the server is in its pod; a core knows one
way down. Path bits that name a way which no longer leads there take one that does.

Cabling: port a + 1 of a leaf leads to its server a, port hosts + 1 + j to aggregation switch j of its pod; port u + 1
of an aggregation switch to leaf u of its pod, port leaves + 1 + i to core i of its plane; port p + 1 of a core to pod
p. Switches are leaf0.., agg0.. (pod * planes + plane) and core0.. (plane * cores + core).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.subnet import LAST_UNICAST_LID, MOST_LMC, MOST_PORTS, Guids
from detour.control.fors.tiers.fabric import FatTree3


def tier_path_bits(fabric: FatTree3) -> int:
    """The LMC: how many low bits of a LID name a plane and a core.

    Raises:
        DetourError: there are more ways than LIDs of a port can name, more LIDs than there are, or too many ports.
    """
    ways = fabric.aggs * fabric.cores
    bits = (ways - 1).bit_length()
    if bits > MOST_LMC:
        raise DetourError(f"{fabric.name}: an LMC of {MOST_LMC} names {1 << MOST_LMC} planes and cores, not {ways}")
    if _server_lid(fabric, fabric.slots) > LAST_UNICAST_LID:
        raise DetourError(f"{fabric.name}: {1 << bits} LIDs for each of {fabric.slots} servers are more than there are")
    if max(fabric.hosts + fabric.aggs, fabric.leaves + fabric.cores, fabric.pods) > MOST_PORTS:
        raise DetourError(f"{fabric.name}: a switch has {MOST_PORTS} ports at most")
    return bits


def tier_path(fabric: FatTree3, plane: np.ndarray, core: np.ndarray) -> np.ndarray:
    """(flows,) the path bits of flows; 0 inside a leaf."""
    return np.where(plane < 0, 0, plane * fabric.cores + np.maximum(core, 0))


def _switches(fabric: FatTree3) -> Iterator[tuple[str, int]]:
    for kind, count in _counts(fabric).items():
        yield from ((kind, number) for number in range(count))


def _counts(fabric: FatTree3) -> dict[str, int]:
    return {"leaf": fabric.all_leaves, "agg": fabric.pods * fabric.aggs, "core": fabric.aggs * fabric.cores}


def _switch_lid(fabric: FatTree3, kind: str, number: int) -> int:
    before = {"leaf": 0, "agg": fabric.all_leaves, "core": fabric.all_leaves + fabric.pods * fabric.aggs}
    return 1 + before[kind] + number


def _server_lid(fabric: FatTree3, server: int) -> int:
    """The base LID, a multiple of 2^LMC behind those of switches."""
    step = 1 << (fabric.aggs * fabric.cores - 1).bit_length()
    return (-(-(1 + sum(_counts(fabric).values())) // step) + server) * step


def tier_forwarding_tables(fabric: FatTree3, guids: Guids) -> Iterator[str]:
    """Lines of a file for `opensm -R file -U FILE` with the LMC of `tier_path_bits`; LIDs follow OpenSM's by port GUID.

    Raises:
        DetourError: the fabric is too large.
    """
    bits = tier_path_bits(fabric)
    last = _server_lid(fabric, fabric.slots) - 1
    routes = _Routes(fabric)
    for kind, number in _switches(fabric):
        name = f"{kind}{number}"
        lid = _switch_lid(fabric, kind, number)
        yield f"Unicast lids [0x0-0x{last:x}] of switch Lid {lid} guid 0x{guids[name]:016x} ({name}):"
        for to, other in _switches(fabric):
            port = routes.to_switch(kind, number, to, other)
            if port is not None:
                there = f"{to}{other}"
                lid = _switch_lid(fabric, to, other)
                yield f"0x{lid:04x} {port:03d} : (Switch portguid 0x{guids[there]:016x}: '{there}')"
        for server in np.flatnonzero(fabric.present()).tolist():
            entry = f"Channel Adapter portguid 0x{guids[f'server{server}']:016x}: 'server{server}'"
            leaf, place = divmod(server, fabric.hosts)
            for choice in range(1 << bits):
                port = routes.to_leaf(kind, number, leaf, choice)
                if port is not None:
                    port = port or place + 1
                    yield f"0x{_server_lid(fabric, server) + choice:04x} {port:03d} : ({entry})"


class _Routes:
    """Ports of switches: to where, by path bits. 0 is the switch itself, None no way."""

    def __init__(self, fabric: FatTree3) -> None:
        self.fabric = fabric
        self._over = fabric.planes
        both = fabric.high[:, None] & fabric.high[None, :]
        self._cores: dict[tuple[int, int, int], list[int]] = {}
        for p, q, j in np.ndindex(both.shape[:3]):
            self._cores[p, q, j] = np.flatnonzero(both[p, q, j]).tolist()

    def to_leaf(self, kind: str, number: int, leaf: int, choice: int) -> int | None:
        """From a switch to a leaf."""
        fabric = self.fabric
        pod = leaf // fabric.leaves
        plane, core = divmod(choice, fabric.cores)
        if kind == "core":
            plane, core = divmod(number, fabric.cores)
            return pod + 1 if fabric.high[pod, plane, core] and fabric.low[leaf, plane] else None
        if kind == "agg":
            here, plane = divmod(number, fabric.aggs)
            if here == pod:
                return leaf % fabric.leaves + 1 if fabric.low[leaf, plane] else None
            return self._up(here, pod, plane, core) if fabric.low[leaf, plane] else None
        if number == leaf:
            return 0
        planes = np.flatnonzero(self._over[number, leaf]).tolist()
        chosen = _wanted(planes, plane % fabric.aggs)
        return None if chosen is None else fabric.hosts + 1 + chosen

    def _up(self, here: int, pod: int, plane: int, core: int) -> int | None:
        """From an aggregation switch to a core that leads to a pod."""
        chosen = _wanted(self._cores[here, pod, plane], core)
        return None if chosen is None else self.fabric.leaves + 1 + chosen

    def to_switch(self, kind: str, number: int, to: str, other: int) -> int | None:
        """To a switch's own LID, which management needs: up and then down, where that leads there."""
        fabric = self.fabric
        if (kind, number) == (to, other):
            return 0
        if to == "leaf":
            return self.to_leaf(kind, number, other, other % (fabric.aggs * fabric.cores))
        if to == "agg":
            return self._to_agg(kind, number, *divmod(other, fabric.aggs))
        plane, core = divmod(other, fabric.cores)
        if kind == "core":
            return None
        if kind == "agg":
            pod, mine = divmod(number, fabric.aggs)
            return fabric.leaves + 1 + core if mine == plane and fabric.high[pod, plane, core] else None
        up = fabric.low[number, plane] and fabric.high[number // fabric.leaves, plane, core]
        return fabric.hosts + 1 + plane if up else None

    def _to_agg(self, kind: str, number: int, pod: int, plane: int) -> int | None:
        fabric = self.fabric
        if kind == "core":
            mine, core = divmod(number, fabric.cores)
            return pod + 1 if mine == plane and fabric.high[pod, plane, core] else None
        if kind == "agg":
            here, mine = divmod(number, fabric.aggs)
            if mine == plane:
                return self._up(here, pod, plane, pod % fabric.cores)
            below = np.flatnonzero(fabric.low[:, mine] & fabric.low[:, plane] & (fabric.pod_of == pod)).tolist()
            return int(below[0]) % fabric.leaves + 1 if here == pod and below else None
        here = number // fabric.leaves
        reached = here == pod or self._cores[here, pod, plane]
        return fabric.hosts + 1 + plane if fabric.low[number, plane] and reached else None


def _wanted(usable: list[int], wanted: int) -> int | None:
    """The wanted one, or another that is usable; None: there is none."""
    if not usable:
        return None
    return wanted if wanted in usable else usable[wanted % len(usable)]


def tier_simulated(fabric: FatTree3, guids: Guids) -> Iterator[str]:
    """Lines of the fabric for `ibsim -s FILE` (the format of ibnetdiscover); links that are down are left out."""
    for kind, number in _switches(fabric):
        ends = list(_cables(fabric, kind, number))
        ports = {"leaf": fabric.hosts + fabric.aggs, "agg": fabric.leaves + fabric.cores, "core": fabric.pods}[kind]
        yield f"switchguid=0x{guids[f'{kind}{number}']:x}"
        yield f'Switch\t{ports} "{kind}{number}"'
        yield from (f'[{port}]\t"{name}"[{far}]' for port, name, far in ends)
        yield ""
    for server in np.flatnonzero(fabric.present()).tolist():
        leaf, place = divmod(server, fabric.hosts)
        guid = guids[f"server{server}"]
        yield f"caguid=0x{guid - 1:x}"  # ibsim numbers ports on from their node
        yield f'Ca\t1 "server{server}"'
        yield f'[1]\t"leaf{leaf}"[{place + 1}]'
        yield ""


def _cables(fabric: FatTree3, kind: str, number: int) -> Iterator[tuple[int, str, int]]:
    """A switch's ports with a cable that works: port, who is at the other end, port there."""
    if kind == "leaf":
        pod, local = divmod(number, fabric.leaves)
        first = number * fabric.hosts
        for place in np.flatnonzero(fabric.present()[first : first + fabric.hosts]).tolist():
            yield place + 1, f"server{first + place}", 1
        for plane in np.flatnonzero(fabric.low[number]).tolist():
            yield fabric.hosts + 1 + plane, f"agg{pod * fabric.aggs + plane}", local + 1
    elif kind == "agg":
        pod, plane = divmod(number, fabric.aggs)
        for local in range(fabric.leaves):
            leaf = pod * fabric.leaves + local
            if fabric.low[leaf, plane]:
                yield local + 1, f"leaf{leaf}", fabric.hosts + 1 + plane
        for core in np.flatnonzero(fabric.high[pod, plane]).tolist():
            yield fabric.leaves + 1 + core, f"core{plane * fabric.cores + core}", pod + 1
    else:
        plane, core = divmod(number, fabric.cores)
        for pod in np.flatnonzero(fabric.high[:, plane, core]).tolist():
            yield pod + 1, f"agg{pod * fabric.aggs + plane}", fabric.leaves + 1 + core
