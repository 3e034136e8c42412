# SPDX-License-Identifier: Apache-2.0
"""Plans for InfiniBand (FORS, section 6): forwarding tables that OpenSM loads, and the fabric as ibsim reads it.

Every server has 2^LMC LIDs, and the low bits of the LID that a sender chooses (its path bits) name the spine. So one
set of tables serves all plans of a fabric and its failures: a leaf sends what has spine c in its LID to spine c, and a
spine what is for a leaf to that leaf. Path bits that name a spine which does not lead there take one that does.

Cabling: port a + 1 of a leaf leads to its server a, port M0 + 1 + c to spine c, port u + 1 of a spine to leaf u. Where
K cables join leaf and spine, path bits are (c * K + up) * K + down, the k-th cable is in port M0 + 1 + c * K + k of a
leaf and in port u * K + k + 1 of a spine. (M0: places for servers.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.control.fors.fabric import FatTree2
from detour.control.fors.tiers.fabric import FatTree3

MOST_LMC = 7
LAST_UNICAST_LID = 0xBFFF
MOST_PORTS = 254
_PREFIX = 0x0002_C900_0000_0000

Guids = dict[str, int]
"""by name: leaf0, spine3, server17 (three levels: agg and core); of servers those of their ports"""


def path_bits(fabric: FatTree2) -> int:
    """The LMC: how many low bits of a LID name a spine, and the cables to and from it.

    Raises:
        DetourError: there are more ways than LIDs of a port can name, more LIDs than there are, or too many ports.
    """
    bits = (_ways(fabric) - 1).bit_length()
    if bits > MOST_LMC:
        what = "spines" if fabric.cables == 1 else "ways (spine and two cables)"
        raise DetourError(f"{fabric.name}: an LMC of {MOST_LMC} names {1 << MOST_LMC} {what}, not {_ways(fabric)}")
    if _lid(fabric, "server", fabric.slots) > LAST_UNICAST_LID:
        raise DetourError(f"{fabric.name}: {1 << bits} LIDs for each of {fabric.slots} servers are more than there are")
    if max(fabric.hosts + fabric.uplinks, fabric.leaves * fabric.cables) > MOST_PORTS:
        raise DetourError(f"{fabric.name}: a switch has {MOST_PORTS} ports at most")
    return bits


def _ways(fabric: FatTree2) -> int:
    return fabric.spines * fabric.cables**2


def path_of(fabric: FatTree2, spine: np.ndarray, cables: np.ndarray | None) -> np.ndarray:
    """(flows,) the path bits of flows over spines and cables (2, flows)."""
    if cables is None:
        return spine
    return (spine * fabric.cables + cables[0]) * fabric.cables + cables[1]


def _lid(fabric: FatTree2, kind: str, number: int) -> int:
    """The base LID. Servers' are multiples of 2^LMC; those of switches come before."""
    if kind != "server":
        return 1 + number + (fabric.leaves if kind == "spine" else 0)
    step = 1 << (_ways(fabric) - 1).bit_length()
    return (-(-(1 + fabric.leaves + fabric.spines) // step) + number) * step


def made_up_guids(fabric: FatTree2 | FatTree3) -> Guids:
    """GUIDs for a fabric that is only simulated."""
    if isinstance(fabric, FatTree2):
        counts = {"leaf": fabric.leaves, "spine": fabric.spines, "server": fabric.slots}
    else:
        above = {"agg": fabric.pods * fabric.aggs, "core": fabric.aggs * fabric.cores}
        counts = {"leaf": fabric.all_leaves, **above, "server": fabric.slots}
    kinds = enumerate(counts.items())
    return {f"{kind}{n}": _PREFIX + (k << 24) + (n << 4) for k, (kind, count) in kinds for n in range(count)}


def read_guids(fabric: FatTree2 | FatTree3, path: Path) -> Guids:
    """GUIDs from a file of lines `leaf0,0x0002c902003c8b78`, one for every switch and every server that is there.

    Raises:
        DetourError: the file cannot be read, a line is not of that form, or somebody has none.
    """
    found: Guids = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        name, _, guid = (part.strip() for part in line.partition(","))
        if not line.strip():
            continue
        try:
            found[name] = int(guid, 16)
        except ValueError:
            raise DetourError(
                f"{path}, line {number}: {line!r} is not name,guid, like leaf0,0x0002c902003c8b78"
            ) from None
    present = fabric.present()
    for name in made_up_guids(fabric):
        if name not in found and not (name.startswith("server") and not present[int(name[6:])]):
            raise DetourError(f"{path}: no GUID for {name}")
    return found


def forwarding_tables(fabric: FatTree2, guids: Guids) -> Iterator[str]:
    """Lines of a file for `opensm -R file -U FILE` with the LMC of `path_bits`; LIDs follow OpenSM's by port GUID.

    Raises:
        DetourError: the fabric is too large.
    """
    bits = path_bits(fabric)
    working = fabric.working()
    last = _lid(fabric, "server", fabric.slots) - 1
    for kind, count in (("leaf", fabric.leaves), ("spine", fabric.spines)):
        for switch in range(count):
            name = f"{kind}{switch}"
            lid = _lid(fabric, kind, switch)
            yield f"Unicast lids [0x0-0x{last:x}] of switch Lid {lid} guid 0x{guids[name]:016x} ({name}):"
            yield from _to_switches(fabric, working, guids, kind, switch)
            for server in np.flatnonzero(fabric.present()).tolist():
                entry = f"Channel Adapter portguid 0x{guids[f'server{server}']:016x}: 'server{server}'"
                for choice in range(1 << bits):
                    port = _port(fabric, working, kind, switch, server, choice)
                    if port:
                        yield f"0x{_lid(fabric, 'server', server) + choice:04x} {port:03d} : ({entry})"


def _port(fabric: FatTree2, working: np.ndarray, kind: str, switch: int, server: int, choice: int) -> int:
    """A switch's port to a server for path bits `choice`; 0: there is no way."""
    leaf, place = divmod(server, fabric.hosts)
    over, down = divmod(choice, fabric.cables)
    wanted, up = divmod(over, fabric.cables)
    if kind == "spine":
        cable = _cable(working[leaf, switch], down)
        return 0 if cable is None else leaf * fabric.cables + cable + 1
    if leaf == switch:
        return place + 1
    usable = np.flatnonzero(working[switch].any(axis=1) & working[leaf].any(axis=1))
    if not len(usable):
        return 0
    spine = wanted if wanted in usable else int(usable[wanted % len(usable)])
    return _uplink_port(fabric, spine, _cable(working[switch, spine], up) or 0)


def _cable(working: np.ndarray, wanted: int) -> int | None:
    """The wanted cable, or another one that works; None: there is none."""
    usable = np.flatnonzero(working)
    if not len(usable):
        return None
    return wanted if working[wanted] else int(usable[wanted % len(usable)])


def _uplink_port(fabric: FatTree2, spine: int, cable: int) -> int:
    return fabric.hosts + 1 + spine * fabric.cables + cable


def _to_switches(fabric: FatTree2, working: np.ndarray, guids: Guids, kind: str, switch: int) -> Iterator[str]:
    """Entries for the switches' own LIDs, which management needs: those within two hops, and port 0 for itself."""
    links = working if kind == "leaf" else working.transpose(1, 0, 2)
    mine, there = links[switch], links.sum(axis=2) > 0

    def port_to(number: int, turn: int) -> int:
        cable = _cable(mine[number], turn % fabric.cables) or 0
        return _uplink_port(fabric, number, cable) if kind == "leaf" else number * fabric.cables + cable + 1

    for to, count in (("leaf", fabric.leaves), ("spine", fabric.spines)):
        for number in range(count):
            if to == kind:
                shared = np.flatnonzero(there[switch] & there[number])
                port = port_to(int(shared[number % len(shared)]), number) if len(shared) else None
                port = 0 if number == switch else port
            else:
                port = port_to(number, switch) if there[switch, number] else None
            if port is not None:
                name = f"{to}{number}"
                yield f"0x{_lid(fabric, to, number):04x} {port:03d} : (Switch portguid 0x{guids[name]:016x}: '{name}')"


def simulated(fabric: FatTree2, guids: Guids) -> Iterator[str]:
    """Lines of the fabric for `ibsim -s FILE` (the format of ibnetdiscover); links that are down are left out."""
    working, present = fabric.working(), fabric.present().reshape(fabric.leaves, fabric.hosts)
    for leaf in range(fabric.leaves):
        yield f"switchguid=0x{guids[f'leaf{leaf}']:x}"
        yield f'Switch\t{fabric.hosts + fabric.uplinks} "leaf{leaf}"'
        for place in np.flatnonzero(present[leaf]).tolist():
            yield f'[{place + 1}]\t"server{leaf * fabric.hosts + place}"[1]'
        for spine, cable in np.argwhere(working[leaf]).tolist():
            far = leaf * fabric.cables + cable + 1
            yield f'[{_uplink_port(fabric, spine, cable)}]\t"spine{spine}"[{far}]'
        yield ""
    for spine in range(fabric.spines):
        yield f"switchguid=0x{guids[f'spine{spine}']:x}"
        yield f'Switch\t{fabric.leaves * fabric.cables} "spine{spine}"'
        for leaf, cable in np.argwhere(working[:, spine]).tolist():
            yield f'[{leaf * fabric.cables + cable + 1}]\t"leaf{leaf}"[{_uplink_port(fabric, spine, cable)}]'
        yield ""
    for server in np.flatnonzero(present).tolist():
        leaf, place = divmod(server, fabric.hosts)
        guid = guids[f"server{server}"]
        yield f"caguid=0x{guid - 1:x}"  # ibsim numbers ports on from their node
        yield f'Ca\t1 "server{server}"'
        yield f'[1]\t"leaf{leaf}"[{place + 1}]'
        yield ""
