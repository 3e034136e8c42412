# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.differential.generated [PROGRAM...]`: generates tests, plays them on the engine and on BMv2."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.differential.generated import testgen
from tests.differential.generated.bmv2 import StfBmv2, missing
from tests.differential.generated.judge import counted, judge, play_on_engine, widest
from tests.differential.generated.suite import PROGRAMS, blob, store, without_comments

_STORED = 60


def main() -> int:
    """0 if the engine is to blame for nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.generated", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--tests", type=int, default=500, metavar="N", help="of each program (500)")
    parser.add_argument("--seed", type=int, default=1, help="of p4testgen, the first one (1)")
    parser.add_argument("--files", type=Path, nargs="+", metavar="FILE", help="play these instead of new ones")
    parser.add_argument("--store", action="store_true", help=f"keep the {_STORED} that reach most together")
    options = parser.parse_args()
    lacks = missing() or (None if options.files else testgen.missing())
    if lacks or not set(options.programs) <= set(PROGRAMS):
        parser.error(lacks or f"programs are {', '.join(PROGRAMS)}")
    try:
        return max([_one(program, options) for program in options.programs or PROGRAMS])
    except testgen.Refused as refused:
        parser.error(str(refused))


def _one(program: str, options: argparse.Namespace) -> int:
    if options.files:
        tests = list({test.name: test for test in map(without_comments, map(Path.read_text, options.files))}.values())
    else:
        tests = testgen.generate(program, options.tests, options.seed, lambda line: print(line, file=sys.stderr))
    possible = [test for test in tests if test.possible]
    with StfBmv2(blob(program)) as bmv2:
        judged = judge(possible, play_on_engine(program, possible), bmv2)
    bad = [each for each in judged if each.verdict.bad]
    print(f"{program}: {len(tests)} tests: {counted(judged)}; {len(tests) - len(judged)} name the drop port")
    for each in bad:
        print(each)
    if options.store and not bad:
        print(f"written: {store(program, widest(judged, _STORED))}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
