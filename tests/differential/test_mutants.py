# SPDX-License-Identifier: Apache-2.0
"""The judge of generated tests: changes of programs, and which of them make no difference (`mutants`)."""

from __future__ import annotations

import json
from pathlib import Path

from tests.differential.equivalence import equivalent
from tests.differential.mutants import PROGRAMS, changes, drawn


def test_changes_that_make_a_difference_are_told_apart(tmp_path: Path) -> None:
    file = PROGRAMS["ipv4"]()
    source = json.loads(file.read_text())
    verdicts = {}
    for number, (text, program) in enumerate(drawn(source, len(list(changes(source))), 1)):
        if "line 108" in text or "line 120: 0x02" in text:
            (tmp_path / f"{number}.json").write_text(json.dumps(program))
            verdicts[text] = equivalent(file, tmp_path / f"{number}.json")
    assert verdicts.pop("egress line 120: 0x02 is 0x03")  # where a queue is long
    assert len(verdicts) > 2
    assert not any(verdicts.values())
    assert equivalent(file, file)


def test_the_same_seed_draws_the_same_changes() -> None:
    source = json.loads(PROGRAMS["ipv4"]().read_text())
    one, same, other = ([text for text, _ in drawn(source, 9, seed)] for seed in (1, 1, 2))
    assert one == same != other
