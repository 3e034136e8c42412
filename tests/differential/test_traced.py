# SPDX-License-Identifier: Apache-2.0
"""What a trace says has happened: the corpus with every packet traced does what BMv2 did, in registers and counters as
well, and the leaves of each packet's tree are the frames that came of it.

`DETOUR_TRACED=all` takes the whole corpus; here are the programs that have something of their own to trace.
"""

from __future__ import annotations

import json
import os

import pytest

from detour.engine.trace.tree import EVENT_KINDS, Output, Visit
from tests.differential import case, engine, programs
from tests.differential.packets import Frame
from tests.differential.programs import Program

_CHOSEN = {
    *("action_profile", "arith_signed", "assert_assume", "checksum_ipv4", "clone_and_multicast", "clone_egress"),
    *("clone_ingress", "copies_of_copies", "counter_direct", "digest", "drop_rules", "hash_algorithms", "hash_varbit"),
}
CORPUS = [p for p in programs.programs() if os.environ.get("DETOUR_TRACED") == "all" or p.name in _CHOSEN]


def _frames(visit: Visit) -> list[Frame]:
    outcomes = (leaf.outcome for _, leaf in visit.tree.leaves())
    return sorted((each.port, each.frame) for each in outcomes if isinstance(each, Output) and each.frame)


@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in CORPUS])
def test_a_trace_is_what_happened(program: Program) -> None:
    run, recorded = case.load(program.golden, *program.load())
    result, visits = engine.run_traced(run)
    assert not case.differences(run, recorded, result)
    assert len(visits) == len(run.frames)
    for number, (visit, outputs) in enumerate(zip(visits, result.outputs, strict=True)):
        assert (visit.port, visit.frame) == run.frames[number]
        assert _frames(visit) == sorted(outputs), f"frame {number}"
        assert all(leaf.outcome is not None for _, leaf in visit.tree.leaves())
    for visit in visits:
        assert visit.tree.json() == json.dumps(visit.tree.as_json())
    assert {event.kind for visit in visits for event in visit.tree.all_events()} <= set(EVENT_KINDS)
