# SPDX-License-Identifier: Apache-2.0
"""`detour trace --format bmv2` beside the traces that BMv2 writes of the same packets, event by event.

BMv2 has `--trace-dir` since behavioral-model 1433. `DETOUR_BMV2_TRACE` names another simple_switch_grpc than that on
PATH. Copies of a packet have no events there yet, and no outcome is written.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from detour.fabric.tracing.reading import read_trace
from detour.fabric.tracing.text_proto import text_protos
from tests.differential import case, engine, programs
from tests.differential.case import Case
from tests.differential.programs import Program
from tests.differential.reference import DROP_PORT, PRIORITIES, missing
from tests.differential.stream import PacketStream
from tests.ptf.bmv2 import BINARY, Bmv2
from tests.ptf.p4rt import Client
from tests.waiting import until

_BINARY = os.environ.get("DETOUR_BMV2_TRACE", BINARY)
_FRAMES = 24
_CHOSEN = (
    *("clone_and_multicast", "drop_rules", "parser_verify", "recirculate", "resubmit", "table_lpm", "exit_return"),
    *("copies_of_copies", "counter_direct"),
)
_COPIES = ("clone_and_multicast", "recirculate", "resubmit", "copies_of_copies")
"""programs all of whose packets are copied or go round"""


def _why_not() -> str:
    if shutil.which(_BINARY) is None:
        return f"{_BINARY} is not there"
    help_text = subprocess.run([_BINARY, "--help"], capture_output=True, text=True, check=False)
    if "--trace-dir" not in help_text.stdout + help_text.stderr:
        return f"{_BINARY} writes no traces (behavioral-model 1433)"
    return missing() or ""


@pytest.fixture(scope="module")
def tracing() -> None:
    """Which builds trace is known only when one is asked: once, and not when tests are collected."""
    if reason := _why_not():
        pytest.skip(reason)


def _traced(run: Case, folder: Path) -> list[Path]:
    """Files of BMv2's, in the order of the frames."""
    options = ["--trace-dir", str(folder)]
    with (
        Bmv2(priorities=PRIORITIES, drop_port=DROP_PORT, binary=_BINARY, options=options) as switch,
        Client(switch.address) as client,
    ):
        client.set_pipeline(run.schema.config(run.json))
        stream = PacketStream(switch)
        try:
            for kind, entity in run.updates:
                client.write((kind, entity))
            for frame in run.frames:
                stream.run([frame])
        finally:
            stream.close()
        # A file is written when the last part of a packet is gone.
        until(lambda: len(list(folder.iterdir())) == len(run.frames))
    return sorted(folder.iterdir(), key=lambda file: int(re.sub(r"\D", "", file.name)))


def _stages(trace: dict[str, Any]) -> list[str]:
    return [event["stage"] for event in trace["events"] if event["kind"] == "stage"]


@pytest.mark.bmv2
@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("name", _CHOSEN)
def test_stages_are_those_of_bmv2(name: str, tmp_path: Path) -> None:
    program = Program(name)
    run, _ = case.load(program.golden, *program.load())
    run.frames, run.batch = run.frames[:_FRAMES], 1
    files = _traced(run, tmp_path / "traces")
    _, visits = engine.run_traced(run)
    lengths, whole = set(), 0
    for number, (file, visit) in enumerate(zip(files, visits, strict=True)):
        [theirs] = read_trace(file)["hops"]
        assert theirs["port"] == visit.port == run.frames[number][0]
        expected = _stages(theirs["trace"])
        ours = _ours(visit, tmp_path / f"{number}.txtpb")
        if len(ours) == 1 and ours[0].count("parser") == 1:
            assert ours == [expected], number
            whole += 1
        else:  # the first pass of the packet itself
            assert any(stages[: len(expected)] == expected for stages in ours), (number, expected, ours)
        lengths.add(len(expected))
    assert max(lengths) == 4
    assert whole or name in _COPIES


def _ours(visit: Any, file: Path) -> list[list[str]]:
    """The stages of each copy, by way of the text that detour writes."""
    hop = {"switch": "switch", "port": visit.port, "at_ns": 0, "trace": visit.tree.as_json()}
    copies = []
    for text in text_protos(hop, "bmv2"):
        file.write_text(text)
        copies.append(_stages(read_trace(file)["hops"][0]["trace"]))
    return copies


def test_programs_are_of_the_corpus() -> None:
    assert set(_CHOSEN) <= {program.name for program in programs.programs()}
