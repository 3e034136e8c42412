# SPDX-License-Identifier: Apache-2.0
"""Clones, resubmission, recirculation, multicast, digests, truncation, exit: who sees what."""

from __future__ import annotations

from .bitstring import Spec, join, split
from .conftest import program
from .mini_switch import MiniSwitch

OP: Spec = [("op", 8), ("passes", 8), ("kind", 8), ("kept", 16), ("length", 16), ("port", 9), ("pad", 7)]
TAIL = b"some payload"
SIZE = 9


def send(op: int, switch: MiniSwitch | None = None) -> list[tuple[int, dict[str, int], bytes]]:
    switch = switch or MiniSwitch(program("copies"), sessions={5: 3}, groups={7: [(2, 11), (4, 12)]})
    out = switch.send(8, join(OP, {"op": op}) + TAIL)
    return [(port, split(OP, data.ljust(SIZE, b"\0")), data[SIZE:]) for port, data in out]


def test_plain() -> None:
    ((port, op, tail),) = send(0)
    assert (port, op["port"], op["kind"], op["kept"], op["length"], tail) == (1, 1, 0, 1, SIZE + len(TAIL), TAIL)


def test_clone_from_ingress_keeps_its_list_only() -> None:
    clone, original = send(1)
    assert (clone[0], clone[1]["kind"], clone[1]["kept"], clone[1]["port"]) == (3, 1, 0x1111, 3)
    assert (original[0], original[1]["kind"], original[1]["kept"]) == (1, 0, 0x1112)
    assert clone[1]["length"] == SIZE + len(TAIL)


def test_clone_to_a_session_that_nobody_configured() -> None:
    assert send(14) == []


def test_clone_to_a_group() -> None:
    switch = MiniSwitch(program("copies"), session_groups={6: 7}, groups={7: [(2, 11), (4, 12)]})
    assert [(p, op["kind"]) for p, op, _ in send(14, switch)] == [(2, 1), (4, 1)]


def test_resubmission_keeps_what_its_list_says() -> None:
    ((port, op, _),) = send(2)
    # Three more passes; `lost` starts at 0 every time.
    assert (port, op["kept"]) == (1, 0x30 + 1)


def test_multicast() -> None:
    copies = send(3)
    assert [(p, op["passes"], op["kind"], op["port"]) for p, op, _ in copies] == [(2, 11, 5, 2), (4, 12, 5, 4)]


def test_drop_after_multicast() -> None:
    assert send(9) == []
    assert send(6) == []
    assert send(13) == []


def test_digest() -> None:
    switch = MiniSwitch(program("copies"))
    send(4, switch)
    assert [data for _, data in switch.digests] == [b"\x04\xbe\xef\x00\x08"]
    (only,) = switch.program.digests.values()
    assert (only.name, only.bits, only.bytes) == ("digest_t", (8, 16, 9), 5)


def test_truncation() -> None:
    switch = MiniSwitch(program("copies"))
    ((_, data),) = switch.send(8, join(OP, {"op": 5}) + TAIL)
    assert len(data) == 6
    assert send(10) == []


def test_exit_ends_ingress_but_not_egress() -> None:
    ((port, op, _),) = send(7)
    assert (port, op["kept"], op["port"]) == (1, 0xAAAA, 1)


def test_added_headers_count() -> None:
    ((_, op, tail),) = send(8)
    assert (op["length"], tail) == (SIZE + len(TAIL) + 8, bytes(range(1, 9)) + TAIL)


def test_recirculation() -> None:
    ((port, op, _),) = send(11)
    assert (port, op["passes"], op["kind"]) == (1, 2, 0)
    assert op["kept"] == 0x2222 + 1


def test_clone_from_egress() -> None:
    original, clone = send(12)
    assert (original[0], original[1]["passes"], original[1]["kind"]) == (1, 77, 0)
    assert (clone[0], clone[1]["passes"], clone[1]["kind"], clone[1]["kept"]) == (3, 77, 2, 0x3333)
