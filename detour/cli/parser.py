# SPDX-License-Identifier: Apache-2.0
"""argparse with errors of ours, and the types that several commands share."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from detour.base.errors import DetourError
from detour.base.quantities import bytes_of, fraction_of, number_of, rate_bps_of, time_ps_of, whole_number_of
from detour.fabric.operations.registry import OPERATIONS, CommandOption

T = TypeVar("T")
CommandFunction = Callable[[argparse.Namespace], int | None]


class Parser(argparse.ArgumentParser):
    """Raises `DetourError` instead of printing usage and exiting. A group without a command prints its help."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **settings)

    def option(self, name: str, text: str, metavar: str | None = None, kind: Any = None, **more: Any) -> None:
        """An option with a value: its help, how the value is called there, and what makes the value of its text."""
        self.add_argument(name, help=text, metavar=metavar, type=kind, **more)

    def flag(self, name: str, text: str) -> None:
        """An option without a value."""
        self.add_argument(name, help=text, action="store_true")

    def error(self, message: str) -> NoReturn:
        raise DetourError(f"{message} (try `{self.prog} --help`)")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> tuple[Any, list[str]]:
        words = sys.argv[1:] if args is None else list(args)
        if not words and any(isinstance(a, argparse._SubParsersAction) and a.required for a in self._actions):
            self.print_help()
            self.exit()
        parsed, unknown = super().parse_known_args(words, namespace)
        if unknown:  # told by the command that they were given to; argparse leaves that to the outermost parser
            like = _like((word.partition("=")[0] for word in unknown), self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{like}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            like = _like([str(value)], map(str, action.choices or ()))
            if isinstance(action, argparse._SubParsersAction):
                names = "" if action.dest == "command" else f"; there are {', '.join(map(str, action.choices or ()))}"
                self.error(f"there is no command {value!r}{like}{names}")
            raise argparse.ArgumentError(action, f"{error.message}{like}") from None


def actions_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a parser's options and arguments, which argparse has no public name for. No other module asks for its
    private ones."""
    return parser._actions


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return a parser's commands by name."""
    return {
        name: below
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, below in action.choices.items()
    }


def grouped_help(groups: Mapping[str, Sequence[str]]) -> type[argparse.HelpFormatter]:
    """Help that lists commands in groups, by their titles; commands that are in none come last."""

    class Formatter(argparse.HelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            if not isinstance(action, argparse._SubParsersAction):
                return super()._format_action(action)
            commands = {each.dest: each for each in action._get_subactions()}
            named = {name for names in groups.values() for name in names}
            parts: list[str] = []
            for title, names in {**groups, "others": [name for name in commands if name not in named]}.items():
                lines = [self._format_action(commands[name]) for name in names if name in commands]
                parts += [f"\n{title}:\n", *lines] if lines else []
            return "".join(parts)

    return Formatter


def _like(words: Iterable[str], candidates: Iterable[str]) -> str:
    """`; did you mean status?` for what was mistyped."""
    names = list(candidates)
    import difflib

    like = [name for word in words for name in difflib.get_close_matches(word, names, 1)]
    return f"; did you mean {' '.join(like)}?" if like else ""


def command(
    commands: Any, name: str, text: str, run: CommandFunction, *, json: bool = True, wide: bool = False
) -> Parser:
    """Add a command that `run` carries out. `wide`: it shows tables that have more columns than fit 80 characters."""
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=run)
    if json:
        parser.flag("--json", "print exactly one JSON document")
    else:
        parser.set_defaults(json=False)
    if wide:
        parser.flag("--wide", "all columns, not only those that fit 80 characters")
    return parser


def operation(commands: Any, name: str, run: CommandFunction, *, wide: bool = False) -> Parser:
    """Add a command that asks a running fabric for the operation of that name."""
    parser = command(commands, name, OPERATIONS[name].text, run, wide=wide)
    add_name_option(parser)
    return parser


def destination(parameter: str) -> str:
    """Return where a command has a parameter of its operation: `--name` is the fabric's."""
    return "what" if parameter == "name" else parameter


def add_parameters(
    parser: Parser, names: Mapping[str, CommandOption], function: Callable[..., Any] | None = None
) -> None:
    """Options and places of the parameters of an operation, by their names; `function` declares their defaults (without
    one they are None)."""
    groups: dict[str, Any] = {}
    parameters = {} if function is None else inspect.signature(function).parameters
    for name, option in names.items():
        settings: dict[str, Any] = {"metavar": option.metavar, "help": option.text, "choices": option.choices}
        settings["type"] = _KINDS[option.kind] if isinstance(option.kind, str) else option.kind
        default = parameters[name].default if name in parameters else None
        needed = default is inspect.Parameter.empty
        if option.group is not None and option.group not in groups:
            groups[option.group] = parser.add_mutually_exclusive_group()
        place = parser if option.group is None else groups[option.group]
        if option.flag is None:
            many = function is not None and "list" in str(function.__annotations__[name])
            settings |= {"nargs": "*" if many else None if needed else "?", "default": None if needed else default}
            place.add_argument(destination(name), **settings)
        elif option.metavar is None and option.choices is None:
            place.add_argument(option.flag, dest=destination(name), action="store_true", help=option.text)
        else:
            settings |= {"action": "append"} if option.repeatable else {"nargs": "+" if option.several else None}
            place.add_argument(option.flag, dest=destination(name), default=None if needed else default, **settings)


def add_options(parser: Parser, options: Mapping[str, CommandOption]) -> None:
    """Options by the names of the parameters that they are for, which they are called by unless they have a flag."""
    add_parameters(parser, {name: replace(one, flag=one.flag or option_of(name)) for name, one in options.items()})


def refuse(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    """Raise `DetourError` for the first of these options that is given; `why` follows its name."""
    for name in names:
        if (value := getattr(options, name)) is not None and value is not False and value != []:
            raise DetourError(f"{option_of(name)} {why}")


def option_of(name: str) -> str:
    """Return the option for a name in the code."""
    return f"--{name.replace('_', '-')}"


def add_name_option(parser: Parser) -> None:
    """`--name`, for commands that are about one fabric of several."""
    parser.option("--name", "name of the fabric, if several are running (or $DETOUR_FABRIC)", "NAME")


def choose_fabric(name: str | None) -> None:
    """Commands of this process are about the fabric of that name (None: as it was)."""
    if name is not None:
        os.environ["DETOUR_FABRIC"] = name  # `fabric.daemon.state_dir`; what is started inherits it


def _number(text: str, low: int, high: int, what: str) -> int:
    try:
        return whole_number_of(text, high, low)
    except DetourError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}, {low} to {high}") from None


def _whole(low: int, high: int, what: str) -> Callable[[str], int]:
    """The type of an option that is a whole number."""
    return lambda text: _number(text, low, high, what)


source_port = _whole(0, 0xFFFF, "a UDP source port")
port_number = _whole(0, 0xFFFF, "a TCP port")
"""0: any that is free"""
packet_count = _whole(2, 1_000_000, "a number of packets")
traced_packets = _whole(1, 1_000, "a number of packets")
counted = _whole(0, 10**9, "a whole number")
"""of something that is counted from 0 on"""
switch_port = _whole(0, 510, "a port of a switch")
"""511 drops"""
mtu_bytes = _whole(1280, 9000, "an MTU in bytes")
draws = _whole(1, 10**6, "a number of draws")
whole = _whole(-(10**9), 10**9, "a whole number")
"""of which what is asked for says what it may be"""


def whole_count(text: str) -> int:
    """A whole number of things, from 1 on."""
    return _number(text, 1, 10**9, "a whole number")


def thread_count(text: str) -> int:
    """Threads of a run in virtual time."""
    return _number(text, 1, 256, "a number of threads")


def output_file(text: str) -> Path:
    """A file to be written, whose folder is there: what is wrong with it is told before any work is done."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; expected a file")
    _need_folder(path.parent)
    return path


def archive_file(text: str) -> Path:
    """A file of finished runs, which `--keep` writes: what is wrong with it is told before any work is done."""
    import lzma

    try:
        with lzma.open(text) as lines:
            records = [isinstance(json.loads(line), dict) for line in lines]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    except (lzma.LZMAError, EOFError, ValueError):
        records = []
    if not records or not all(records):
        raise argparse.ArgumentTypeError(f"{text} is not a file of runs written by --keep")
    return Path(text)


def output_folder(text: str) -> Path:
    """A folder to write into, which is made if only the one around it is there."""
    path = Path(text)
    if path.exists():
        _need_folder(path)
    else:
        _need_folder(path.absolute().parent)
    return path


def output_path(text: str) -> Path:
    """A file or a folder to write, as another option says; the folder around it is there."""
    path = Path(text)
    _need_folder(path if path.is_dir() else path.parent)
    return path


def _need_folder(path: Path) -> None:
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no folder {path}")
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{path} is not a folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"folder {path} cannot be written to")


def quantity(of: Callable[[str], T]) -> Callable[[str], T]:
    """The type of an option whose value `of` understands (`base.quantities`)."""

    def convert(text: str) -> T:
        try:
            return of(text)
        except DetourError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def seconds(text: str) -> float:
    """A time in seconds above 0."""
    try:
        value = time_ps_of(text, "s") / 1e12
    except DetourError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds, above 0 and at most 3600")
    return value


def counts(text: str) -> tuple[int, ...]:
    """Numbers from 1 on, separated by commas; each once, in order."""
    return tuple(sorted({_number(part, 1, 10**9, "a number of connections") for part in text.split(",")}))


def floats(text: str) -> tuple[float, ...]:
    """Numbers separated by commas; () if one is none."""
    try:
        return tuple(number_of(part) for part in text.split(","))
    except DetourError:
        return ()


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas, in the order given. Raises `DetourError`: one is none."""
    try:
        return tuple(whole_number_of(part, 10**9, 0) for part in text.split(","))
    except DetourError:
        raise DetourError(f"{option} {text!r} is not whole numbers separated by commas, like 1,2") from None


def fractions(text: str) -> tuple[float, ...]:
    """Fractions between 0 and 1, separated by commas."""
    numbers = floats(text)
    if not numbers or not all(0 < value < 1 for value in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not fractions between 0 and 1, like 0.001,0.01")
    return numbers


def delays(text: str) -> tuple[float, ...]:
    """Three times, separated by commas, in microseconds."""
    try:
        numbers = tuple(time_ps_of(part, "us") / 1e6 for part in text.split(","))
    except DetourError:
        numbers = ()
    if len(numbers) != 3 or not all(value <= 1e6 for value in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not three times in microseconds, like 1,0.05,0.5")
    return numbers


byte_count = quantity(bytes_of)
bytes_from_0 = quantity(partial(bytes_of, least=0))
fraction = quantity(fraction_of)
number = quantity(number_of)
rate_bps = quantity(rate_bps_of)
time_ps = quantity(time_ps_of)

_KINDS: dict[str, Callable[[str], Any]] = {
    "port": source_port, "bytes": byte_count, "fraction": fraction, "output file": output_file,
}  # fmt: skip
"""what reads `registry.CommandOption.kind`"""
