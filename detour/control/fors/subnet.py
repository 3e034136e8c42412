# SPDX-License-Identifier: Apache-2.0
"""Plans for InfiniBand (FORS, section 6): forwarding tables that OpenSM loads, and the fabric as ibsim reads it.

Every server has 2^LMC LIDs, and the low bits of the LID that a sender chooses (its path bits) name the spine. So one
set of tables serves all plans of a fabric and its failures: a leaf sends what has spine c in its LID to spine c, and a
spine what is for a leaf to that leaf. Path bits that name a spine which does not lead there take one that does.

Cabling: port a + 1 of a leaf leads to its server a, port M0 + 1 + c to spine c, port u + 1 of a spine to leaf u. Where
K cables join leaf and spine, path bits are (c * K + up) * K + down, the k-th cable is in port M0 + 1 + c * K + k of a
leaf and in port u * K + k + 1 of a spine. (M0: places for servers.)

On three levels spines are aggregation switches, agg0.. (pod * planes + plane), and path bits are plane * cores + core
of the plane; inside a pod the plane alone matters. Port leaves + 1 + i of an aggregation switch leads to core i of its
plane, port p + 1 of a core to pod p. Cores are core0.. (plane * cores + core).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.fors.fabric import FatTree

_MOST_LMC = 7
_LAST_UNICAST_LID = 0xBFFF
_MOST_PORTS = 254
_PREFIX = 0x0002_C900_0000_0000

Guids = dict[str, int]  # by name: leaf0, spine3, server17 (three levels: agg and core); of servers those of their ports


def path_bits(fabric: FatTree) -> int:
    """The LMC: how many low bits of a LID name a spine, and the cables to and from it; or a plane and a core. Raises
    `DetourError`: there are more paths than LIDs of a port can name, more LIDs than there are, or too many ports."""
    bits = _bits(fabric)
    if bits > _MOST_LMC:
        what = "spines" if fabric.cables == 1 else "ways (spine and two cables)"
        what = "planes and cores" if fabric.cores else what
        raise DetourError(f"{fabric.name}: an LMC of {_MOST_LMC} names {1 << _MOST_LMC} {what}, not {_paths(fabric)}")
    if _server_lid(fabric, fabric.slots) > _LAST_UNICAST_LID:
        raise DetourError(f"{fabric.name}: {1 << bits} LIDs for each of {fabric.slots} servers are more than there are")
    if max(_ports(fabric, kind) for kind in _counts(fabric)) > _MOST_PORTS:
        raise DetourError(f"{fabric.name}: a switch has {_MOST_PORTS} ports at most")
    return bits


def _paths(fabric: FatTree) -> int:
    return fabric.spines * fabric.cables**2 * max(fabric.cores, 1)


def _bits(fabric: FatTree) -> int:
    return (_paths(fabric) - 1).bit_length()


def _counts(fabric: FatTree) -> dict[str, int]:
    spines = {"agg" if fabric.cores else "spine": fabric.pods * fabric.spines}
    return {"leaf": fabric.all_leaves, **spines, **({"core": fabric.spines * fabric.cores} if fabric.cores else {})}


def _ports(fabric: FatTree, kind: str) -> int:
    if kind == "leaf":
        return fabric.hosts + fabric.uplinks
    return fabric.pods if kind == "core" else fabric.leaves * fabric.cables + fabric.cores


def _switches(fabric: FatTree) -> list[tuple[str, int]]:
    return [(kind, number) for kind, count in _counts(fabric).items() for number in range(count)]


def _server_lid(fabric: FatTree, server: int) -> int:
    """The base LID, a multiple of 2^LMC behind those of switches."""
    step = 1 << _bits(fabric)
    return (-(-(1 + sum(_counts(fabric).values())) // step) + server) * step


def made_up_guids(fabric: FatTree) -> Guids:
    """GUIDs for a fabric that is only simulated."""
    kinds = enumerate({**_counts(fabric), "server": fabric.slots}.items())
    return {f"{kind}{n}": _PREFIX + (k << 24) + (n << 4) for k, (kind, count) in kinds for n in range(count)}


def read_guids(fabric: FatTree, path: Path) -> Guids:
    """GUIDs from a file of lines `leaf0,0x0002c902003c8b78`, one for every switch and every server that is there.
    Raises `DetourError`: the file cannot be read, a line is not of that form, or somebody has none."""
    guids: Guids = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        name, _, guid = (part.strip() for part in line.partition(","))
        if not line.strip():
            continue
        try:
            guids[name] = int(guid, 16)
        except ValueError:
            raise DetourError(
                f"{path}, line {number}: {line!r} is not name,guid, like leaf0,0x0002c902003c8b78"
            ) from None
    present = fabric.present()
    for name in made_up_guids(fabric):
        if name not in guids and not (name.startswith("server") and not present[int(name[6:])]):
            raise DetourError(f"{path}: no GUID for {name}")
    return guids


def forwarding_tables(fabric: FatTree, guids: Guids) -> Iterator[str]:
    """Lines of a file for `opensm -R file -U FILE` with the LMC of `path_bits`; LIDs follow OpenSM's by port GUID.
    Raises `DetourError`: the fabric is too large."""
    bits = path_bits(fabric)
    last = _server_lid(fabric, fabric.slots) - 1
    routes, switches = _Routes(fabric), _switches(fabric)
    for lid, (kind, number) in enumerate(switches, 1):
        name = f"{kind}{number}"
        yield f"Unicast lids [0x0-0x{last:x}] of switch Lid {lid} guid 0x{guids[name]:016x} ({name}):"
        for there, (to, other) in enumerate(switches, 1):
            port = routes.to_switch(kind, number, to, other)
            if port is not None:
                name = f"{to}{other}"
                yield f"0x{there:04x} {port:03d} : (Switch portguid 0x{guids[name]:016x}: '{name}')"
        for server in np.flatnonzero(fabric.present()).tolist():
            entry = f"Channel Adapter portguid 0x{guids[f'server{server}']:016x}: 'server{server}'"
            leaf, place = divmod(server, fabric.hosts)
            for choice in range(1 << bits):
                port = routes.to_leaf(kind, number, leaf, choice)
                if port is not None:
                    yield f"0x{_server_lid(fabric, server) + choice:04x} {port or place + 1:03d} : ({entry})"


class _Routes:
    """Ports of switches: to where, by path bits. 0 is the switch itself, None no path."""

    def __init__(self, fabric: FatTree) -> None:
        self.fabric = fabric
        both = fabric.high[:, None] & fabric.high[None, :]
        self._cores = {ends: np.flatnonzero(both[ends]).tolist() for ends in np.ndindex(both.shape[:3])}
        self._cables = {ends: np.flatnonzero(fabric.working[ends]).tolist() for ends in np.ndindex(fabric.alive.shape)}

    def to_leaf(self, kind: str, number: int, leaf: int, choice: int) -> int | None:
        fabric = self.fabric
        over, down = divmod(choice, fabric.cables)
        spine, up = divmod(over, fabric.cables)
        core = 0
        if fabric.cores:
            spine, core = choice // fabric.cores % fabric.spines, choice % fabric.cores
        if kind == "leaf":
            if number == leaf:
                return 0
            spine = _one_of(np.flatnonzero(fabric.planes[number, leaf]).tolist(), spine)
            return None if spine is None else self._uplink(number, spine, up)
        pod = leaf // fabric.leaves
        if kind == "core":
            spine, core = divmod(number, fabric.cores)
            return pod + 1 if fabric.high[pod, spine, core] and fabric.alive[leaf, spine] else None
        here, spine = divmod(number, fabric.spines)
        if here == pod:
            return self._downlink(leaf, spine, down)
        return self._to_core(here, pod, spine, core) if fabric.alive[leaf, spine] else None

    def _uplink(self, leaf: int, spine: int, first: int) -> int | None:
        cable = _one_of(self._cables[leaf, spine], first)
        return None if cable is None else self.fabric.hosts + 1 + spine * self.fabric.cables + cable

    def _downlink(self, leaf: int, spine: int, first: int) -> int | None:
        cable = _one_of(self._cables[leaf, spine], first)
        return None if cable is None else leaf % self.fabric.leaves * self.fabric.cables + cable + 1

    def _to_core(self, here: int, pod: int, plane: int, core: int) -> int | None:
        """From an aggregation switch to a core that leads to a pod."""
        chosen = _one_of(self._cores[here, pod, plane], core)
        return None if chosen is None else self.fabric.leaves + 1 + chosen

    def to_switch(self, kind: str, number: int, to: str, other: int) -> int | None:
        """The route to a switch's own LID, which management needs: up and then down, where that leads there; between
        spines down and up."""
        if (kind, number) == (to, other):
            return 0
        if to == "leaf":
            fabric = self.fabric
            if fabric.cores:
                return self.to_leaf(kind, number, other, other % (fabric.spines * fabric.cores))
            if kind == "spine":
                return self._downlink(other, number, number % fabric.cables)
            shared = np.flatnonzero(fabric.planes[number, other]).tolist()
            return self._uplink(number, shared[other % len(shared)], other % fabric.cables) if shared else None
        if to == "core":
            return self._to_core_switch(kind, number, *divmod(other, self.fabric.cores))
        return self._to_spine(kind, number, other)

    def _to_core_switch(self, kind: str, number: int, plane: int, core: int) -> int | None:
        fabric = self.fabric
        if kind == "core":
            return None
        if kind == "agg":
            pod, mine = divmod(number, fabric.spines)
            return fabric.leaves + 1 + core if mine == plane and fabric.high[pod, plane, core] else None
        up = fabric.high[number // fabric.leaves, plane, core]
        return self._uplink(number, plane, 0) if up else None

    def _to_spine(self, kind: str, number: int, other: int) -> int | None:
        fabric = self.fabric
        pod, plane = divmod(other, fabric.spines)
        if kind == "core":
            mine, core = divmod(number, fabric.cores)
            return pod + 1 if mine == plane and fabric.high[pod, plane, core] else None
        if kind == "leaf":
            here = number // fabric.leaves
            reached = here == pod or self._cores[here, pod, plane]
            return self._uplink(number, plane, number % fabric.cables) if reached else None
        here, mine = divmod(number, fabric.spines)
        if mine == plane:
            return self._to_core(here, pod, plane, pod % fabric.cores)
        shared = np.flatnonzero(fabric.alive[:, mine] & fabric.alive[:, plane] & (fabric.pod_of == pod)).tolist()
        turn = 0 if fabric.cores else other
        return (
            self._downlink(shared[turn % len(shared)], mine, turn % fabric.cables) if here == pod and shared else None
        )


def _one_of(usable: list[int], first: int) -> int | None:
    """The wanted one, or another that is usable; None: there is none."""
    if not usable:
        return None
    return first if first in usable else usable[first % len(usable)]


def simulated(fabric: FatTree, guids: Guids) -> Iterator[str]:
    """Lines of the fabric for `ibsim -s FILE` (the format of ibnetdiscover); links that are down are left out."""
    for kind, number in _switches(fabric):
        yield f"switchguid=0x{guids[f'{kind}{number}']:x}"
        yield f'Switch\t{_ports(fabric, kind)} "{kind}{number}"'
        yield from (f'[{port}]\t"{name}"[{far}]' for port, name, far in _cabling(fabric, kind, number))
        yield ""
    for server in np.flatnonzero(fabric.present()).tolist():
        leaf, place = divmod(server, fabric.hosts)
        guid = guids[f"server{server}"]
        yield f"caguid=0x{guid - 1:x}"  # ibsim numbers ports on from their node
        yield f'Ca\t1 "server{server}"'
        yield f'[1]\t"leaf{leaf}"[{place + 1}]'
        yield ""


def _cabling(fabric: FatTree, kind: str, number: int) -> Iterator[tuple[int, str, int]]:
    """A switch's ports with a cable that works: port, who is at the other end, port there."""
    above = "agg" if fabric.cores else "spine"
    cables = fabric.cables
    if kind == "leaf":
        pod, local = divmod(number, fabric.leaves)
        first = number * fabric.hosts
        for place in np.flatnonzero(fabric.present()[first : first + fabric.hosts]).tolist():
            yield place + 1, f"server{first + place}", 1
        for spine, cable in np.argwhere(fabric.working[number]).tolist():
            name = f"{above}{pod * fabric.spines + spine}"
            yield fabric.hosts + 1 + spine * cables + cable, name, local * cables + cable + 1
    elif kind == "core":
        plane, core = divmod(number, fabric.cores)
        for pod in np.flatnonzero(fabric.high[:, plane, core]).tolist():
            yield pod + 1, f"agg{pod * fabric.spines + plane}", fabric.leaves + 1 + core
    else:
        pod, spine = divmod(number, fabric.spines)
        mine = fabric.working[pod * fabric.leaves : (pod + 1) * fabric.leaves, spine]
        for local, cable in np.argwhere(mine).tolist():
            name = f"leaf{pod * fabric.leaves + local}"
            yield local * cables + cable + 1, name, fabric.hosts + 1 + spine * cables + cable
        for core in np.flatnonzero(fabric.high[pod, spine]).tolist():
            yield fabric.leaves + 1 + core, f"core{spine * fabric.cores + core}", pod + 1
