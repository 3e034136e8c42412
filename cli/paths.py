# SPDX-License-Identifier: Apache-2.0
"""`path`, `fail`, `heal`: where packets go, and what happens when links go."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from detour.cli.asking import ask
from detour.cli.output import emit, progress, table
from detour.cli.parser import add_path_options, operation

if TYPE_CHECKING:
    from rich.console import Console


def register(commands: Any) -> None:
    """Adds these commands."""
    path = operation(commands, "path", _path)
    path.add_argument("source", metavar="SRC", help="host, like h0")
    path.add_argument("target", metavar="DST", help="host, like h71")
    add_path_options(path)
    fail = operation(commands, "fail", _fail)
    fail.add_argument("what", metavar="LINK|SWITCH", help="like s0-s4, s0:3 (port 3 of s0), h7 (its link) or s3")
    heal = operation(commands, "heal", _heal)
    heal.add_argument("what", nargs="?", metavar="LINK|SWITCH")


def _path(options: argparse.Namespace) -> int:
    result = ask("path", source=options.source, target=options.target, sport=options.sport, usid=options.usid)
    emit(result, options.json, lambda console: show_path(console, result))
    return 0 if result["delivered"] else 1


def show_path(console: Console, result: dict[str, Any]) -> None:
    """A table of the hops."""
    rows = [(hop["switch"], hop["in_port"], hop["out_port"], hop["why"]) for hop in result["hops"]]
    console.print(table(("switch", ">in", ">out", "because of"), rows, f"{result['path']}: {result['outcome']}"))


def _fail(options: argparse.Namespace) -> None:
    with progress(options.json) as tell:
        tell("withdrawing it from all tables")
        result = ask("fail", name=options.what)
    emit(result, options.json, lambda console: show_change(console, result))


def _heal(options: argparse.Namespace) -> None:
    with progress(options.json) as tell:
        tell("writing tables")
        result = ask("heal", name=options.what)
    emit(result, options.json, lambda console: show_change(console, result))


def show_change(console: Console, result: dict[str, Any]) -> None:
    """What failing or healing did."""
    what = f"{result['healed'] or 'nothing'} is back" if "healed" in result else f"{result['failed']} is down"
    still = f"; down: {', '.join(result['failures'])}" if result["failures"] else "; nothing is down"
    console.print(
        f"{what}: {result['inserted']} entries inserted, {result['modified']} modified, {result['deleted']} deleted "
        f"in {result['seconds']:.2f} s{still}"
    )
    if "placement" in result:
        placed = result["placement"]
        console.print(
            f"placement: {placed['moved']} of {placed['flows']} flows moved, {placed['without_path']} without a path, "
            f"{placed['collisions']} collisions (at least {placed['lower_bound']})"
        )
