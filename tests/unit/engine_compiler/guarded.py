# SPDX-License-Identifier: Apache-2.0
"""Runs a program on random packets with packet, PHV and output each in front of a page that nobody may touch.

    python -m tests.unit.engine_compiler.guarded PROGRAM.json PACKETS SEED

A read or write that goes too far ends this process with a signal.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys

from detour.engine import phv
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState
from detour.engine.tables import EntryExists, GroupMember, GroupRef, MemberRef, TableError
from tests.packet_runner import bind

_PAGE = mmap.PAGESIZE
_LARGEST = 600


class Guarded:
    """Memory that ends where a forbidden page begins."""

    def __init__(self, size: int) -> None:
        self._pages = (size + _PAGE - 1) // _PAGE
        self._map = mmap.mmap(-1, (self._pages + 1) * _PAGE)
        self._view = (ctypes.c_char * ((self._pages + 1) * _PAGE)).from_buffer(self._map)
        start = ctypes.addressof(self._view)
        self.end = start + self._pages * _PAGE
        mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        if mprotect(self.end, _PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def place(self, size: int) -> int:
        """Address of the last `size` bytes."""
        return self.end - size


def fill(state: SwitchState, rng: random.Random) -> None:
    """Some entries in every table."""
    for profile in state.action_profiles.values():
        for m in range(5):
            action = rng.choice(list(profile.spec.actions.values()))
            profile.add_member(m, action.name, tuple(rng.getrandbits(p.bits) for p in action.params))
        if profile.spec.selector:
            for g in range(3):
                profile.add_group(g, [GroupMember(m) for m in range(2 * g)])
    for table in state.tables.values():
        for _ in range(30 if table.spec.key and not table.immutable else 0):
            key = []
            for f in table.spec.key:
                value, top = rng.choice([0, 1, 2, 3, rng.getrandbits(f.bits)]) & ((1 << f.bits) - 1), (1 << f.bits) - 1
                choices = {"lpm": (value, rng.randrange(f.bits + 1)), "ternary": (value, rng.getrandbits(f.bits))}
                key.append(choices.get(f.match_type, (value, top) if f.match_type == "range" else value))
            action = rng.choice(table.spec.actions)
            params = tuple(rng.getrandbits(p.bits) for p in action.params)
            target = rng.choice([MemberRef(rng.randrange(5)), GroupRef(rng.randrange(3))])
            try:
                if table.profile is None:
                    table.insert(tuple(key), action.name, params, rng.randrange(1, 9))
                else:
                    table.insert(tuple(key), target)
            except EntryExists:
                pass
            except TableError:
                assert (table.profile and not table.profile.spec.selector) or len(table) == table.size


def run(path: str, packets: int, seed: int) -> int:
    """Number of packets that were sent."""
    rng = random.Random(seed)
    program = Program.from_json(path)
    state = SwitchState(program, seed)
    fill(state, rng)
    memory, packet, out = Guarded(program.phv_size), Guarded(_LARGEST), Guarded(program.max_header_bytes + 1)
    fields = memory.place(program.phv_size)
    parse, ingress, egress = bind(program.parse_addr, 4), bind(program.ingress_addr, 2), bind(program.egress_addr, 2)
    deparse = bind(program.deparse_addr, 5)
    u32 = ctypes.c_uint32
    sent = 0
    for _ in range(packets):
        size = rng.choice([rng.randrange(40), rng.randrange(_LARGEST)])
        data = bytes(rng.choice([0, 1, 2, 3, 8, 255, rng.getrandbits(8)]) for _ in range(size))
        ctypes.memset(fields, 0, phv.FIXED_SIZE)
        ctypes.memmove(packet.place(size), data, size)
        parse(state.sw, fields, packet.place(size), size)
        consumed = u32.from_address(fields + phv.PAYLOAD_OFFSET).value
        assert consumed <= size
        ingress(state.sw, fields)
        egress(state.sw, fields)
        count = deparse(
            state.sw,
            fields,
            out.place(program.max_header_bytes),
            packet.place(size) + consumed,
            size - consumed,
        )
        assert 0 <= count <= program.max_header_bytes
        sent += u32.from_address(fields + phv.EGRESS_SPEC).value != phv.DROP_PORT
    return sent


if __name__ == "__main__":
    print(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
