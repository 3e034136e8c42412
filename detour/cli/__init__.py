# SPDX-License-Identifier: Apache-2.0
"""The command `detour`: parses options, calls the other packages, prints.

Every group of commands is a module with `register(commands)`. What is wrong with the input ends with one line on
standard error and exit code 2; Ctrl-C with 130; a check that fails (tables, bytes) with 1; a mistake of
detour's own with one line and 70. What takes time to load is loaded where an interrupt is caught.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module

TYPE_CHECKING = False  # see `detour`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from detour.cli.parser import Parser

_GROUPS = {
    "lifecycle": ("up", "down", "fabrics", "shell", "warm", "exec"),
    "operations": (
        "status", "provision", "verify", "entries", "counters", "watch", "path", "fail", "heal", "impair", "send",
        "load", "capture", "probe",
    ),
    "metrics": ("metrics", "flows", "reroute"),
    "web.command": ("web",), "runtime_cli": ("cli",), "shell_completion": ("completion",),
} | {
    name: (name,) for name in (
        "sim", "lab", "place", "job", "fors", "demo", "bench", "reproduce", "fcplus", "topo", "compile", "trace",
        "coverage", "test", "conformance",
    )
}  # fmt: skip
"""module of this package: its commands"""

_HELP = {
    "a fabric": (
        "demo", "up", "down", "fabrics", "status", "verify", "provision", "entries", "counters", "path", "probe",
        "send", "load", "flows", "reroute", "fail", "heal", "impair", "watch", "web", "metrics", "capture", "shell",
        "exec",
    ),
    "simulation": ("sim",),
    "P4": ("compile", "lab", "switch", "cli", "trace", "coverage", "test", "conformance"),
    "planning": ("topo", "place", "job", "fors", "fcplus"),
    "papers and benchmarks": ("reproduce", "bench"),
    "this machine": ("warm", "completion"),
}  # fmt: skip
"""commands as `detour --help` groups them"""

# Commands with a command line of their own, which argparse could not describe: module and help.
_OWN = {"switch": ("detour.cli.switch", "run one switch with the command line of simple_switch_grpc")}

INTERRUPTED = 130
_ADDRESS_SPACE = 512 << 20
"""What any command needs. With less OpenBLAS, which SciPy loads, may ask for memory again and again for ever."""


@cache
def make_parser(only: str | None = None) -> Parser:
    """The whole command line, or that of the command `only` and of those in its module, which takes half the time."""
    from detour.base.version import VERSION
    from detour.cli.parser import Parser, grouped_help

    text = "A data-centre fabric that fits on a laptop."
    parser = Parser(prog="detour", description=text, formatter_class=grouped_help(_HELP))
    parser.add_argument("--version", action="version", version=f"detour {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands, by subject")
    named = [group for group, names in _GROUPS.items() if only in names]
    for group in named or _GROUPS:
        import_module(f"detour.cli.{group}").register(commands)
    for name, (_, text) in _OWN.items():
        commands.add_parser(name, help=text, add_help=False)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    try:
        if arguments is None:
            from detour.base.standard import open_standard

            open_standard()
        arguments = list(sys.argv[1:] if arguments is None else arguments)
        if arguments[:1] != ["up"]:
            return reported(lambda: _run(arguments))
        from detour.base.interrupting import interruptible

        with interruptible():  # not only once the fabric starts: loading what it needs takes seconds
            return reported(lambda: _run(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED


def reported(run: Callable[[], int], program: str = "detour", *, plain: bool = False) -> int:
    """The exit code of what runs; what is wrong is one line on standard error. `plain`: which does not begin with the
    name of the program."""
    from detour.base.errors import DetourError, WriteError
    from detour.base.plugins import unpinned
    from detour.base.reports import report
    from detour.base.standard import silence_output

    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except DetourError as error:
        if isinstance(error, WriteError):
            silence_output()
            plain = False
        print("" if plain else f"{program}: ", unpinned(str(error)), sep="", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # whoever read our output has gone
        silence_output()
        return 0
    except Exception as error:
        return report(error, program)


def _run(arguments: list[str]) -> int:
    from detour.base.progress import COMPILING
    from detour.base.reports import need_address_space
    from detour.cli.parser import choose_fabric

    if arguments and arguments[0] in _OWN:
        return import_module(_OWN[arguments[0]][0]).main(arguments[1:])
    need_address_space(_ADDRESS_SPACE)
    COMPILING.progress = lambda text: print(f"detour: {text}", file=sys.stderr, flush=True)
    options = make_parser(arguments[0] if arguments else None).parse_args(arguments)
    choose_fabric(getattr(options, "name", None))
    return options.run(options) or 0
