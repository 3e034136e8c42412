# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.fuzz`: all targets in turn, each for its share of the time."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable

from tests.fuzz.budget import Budget
from tests.fuzz.child import TARGETS
from tests.fuzz.supervisor import Outcome, supervise


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together (default 10)")
    parser.add_argument("--seed", type=int, default=None, help="default: any; it is printed")
    parser.add_argument("--target", action="append", choices=TARGETS, help="one of them; may be given several times")
    parser.add_argument("--first", type=int, default=0, help="number of the first round, to repeat a failure")
    parser.add_argument("--count", type=int, default=0, help="end after so many packets, mutants, ... as well")
    return parser.parse_args(argv)


def _teller(target: str) -> Callable[[float], None]:
    """Shows on a terminal that something goes on."""
    shown = [0.0]

    def tell(seconds: float) -> None:
        if sys.stderr.isatty() and seconds - shown[0] > 1:
            shown[0] = seconds
            print(f"\r{target}: {seconds:.0f} s", end="\r", file=sys.stderr, flush=True)

    return tell


def _report(outcome: Outcome, seconds: float) -> None:
    if outcome.failure is None:
        counts = ", ".join(f"{name} {value:,}" for name, value in outcome.result.items())
        print(f"{outcome.target}: {seconds:.0f} s, seed {outcome.seed}: {counts}", flush=True)
        return
    print(f"{outcome.target}: FAILED with seed {outcome.seed}: {outcome.failure}", flush=True)
    print(f"  kept in {outcome.reproducer}", flush=True)


def main(argv: list[str]) -> int:
    """Runs the targets; 1 if one of them found something."""
    options = _options(argv)
    targets = options.target or list(TARGETS)
    seed = random.SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    seconds = 60 * options.minutes / len(targets)
    failed = False
    for target in targets:
        began = time.monotonic()
        outcome = supervise(target, seed, Budget(seconds, options.count, options.first), _teller(target))
        _report(outcome, time.monotonic() - began)
        failed = failed or outcome.failure is not None
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
