# SPDX-License-Identifier: Apache-2.0
"""Random programs without p4c: what it gets in other words does the same when this compiler gets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format

from tests.differential.p4c_corpus import ours, traffic
from tests.differential.p4c_corpus.reference import Reference
from tests.differential.random_programs import Program


@pytest.mark.parametrize("seed", [8, 24, 44])
def test_loops_do_what_their_iterations_do(seed: int, tmp_path: Path) -> None:
    program = Program(seed)
    assert "for (" in program.text
    assert "for (" not in program.text_for_p4c
    source, rewritten = tmp_path / "program.p4", tmp_path / "rewritten.p4"
    source.write_text(program.text)
    rewritten.write_text(program.text_for_p4c)
    mine, unrolled = ours.compiled(source), ours.compiled(rewritten)
    assert mine.accepted, mine.error
    assert unrolled.accepted, unrolled.error
    (tmp_path / "out.json").write_text(json.dumps(unrolled.json))
    (tmp_path / "p4info.txtpb").write_text(text_format.MessageToString(unrolled.p4info))
    assert traffic.compare(Reference(tmp_path, 0), mine, f"loops {seed}") == ""
