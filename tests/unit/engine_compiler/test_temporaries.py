# SPDX-License-Identifier: Apache-2.0
"""Variables of one function live outside the PHV, and nobody can tell by what comes out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from detour.base.places import BUILD
from detour.engine.compiler import layout
from detour.engine.compiler.layout import temporaries
from detour.engine.compiler.load import find_field
from detour.engine.compiler.program import Program
from tests.fuzz.populate import populated
from tests.packet_runner import PacketRunner, field_place

_PROGRAMS = Path("tests/programs/compiler")
_CACHE_LINE = 64


def _runner(path: Path) -> PacketRunner:
    program = Program.from_json(path, use_cache=False)
    return PacketRunner(program, populated(program, path, 7))


@pytest.mark.parametrize("name", ["numbers", "stateful", "selectors", "copies"])
def test_results_are_those_with_all_variables_in_the_phv(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _PROGRAMS / f"{name}.json"
    apart = _runner(path)
    assert apart.program.layout.frames
    with monkeypatch.context() as patch:
        patch.setattr(layout, "temporaries", lambda model: {})
        together = _runner(path)
    assert not together.program.layout.frames
    assert apart.program.phv_size <= together.program.phv_size
    rng = random.Random(11)
    for _ in range(200):
        packet = bytes(rng.choice([0, 1, 2, 8, 255, rng.getrandbits(8)]) for _ in range(rng.randrange(120)))
        port, time = rng.randrange(8), rng.randrange(1 << 20)
        assert apart.run(packet, port, time) == together.run(packet, port, time)


def test_what_two_functions_mention_stays_in_the_phv() -> None:
    program = Program.from_json(BUILD / "fabric.json")
    by_function = temporaries(program.model)
    names = {function: {spec.name for spec in fields} for function, fields in by_function.items()}
    assert names.keys() == {"parse", "ingress", "egress"}
    assert all(names.values())
    assert not names["parse"] & names["ingress"]
    assert not names["ingress"] & names["egress"]
    # The program's own metadata can be watched, whoever uses them.
    assert not any("." in name for fields in names.values() for name in fields)
    assert field_place(program, "scalars.metadata_t.verdict")[0] < program.phv_size


def test_a_local_variable_has_no_place() -> None:
    program = Program.from_json(BUILD / "fabric.json")
    place = program.layout.place(program.model.headers["scalars"], find_field(program.model.headers["scalars"], "draw"))
    assert place.offset >= layout.TEMPORARY > program.phv_size


def test_the_whole_header_keeps_its_variables_together() -> None:
    program = Program.from_json(BUILD / "fabric.json")
    program.model.actions[0].json["primitives"].append(
        {"op": "assign_header", "parameters": [{"type": "header", "value": "scalars"}] * 2}
    )
    assert "ingress" not in temporaries(program.model)


def test_a_plain_packet_waits_in_five_cache_lines() -> None:
    """What `loop.pool` asks the cache for before a packet leaves its queue."""
    program = Program.from_json(BUILD / "fabric.json")
    last = program.model.headers["udp"]
    end = program.layout.base["udp"] + program.layout.shape(last.type).size
    assert end <= 5 * _CACHE_LINE
