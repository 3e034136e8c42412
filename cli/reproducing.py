# SPDX-License-Identifier: Apache-2.0
"""How any experiment is carried out: its options, its points, what came of them, and printing that."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from detour.base.errors import DetourError
from detour.cli.output import Page, bar, present
from detour.cli.parser import CommandFunction, Parser, command, output_file

if TYPE_CHECKING:
    from detour.experiments.reproduce import Experiment, Means, Reproduction
    from detour.experiments.sweep import SweepProgress

Extent: TypeAlias = Literal["quick", "normal", "full"]

QUICK_SECONDS = 45.0
"""what --quick may take, so that with starting up it stays below a minute"""
_SHOWN = 10
"""points left out that are named"""


@dataclass(frozen=True)
class OptionDeclaration:
    """An option of an experiment. `asked`: its experiment's `select` has it as a parameter; `either`: only one of these
    may be given; `settings`: argparse's."""

    flag: str
    asked: bool
    either: bool
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """Where argparse keeps it."""
        return self.settings.get("dest") or self.flag.removeprefix("--").replace("-", "_")


def option(flag: str, *, asked: bool = True, either: bool = False, **settings: Any) -> OptionDeclaration:
    """An option as argparse has it."""
    return OptionDeclaration(flag, asked, either, settings)


def plot(what: str) -> OptionDeclaration:
    """Where figures are drawn."""
    return option("--plot", asked=False, type=output_file, metavar="FILE", help=f"{what} (.png, .svg)")


class ReproduceCommand:
    """The command of an experiment, whose options select its points. Some do more than that; they say so in these."""

    def __init__(self, name: str, text: str, *options: OptionDeclaration) -> None:
        self.name, self.text, self.options = name, text, options

    def instead(self, options: argparse.Namespace) -> int | None:
        """Does something else and returns the exit code, if options say so."""
        return None

    def variant(self, options: argparse.Namespace) -> Experiment[Any, Any, Any]:
        """What is run, and made of the runs."""
        from detour.experiments.reproduce import EXPERIMENTS

        return EXPERIMENTS[self.name]

    def means(self, options: argparse.Namespace) -> Means:
        """How points are run."""
        return means_of(options, self.name)

    def after(self, options: argparse.Namespace, found: Reproduction[Any, Any]) -> None:
        """What is written besides."""

    def register(self, kinds: Any) -> None:
        """Adds it."""
        parser = add(kinds, self.name, self.text, self.run)
        either = None
        for one in self.options:
            if one.either:
                either = either or parser.add_mutually_exclusive_group()
                either.add_argument(one.flag, **one.settings)
            else:
                parser.add_argument(one.flag, **one.settings)

    def asked(self, options: argparse.Namespace) -> dict[str, Any]:
        """What was asked of `select`: options that were given."""
        values = {one.name: getattr(options, one.name) for one in self.options if one.asked}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    def run(self, options: argparse.Namespace) -> int:
        """Runs the points, draws and prints; the exit code."""
        if (code := self.instead(options)) is not None:
            return code
        from detour.experiments import reproduce

        experiment = self.variant(options)
        points = experiment.select(extent_of(options), **self.asked(options))
        with points_bar(experiment.name, options.json) as report:
            found = reproduce.reproduce(experiment, points, self.means(options), report)
        if getattr(options, "plot", None) and experiment.draw is not None:
            experiment.draw(found.collected, options.plot)
        self.after(options, found)

        def render(page: Page) -> None:
            page.tables(experiment.tables(found.collected))
            _rest(page, found, experiment)

        present(reproduce.document(found), options, render)
        return 1 if found.failures else 0


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


def _rest(page: Page, found: Reproduction[Any, Any], experiment: Experiment[Any, Any, Any]) -> None:
    """Failures and points left out, in groups where they are too many to be named."""
    from detour.experiments.reproduce import describe

    for failure in found.failures:
        page.print(f"failed: {describe(failure.point)}: {failure.reason}")
    if found.left_out:
        page.print(f"left out: {len(found.left_out)} points beyond the time of --quick (--json names them)")
        left_out = sorted(found.left_out, key=describe)
        for line in experiment.groups(left_out) if experiment.groups else map(describe, left_out[:_SHOWN]):
            page.print(f"  {line}")
