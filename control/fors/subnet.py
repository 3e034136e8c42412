# SPDX-License-Identifier: Apache-2.0
"""Plans for InfiniBand (FORS, section 6): forwarding tables that OpenSM loads, and the fabric as ibsim reads it.

Every server has 2^LMC LIDs, and the low bits of the LID that a sender chooses (its path bits) name the spine. So one
set of tables serves all plans of a fabric and its failures: a leaf sends what has spine c in its LID to spine c, and a
spine what is for a leaf to that leaf. Path bits that name a spine which does not lead there take one that does.

Cabling: port a + 1 of a leaf leads to its server a, port M0 + 1 + c to spine c, port u + 1 of a spine to leaf u.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.control.fors.fabric import FatTree2

_MOST_LMC = 7
_LAST_UNICAST_LID = 0xBFFF
_MOST_PORTS = 254
_PREFIX = 0x0002_C900_0000_0000
_KINDS = ("leaf", "spine", "server")

Guids = dict[str, int]
"""by name: leaf0, spine3, server17; of servers those of their ports"""


def path_bits(fabric: FatTree2) -> int:
    """The LMC: how many low bits of a LID name a spine.

    Raises:
        DetourError: there are more spines than LIDs of a port can name, more LIDs than there are, or too many ports.
    """
    bits = (fabric.spines - 1).bit_length()
    if bits > _MOST_LMC:
        raise DetourError(f"{fabric.name}: an LMC of {_MOST_LMC} names {1 << _MOST_LMC} spines, not {fabric.spines}")
    if _lid(fabric, "server", fabric.slots) > _LAST_UNICAST_LID:
        raise DetourError(f"{fabric.name}: {1 << bits} LIDs for each of {fabric.slots} servers are more than there are")
    if max(2 * fabric.spines, fabric.leaves) > _MOST_PORTS:
        raise DetourError(f"{fabric.name}: a switch has {_MOST_PORTS} ports at most")
    return bits


def _lid(fabric: FatTree2, kind: str, number: int) -> int:
    """The base LID. Servers' are multiples of 2^LMC; those of switches come before."""
    if kind != "server":
        return 1 + number + (fabric.leaves if kind == "spine" else 0)
    step = 1 << (fabric.spines - 1).bit_length()
    return (-(-(1 + fabric.leaves + fabric.spines) // step) + number) * step


def made_up_guids(fabric: FatTree2) -> Guids:
    """GUIDs for a fabric that is only simulated."""
    counts = zip(_KINDS, (fabric.leaves, fabric.spines, fabric.slots), strict=True)
    return {
        f"{kind}{n}": _PREFIX + (k << 24) + (n << 4) for k, (kind, count) in enumerate(counts) for n in range(count)
    }


def read_guids(fabric: FatTree2, path: Path) -> Guids:
    """GUIDs from a file of lines `leaf0,0x0002c902003c8b78`, one for every leaf, spine and server that is there.

    Raises:
        DetourError: the file cannot be read, a line is not of that form, or somebody has none.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DetourError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    found: Guids = {}
    for number, line in enumerate(lines, 1):
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
    alive = fabric.alive()
    last = _lid(fabric, "server", fabric.slots) - 1
    for kind, count in (("leaf", fabric.leaves), ("spine", fabric.spines)):
        for switch in range(count):
            name = f"{kind}{switch}"
            lid = _lid(fabric, kind, switch)
            yield f"Unicast lids [0x0-0x{last:x}] of switch Lid {lid} guid 0x{guids[name]:016x} ({name}):"
            yield from _to_switches(fabric, alive, guids, kind, switch)
            for server in np.flatnonzero(fabric.present()).tolist():
                entry = f"Channel Adapter portguid 0x{guids[f'server{server}']:016x}: 'server{server}'"
                for choice in range(1 << bits):
                    port = _port(fabric, alive, kind, switch, server, choice)
                    if port:
                        yield f"0x{_lid(fabric, 'server', server) + choice:04x} {port:03d} : ({entry})"


def _port(fabric: FatTree2, alive: np.ndarray, kind: str, switch: int, server: int, choice: int) -> int:
    """A switch's port to a server for path bits `choice`; 0: there is no way."""
    leaf, place = divmod(server, fabric.spines)
    if kind == "spine":
        return leaf + 1 if alive[leaf, switch] else 0
    if leaf == switch:
        return place + 1
    usable = np.flatnonzero(alive[switch] & alive[leaf])
    if not len(usable):
        return 0
    return fabric.spines + 1 + (choice if choice in usable else int(usable[choice % len(usable)]))


def _to_switches(fabric: FatTree2, alive: np.ndarray, guids: Guids, kind: str, switch: int) -> Iterator[str]:
    """Entries for the switches' own LIDs, which management needs: those within two hops, and port 0 for itself."""
    mine = alive[switch] if kind == "leaf" else alive[:, switch]
    links = alive if kind == "leaf" else alive.T
    base = fabric.spines + 1 if kind == "leaf" else 1
    for to, count in (("leaf", fabric.leaves), ("spine", fabric.spines)):
        for number in range(count):
            if to == kind:
                shared = np.flatnonzero(mine & links[number])
                port = 0 if number == switch else base + int(shared[number % len(shared)]) if len(shared) else None
            else:
                port = base + number if mine[number] else None
            if port is not None:
                name = f"{to}{number}"
                yield f"0x{_lid(fabric, to, number):04x} {port:03d} : (Switch portguid 0x{guids[name]:016x}: '{name}')"


def simulated(fabric: FatTree2, guids: Guids) -> Iterator[str]:
    """Lines of the fabric for `ibsim -s FILE` (the format of ibnetdiscover); links that are down are left out."""
    alive, present = fabric.alive(), fabric.present()
    for leaf in range(fabric.leaves):
        yield f"switchguid=0x{guids[f'leaf{leaf}']:x}"
        yield f'Switch\t{2 * fabric.spines} "leaf{leaf}"'
        for place in np.flatnonzero(present.reshape(fabric.leaves, fabric.spines)[leaf]).tolist():
            yield f'[{place + 1}]\t"server{leaf * fabric.spines + place}"[1]'
        for spine in np.flatnonzero(alive[leaf]).tolist():
            yield f'[{fabric.spines + 1 + spine}]\t"spine{spine}"[{leaf + 1}]'
        yield ""
    for spine in range(fabric.spines):
        yield f"switchguid=0x{guids[f'spine{spine}']:x}"
        yield f'Switch\t{fabric.leaves} "spine{spine}"'
        for leaf in np.flatnonzero(alive[:, spine]).tolist():
            yield f'[{leaf + 1}]\t"leaf{leaf}"[{fabric.spines + 1 + spine}]'
        yield ""
    for server in np.flatnonzero(present).tolist():
        leaf, place = divmod(server, fabric.spines)
        guid = guids[f"server{server}"]
        yield f"caguid=0x{guid - 1:x}"  # ibsim numbers ports on from their node
        yield f'Ca\t1 "server{server}"'
        yield f'[1]\t"leaf{leaf}"[{place + 1}]'
        yield ""
