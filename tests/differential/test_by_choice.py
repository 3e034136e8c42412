# SPDX-License-Identifier: Apache-2.0
"""Where the engine differs from simple_switch by choice (docs/switch.md): what each of the two does, exactly."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from finsy.proto import p4r

from tests.differential import engine, reference
from tests.differential.case import Case
from tests.differential.packets import Frame
from tests.ptf.bmv2 import Bmv2
from tests.ptf.p4rt import Client, Schema, WriteError

HERE = Path(__file__).parent / "by_choice"
JSON = (HERE / "by_choice.json").read_bytes()
PORT = 3
EXTRACTED, WRITTEN, TRAILER = 0x7777, 0x1234, b"trailer"
INVALIDATE, WRITE, VALIDATE = 1, 2, 4
NONE, KNOWN, OTHER = 1, 2, 9
"""what the table of by_choice.p4 says of 0, of EXTRACTED and of anything else"""

bmv2 = pytest.mark.skipif(reference.missing() is not None, reason=reference.missing() or "")


def schema() -> Schema:
    return Schema.load(HERE / "by_choice.p4info.txtpb")


def frame(extract: bool, steps: int) -> Frame:
    """One whose second header is extracted, or not, and then treated so."""
    body = EXTRACTED.to_bytes(2, "big") + TRAILER
    return PORT, bytes([extract, steps]) + WRITTEN.to_bytes(2, "big") + b"\xee\xee\xee" + body


CASES = [frame(extract, steps) for extract, steps in product((True, False), range(8))]


def seen(outputs: list[list[Frame]]) -> list[tuple[int, int]]:
    """Of each frame (the value that was read, what the table took it for)."""
    return [(int.from_bytes(data[4:6], "big"), data[6]) for ((_, data),) in outputs]


def expected(sent: Frame) -> tuple[int, int]:
    """What docs/switch.md says."""
    extract, steps = sent[1][0], sent[1][1]
    valid, value = bool(extract), EXTRACTED if extract else 0
    if steps & INVALIDATE:
        valid = False
    if steps & WRITE:
        value = WRITTEN
    if steps & VALIDATE:
        value, valid = value if valid else 0, True
    key = value if valid else 0
    return value, {0: NONE, EXTRACTED: KNOWN}.get(key, OTHER)


def _left_over(frames: list[Frame]) -> list[tuple[int, int]]:
    """The same for BMv2: a field is 0 only before the first packet that leaves something."""
    values, left = [], 0
    for sent in frames:
        value, field = expected(sent)
        if not sent[1][0] and not sent[1][1] & (WRITE | VALIDATE):
            value = left
        left = value
        values.append((value, field))
    return values


def run(frames: list[Frame]) -> Case:
    return Case("by_choice", JSON, schema(), [], frames, batch=1)


def test_fields_of_headers_that_are_not_valid() -> None:
    """Nothing is left over from one packet to the next, in whatever order they come."""
    for frames in (CASES, CASES[::-1]):
        assert seen(engine.run(run(frames)).outputs) == [expected(f) for f in frames]


@bmv2
def test_fields_of_headers_that_are_not_valid_in_bmv2() -> None:
    """They are left over."""
    for frames in (CASES, CASES[::-1]):
        assert seen(reference.run(run(frames)).outputs) == _left_over(frames)
    backwards = CASES[::-1]
    assert _left_over(backwards) != [expected(f) for f in backwards]


def filled(client: Client, size: int) -> int:
    """How many entries a table takes that has 4 places by the JSON and `size` by P4Info."""
    info = schema()
    table = info.find("tables", "small")
    table.size = size
    client.set_pipeline(info.config(JSON))
    taken = 0
    for value in range(1, 20):
        entity = p4r.Entity()
        entry = entity.table_entry
        entry.table_id = table.preamble.id
        entry.match.add(field_id=1).exact.value = bytes([value])
        entry.action.action.action_id = info.find("actions", "NoAction").preamble.id
        try:
            client.insert(entity)
        except WriteError:
            break
        taken += 1
    return taken


@pytest.mark.parametrize(("size", "taken"), [(2, 2), (4, 4), (8, 8), (0, 4)])
def test_the_size_of_a_table_is_that_of_p4info(size: int, taken: int) -> None:
    with engine.switch() as switch, Client(switch.target) as client:
        assert filled(client, size) == taken


@bmv2
@pytest.mark.parametrize("size", [2, 4, 8, 0])
def test_the_size_of_a_table_in_bmv2_is_that_of_the_json(size: int) -> None:
    with Bmv2() as switch, Client(switch.address) as client:
        assert filled(client, size) == 4
