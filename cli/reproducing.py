# SPDX-License-Identifier: Apache-2.0
"""What all of `reproduce` share: the options of an experiment, running its points, and printing what came of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from detour.base.errors import DetourError
from detour.cli.output import Page, bar, present
from detour.cli.parser import CommandFunction, Parser, command, output_file

if TYPE_CHECKING:
    from detour.experiments.reproduce import Experiment, Means, Reproduction
    from detour.experiments.sweep import SweepProgress

P = TypeVar("P")
R = TypeVar("R")
C = TypeVar("C")
Extent: TypeAlias = Literal["quick", "normal", "full"]

QUICK_SECONDS = 45.0
"""what --quick may take, so that with starting up it stays below a minute"""
_SHOWN = 10
"""points left out that are named"""


def add(kinds: Any, name: str, text: str, run: CommandFunction, *, wide: bool = True) -> Parser:
    """Adds an experiment with the options that all have."""
    parser = command(kinds, name, text, run, wide=wide)
    parser.set_defaults(fitting=wide)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="what fits a minute")
    extent.add_argument("--full", action="store_true", help="everything, and longer runs")
    parser.add_argument("--processes", type=int, metavar="N", help="local processes (default: one a core)")
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster instead (auto: the one that runs)")
    parser.add_argument(
        "--out", type=output_file, metavar="FILE", help="where finished points are kept (default: the cache)"
    )
    return parser


def extent_of(options: argparse.Namespace) -> Extent:
    """How much is asked for."""
    return "quick" if options.quick else "full" if options.full else "normal"


def means_of(options: argparse.Namespace, name: str) -> Means:
    """How points are run.

    Raises:
        DetourError: without a process nothing is.
    """
    from detour.experiments.reproduce import Means, default_store

    processes = os.cpu_count() or 1 if options.processes is None else options.processes
    if processes < 1:
        raise DetourError(f"{processes} processes; at least 1 is needed")
    return Means(processes, options.ray, options.out or default_store(name), QUICK_SECONDS if options.quick else None)


@contextmanager
def points_bar(text: str, as_json: bool) -> Iterator[SweepProgress]:
    """A progress bar on standard error, if that is a terminal."""
    with bar(text, as_json) as update:

        def report(done: int, failed: int, total: int) -> None:
            update(done + failed, total, f"{text} ({failed} failed)" if failed else text)

        yield report


def carry_out(
    options: argparse.Namespace, experiment: Experiment[P, R, C], points: Sequence[P], means: Means | None = None
) -> Reproduction[P, C]:
    """Runs points as the options say, or by other means."""
    from detour.experiments.reproduce import reproduce

    with points_bar(experiment.name, options.json) as report:
        return reproduce(experiment, points, means or means_of(options, experiment.name), report)


def show(
    options: argparse.Namespace,
    found: Reproduction[P, C],
    render: Callable[[Page], None],
    groups: Callable[[Sequence[P]], list[str]] | None = None,
) -> int:
    """Prints what came of an experiment, and what did not; the exit code. `groups` says in lines what points left out
    are, where they are too many to be named."""
    from detour.experiments.reproduce import document

    def all_of_it(page: Page) -> None:
        render(page)
        _rest(page, found, groups)

    present(document(found), options, all_of_it)
    return 1 if found.failures else 0


def _rest(page: Page, found: Reproduction[P, Any], groups: Callable[[Sequence[P]], list[str]] | None) -> None:
    """Failures and points left out."""
    from detour.experiments.reproduce import describe

    for failure in found.failures:
        page.print(f"failed: {describe(failure.point)}: {failure.reason}")
    if found.left_out:
        page.print(f"left out: {len(found.left_out)} points beyond the time of --quick (--json names them)")
        left_out = sorted(found.left_out, key=describe)
        for line in groups(left_out) if groups else map(describe, left_out[:_SHOWN]):
            page.print(f"  {line}")
