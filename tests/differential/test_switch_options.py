# SPDX-License-Identifier: Apache-2.0
"""Options of simple_switch that change what becomes of packets: `--drop-port` and `--priority-queues`."""

from __future__ import annotations

import pytest

from tests.differential import case, engine, reference
from tests.differential.packets import Frame
from tests.differential.programs import Program

FRAMES, SEED = 200, 3
DROP = 3


def dropped_by_rules(frame: Frame) -> list[Frame]:
    """What drop_rules.p4 does with a frame where port 3 drops, and 511 is a port like any other."""
    port, data = frame
    if len(data) < 2:
        return [] if port == DROP else [(port, data)]
    op = data[0]
    port = 2 if op == 2 else 511 if op == 3 else port
    if port == DROP or op in (1, 6, 7, 8):
        return []
    left = data[2:] if op == 5 else bytes([op, port & 0xFF]) + data[2:]
    return [(port, left)] if left else []


def test_another_port_drops() -> None:
    run, _ = case.load((program := Program("drop_rules")).golden, *program.load())
    expected = [dropped_by_rules(frame) for frame in run.frames]
    assert engine.run(run, drop_port=DROP).outputs == expected
    assert any(511 in [port for port, _ in frames] for frames in expected)


def test_priorities_without_a_queue_are_dropped() -> None:
    run, recorded = case.load((program := Program("priority")).golden, *program.load())
    for queues in (1, 3):
        expected = [
            [] if len(data) >= 2 and data[0] & 7 >= queues else out
            for (_, data), out in zip(run.frames, recorded.outputs, strict=True)
        ]
        assert engine.run(run, priorities=queues).outputs == expected


@pytest.mark.bmv2
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {"drop_port": port}) for name in ("drop_rules", "drop_order") for port in (0, 2, 3)),
        *((name, {"drop_port": 3}) for name in ("clone_and_multicast", "clone_egress", "truncate", "recirculate")),
        *(("priority", {"priorities": count}) for count in (1, 3)),
    ],
)
def test_engine_does_what_bmv2_does(name: str, options: dict[str, int]) -> None:
    run = Program(name).case(FRAMES, SEED)
    theirs = reference.run(run, **options)
    assert not case.differences(run, theirs, engine.run(run, **options))
