# SPDX-License-Identifier: Apache-2.0
"""The session that answers commands: the running fabric, over its control socket, or one in this process (the
prompt)."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from detour.base.override import Override
from detour.base.progress import silent
from detour.cli.output import present, shown_progress
from detour.cli.parser import Parser, add_parameters, destination, operation
from detour.fabric.operations.registry import OPERATIONS, CommandOption, Operation, Operations

if TYPE_CHECKING:
    from detour.fabric.labs.running import LabStatus

ANSWERED_BY: Override[Operations | None] = Override(None)
"""the session of this process that answers commands; None: the daemon does"""


def running() -> Operations:
    """The fabric that is asked. Its operations raise `DetourError` if none is up, or with what it says."""
    return ANSWERED_BY.value or _Daemon()


def asks(
    commands: Any, name: str, show: Callable[..., None], *, doing: str | Callable[[argparse.Namespace], str] = "",
    check: Callable[[argparse.Namespace], None] = lambda options: None,
    is_good: Callable[[Any, argparse.Namespace], bool] = lambda result, options: True, wide: bool = False,
) -> Parser:  # fmt: skip
    """Add the command of an operation, whose parameters are its options.

    `show`: prints the result for people; gets page, result and, if it takes them, `options`. `doing`: what is said on
    standard error meanwhile. `check`: refuses options that do not go together. `is_good`: whether the exit code is 0,
    not 1. `wide`: see `parser.command`."""
    declared = OPERATIONS[name]

    def run(options: argparse.Namespace) -> int:
        check(options)
        given = {key: getattr(options, destination(key)) for key in declared.options}
        arguments = {key: _argument(value, declared.options[key]) for key, value in given.items()}
        with shown_progress(options.json) if doing else nullcontext(silent) as progress:
            if doing:
                progress(doing if isinstance(doing, str) else doing(options))
            if declared.tells:
                arguments["progress"] = progress
            result = getattr(running(), name)(**arguments)
        more = {"options": options} if "options" in inspect.signature(show).parameters else {}
        present(result, options, lambda page: show(page, result, **more))
        return 0 if is_good(result, options) else 1

    parser = operation(commands, name, run, wide=wide)
    add_parameters(parser, declared.options, declared.function)
    return parser


def _argument(value: Any, option: CommandOption) -> Any:
    """An argument; a file by a path that means the same in another process."""
    if option.is_file:
        return None if value is None else os.path.abspath(value)
    return None if value == [] else value


def own_name(name: str, status: Any) -> str:
    """Return the name of a switch or host in a status, given this name or its number."""
    names = getattr(status, "names", None) or {}
    return name if name in names.values() else names.get(name, name)


def running_lab() -> LabStatus | None:
    """Return the status of the running lab; None if there is none. Raises `DetourError`: it does not answer."""
    if ANSWERED_BY.value is not None:
        return None
    from detour.fabric.daemon.state_dir import StateDir

    state = StateDir()
    if not state.is_alive() or state.noted().get("target") != "lab":
        return None
    from detour.base.records import from_json
    from detour.fabric.daemon.control_socket import ask
    from detour.fabric.labs.running import LabStatus

    return from_json(LabStatus, ask("lab", warn=_warn))


def _warn(text: str) -> None:
    print(f"detour: {text}", file=sys.stderr, flush=True)


class _Daemon(Operations):
    """The daemon's operations."""

    def carry_out(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        from detour.base.records import from_json
        from detour.fabric.daemon.control_socket import ask

        answer = ask(operation.name, arguments.pop("progress", silent), warn=_warn, **arguments)
        return from_json(operation.result, answer)
