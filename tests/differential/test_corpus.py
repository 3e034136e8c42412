# SPDX-License-Identifier: Apache-2.0
"""The corpus on the engine: as BMv2 did when it was recorded, and as it does here and now."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from detour.engine.trace.tree import EVENT_KINDS, Output, Visit
from detour.p4.build import Build, write
from tests.differential import case, engine, programs, reference
from tests.differential.packets import Frame
from tests.differential.programs import Program
from tests.ptf.p4rt import Schema

CORPUS = programs.programs()
LIVE_FRAMES = int(os.environ.get("DETOUR_DIFF_FRAMES", "600"))
LIVE_SEED = int(os.environ.get("DETOUR_DIFF_SEED", "1"))

# Another p4c shows in a few; that sources are those that were compiled, their digests say.
COMPILED_AGAIN = CORPUS if os.environ.get("DETOUR_COMPILED") == "all" else CORPUS[::8]
OURS = CORPUS[4::8]
LIVE = CORPUS[2::4]  # what BMv2 did with each is recorded

each_program = pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in CORPUS])


def some_of_them(chosen: Sequence[Program]) -> pytest.MarkDecorator:
    """The rest is run in `make test-long`."""
    marked = [pytest.param(p, id=p.name, marks=() if p in chosen else pytest.mark.long) for p in CORPUS]
    return pytest.mark.parametrize("program", marked)


@pytest.fixture(scope="module")
def on_engine() -> Iterator[engine.EngineSwitch]:
    with engine.switch() as switch:
        yield switch


@each_program
def test_engine_does_what_bmv2_did(program: Program, on_engine: engine.EngineSwitch) -> None:
    run, recorded = case.load(program.golden, *program.load())
    problems = case.differences(run, recorded, engine.run_on(on_engine, run, digests=len(recorded.digests)))
    assert not problems, _report(problems)


@some_of_them(OURS)
def test_what_our_compiler_makes_does_what_bmv2_did(
    program: Program, tmp_path: Path, on_engine: engine.EngineSwitch
) -> None:
    made = Build(tmp_path / "out.json", tmp_path / "out.p4info.txtpb")
    write(program.source, made)
    run, recorded = case.load(program.golden, made.json.read_bytes(), Schema.load(made.p4info), any_build=True)
    problems = case.differences(run, recorded, engine.run_on(on_engine, run, digests=len(recorded.digests)))
    assert not problems, _report(problems)


@pytest.mark.bmv2
@some_of_them(LIVE)
def test_engine_does_what_bmv2_does(program: Program, on_engine: engine.EngineSwitch) -> None:
    run = program.case(LIVE_FRAMES, LIVE_SEED)
    theirs = reference.run(run)
    problems = case.differences(run, theirs, engine.run_on(on_engine, run, digests=len(theirs.digests)))
    assert not problems, f"seed {LIVE_SEED}: " + _report(problems)


def test_a_difference_is_found() -> None:
    program = Program("table_lpm")
    run, recorded = case.load(program.golden, *program.load())
    port, data = recorded.outputs[5][0]
    changes = [[(port, data[:-1] + bytes([data[-1] ^ 1]))], [(port + 1, data)], [], [(port, data), (port, data)]]
    for change in changes:
        outputs = [*recorded.outputs[:5], change, *recorded.outputs[6:]]
        assert len(case.differences(run, recorded, case.Result(outputs))) == 1
    assert case.differences(run, recorded, case.Result(recorded.outputs, counters=["c[0] 1p"]))
    assert case.differences(run, recorded, case.Result(recorded.outputs, digests=["1: 00"]))
    assert not case.differences(run, recorded, recorded)


def test_recordings_are_not_empty_shells() -> None:
    silent = []
    for program in CORPUS:
        run, recorded = case.load(program.golden, *program.load())
        changed = sum(1 for f, o in zip(run.frames, recorded.outputs, strict=True) if o and o != [f])
        if changed < 20 and not recorded.counters and not recorded.digests:
            silent.append(program.name)
    assert not silent, f"these programs show nothing of what they do: {silent}"


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CORPUS) >= 60
    assert {p.stem.removesuffix(".json") for p in (programs.CORPUS / "golden").iterdir()} == {p.name for p in CORPUS}


def test_compiled_programs_belong_to_their_sources() -> None:
    recorded = programs.digests()
    stale = [p.name for p in CORPUS if recorded.get(p.name) != programs.source_digest(p)]
    assert not stale, f"run python -m tests.differential.record: {stale}"


def test_no_paths_of_a_machine_are_in_compiled_programs() -> None:
    for program in CORPUS:
        content = json.loads(program.json.read_text())
        assert content["program"] == program.source.name


@pytest.mark.long
def test_compiling_again_makes_the_same() -> None:
    reason = programs.compiler_missing()
    if reason is not None:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as folder:
        for program in COMPILED_AGAIN:
            text, info = programs.compile_to(program, Path(folder))
            assert json.loads(text) == json.loads(program.json.read_text()), program.name
            assert info == program.p4info.read_bytes(), program.name


def _report(problems: list[str]) -> str:
    return f"{len(problems)} differences, the first ones:\n" + "\n".join(problems[:5])


# -- with every packet traced: DETOUR_TRACED=all takes the whole corpus --------------------------------------


_CHOSEN = {
    *("action_profile", "arith_signed", "assert_assume", "checksum_ipv4", "clone_and_multicast", "clone_egress"),
    *("clone_ingress", "copies_of_copies", "counter_direct", "digest", "drop_rules", "hash_algorithms", "hash_varbit"),
}
TRACED = [p for p in programs.programs() if os.environ.get("DETOUR_TRACED") == "all" or p.name in _CHOSEN]


def _frames(visit: Visit) -> list[Frame]:
    outcomes = (leaf.outcome for _, leaf in visit.tree.leaves())
    return sorted((each.port, each.frame) for each in outcomes if isinstance(each, Output) and each.frame)


@pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in TRACED])
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
