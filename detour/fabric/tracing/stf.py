# SPDX-License-Identifier: Apache-2.0
"""STF, the language of p4c's packet tests: statements, one a line, and what they say.

The grammar is that of p4c's `tools/stf/stf_parser.py` with the commands that `backends/bmv2/bmv2stf.py` adds.
`stf_player` plays what is read here.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from detour.base.errors import DetourError
from detour.base.files import read_text

_IDENTIFIER = r"[a-zA-Z_$][a-zA-Z_$0-9]*"
_TOKEN = re.compile(
    r"\s*(?:"
    r'"(?P<quoted>[^"]+)"'
    r"|(?P<number>0[xX][0-9a-fA-F*]+|0[bB][01*]+|0[oO][0-7*]+|\d+)"
    rf"|(?P<name>{_IDENTIFIER})"
    r"|(?P<mark>==|!=|<=|>=|[<>:,.\[\]()/=])"
    r")"
)
_PLAIN = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER}|\[\d+\])*")
_COMMENT = re.compile(r'("[^"]*")|#.*')  # not within quotes
_CONDITIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MAX_STF_PORT = 511
_BASES = {"0x": 16, "0b": 2, "0o": 8}

# commands of simple_switch_CLI that pass through: what they take, n a number, N one or more, q a name, R rates
_PASSED = {
    "mirroring_add": "nn", "mirroring_add_mc": "nn", "mirroring_delete": "n", "mirroring_get": "n",
    "mc_mgrp_create": "n", "mc_node_create": "nN", "mc_node_update": "nN", "mc_node_associate": "nn",
    "counter_read": "qn", "counter_write": "qnnn", "register_read": "qn", "register_write": "qnn",
    "register_reset": "q", "meter_get_rates": "qn", "meter_set_rates": "qnR", "meter_array_set_rates": "qR",
    "pvs_add": "qn",
}  # fmt: skip


def stf_name(name: str) -> str:
    """A name as a statement takes it: quoted if it is more than identifiers, dots and indices."""
    return name if _PLAIN.fullmatch(name) else f'"{name}"'


class StfError(DetourError):
    """Something is wrong with a statement; what and where, without the file."""

    def __init__(self, line: int, what: str) -> None:
        self.line = line
        super().__init__(f"{line}: {what}")


@dataclass(frozen=True)
class StfNumber:
    """A number as it is written, with its wildcards."""

    text: str

    @property
    def bits_per_digit(self) -> int:
        """0: it is decimal."""
        return {16: 4, 2: 1, 8: 3}.get(_BASES.get(self.text[:2].lower(), 10), 0)

    @property
    def digits(self) -> str:
        """Without the prefix."""
        return self.text[2:] if self.bits_per_digit else self.text

    @property
    def value(self) -> int:
        """With zeros for wildcards."""
        return int(self.digits.replace("*", "0"), _BASES.get(self.text[:2].lower(), 10))

    @property
    def mask(self) -> int | None:
        """Ones where digits are no wildcards; None: it is decimal, which has no digits to mask."""
        if not self.bits_per_digit:
            return None
        ones = (1 << self.bits_per_digit) - 1
        mask = 0
        for digit in self.digits:
            mask = mask << self.bits_per_digit | (0 if digit == "*" else ones)
        return mask

    @property
    def has_wildcards(self) -> bool:
        """Return whether there are any."""
        return "*" in self.text


@dataclass(frozen=True)
class StfMatch:
    """A field of a key. `prefix`: the length that was given; `last`: of a range, `FIRST..LAST`."""

    field: str
    number: StfNumber
    prefix: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class StfStatement:
    """A statement, and where it stands."""

    line: int
    text: str


@dataclass(frozen=True)
class StfAction:
    """An action with its arguments by name."""

    name: str
    arguments: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class StfAdd(StfStatement):
    """`add TABLE [PRIORITY] FIELD:VALUE... ACTION(NAME:VALUE, ...) [= NAME]`"""

    table: str
    priority: int | None
    key: tuple[StfMatch, ...]
    action: StfAction
    name: str | None


@dataclass(frozen=True)
class StfDefault(StfStatement):
    """`setdefault TABLE ACTION(...)`"""

    table: str
    action: StfAction


@dataclass(frozen=True)
class StfRemove(StfStatement):
    """`remove all`, or one entry that an `add` has named."""

    name: str | None


@dataclass(frozen=True)
class StfPacket(StfStatement):
    """`packet PORT HEX`"""

    port: int
    frame: bytes


@dataclass(frozen=True)
class StfExpect(StfStatement):
    """`expect PORT [HEX with * for any digit] [$]`; `digits` None: any frame. `exact`: nothing may follow."""

    port: int
    digits: str | None
    exact: bool


@dataclass(frozen=True)
class StfNoPacket(StfStatement):
    """`no_packet`: of the packet before it nothing may come out."""


@dataclass(frozen=True)
class StfCheckCounter(StfStatement):
    """`check_counter NAME(INDEX or ENTRY) [packets|bytes CONDITION N]`; without a condition it is only shown."""

    counter: str
    index: int | str
    unit: str | None
    condition: str
    expected: int

    def holds(self, count: int) -> bool:
        """Return whether a counter that stands at `count` is as it should be."""
        return _CONDITIONS[self.condition](count, self.expected)


@dataclass(frozen=True)
class StfCommand(StfStatement):
    """A command of simple_switch_CLI."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class StfWait(StfStatement):
    """`wait`"""


def read_stf(path: Path) -> list[StfStatement]:
    """The statements of a file. Raises DetourError: it cannot be read; or `FILE:LINE: ...` with what is wrong."""
    text = read_text(path)
    try:
        return parse_stf(text)
    except StfError as error:
        raise DetourError(f"{path}:{error}") from None


def parse_stf(text: str) -> list[StfStatement]:
    """The statements of a text. Raises StfError for the first line that is none."""
    statements = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = _COMMENT.sub(r"\1", line).strip()
        if stripped:
            statements.append(_Line(number, stripped).statement())
    return statements


class _Line:
    """One statement, and how far it is read."""

    def __init__(self, number: int, text: str) -> None:
        self.number, self.text = number, text
        self._tokens: list[tuple[str, str]] = []
        self._at = 0

    def fail(self, what: str) -> NoReturn:
        raise StfError(self.number, what)

    def statement(self) -> StfStatement:
        keyword, *rest = self.text.split(None, 1)
        word = keyword.lower()
        if word in ("packet", "expect"):
            return self._frame(word, rest[0] if rest else "")
        self._scan()
        self._take("name", "a statement")
        reader = {
            "add": self._add,
            "setdefault": self._default,
            "remove": self._remove,
            "check_counter": self._check,
            "no_packet": lambda: StfNoPacket(self.number, self.text),
            "wait": lambda: StfWait(self.number, self.text),
        }.get(word)
        if reader is None and word not in _PASSED:
            self.fail(f"there is no statement {keyword!r}")
        statement = self._command(word) if reader is None else reader()
        if self._at < len(self._tokens):
            self.fail(f"{self._tokens[self._at][1]!r} is too much behind {word}")
        return statement

    # -- packets

    def _frame(self, word: str, rest: str) -> StfStatement:
        port, *data = rest.split() or [""]
        if not port.isdecimal():
            self.fail(f"{word} needs a port number" + (f", not {port!r}" if port else ""))
        if int(port) > MAX_STF_PORT:
            self.fail(f"port {port}: a port of v1model has 9 bits, 0 to {MAX_STF_PORT}")
        digits = "".join(data).lower()
        exact = word == "expect" and digits.endswith("$")
        digits = digits[:-1] if exact else digits
        allowed = "0123456789abcdef*" if word == "expect" else "0123456789abcdef"
        wrong = next((digit for digit in digits if digit not in allowed), None)
        if wrong is not None:
            self.fail(f"{wrong!r} is not a digit of a frame in hex")
        if word == "expect":
            return StfExpect(self.number, self.text, int(port), digits or None, exact)
        if not digits or len(digits) % 2:
            self.fail(f"a packet of {len(digits)} digits of hex; there must be two for each byte")
        return StfPacket(self.number, self.text, int(port), bytes.fromhex(digits))

    # -- tokens

    def _scan(self) -> None:
        at = 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                rest = self.text[at:].strip()
                self.fail(f"{rest[0]!r} has no meaning here")
            kind = match.lastgroup
            self._tokens.append(("name" if kind == "quoted" else kind, match[kind]))
            at = match.end()

    def _next(self, offset: int = 0) -> tuple[str, str]:
        at = self._at + offset
        return self._tokens[at] if at < len(self._tokens) else ("end", "the end of the line")

    def _take(self, kind: str, what: str) -> str:
        next_kind, text = self._next()
        if next_kind != kind:
            self.fail(f"{what} is expected, not {text if next_kind == 'end' else repr(text)}")
        self._at += 1
        return text

    def _skip(self, mark: str) -> bool:
        """Take a mark if it is the next."""
        if self._next() != ("mark", mark):
            return False
        self._at += 1
        return True

    def _mark(self, mark: str) -> None:
        if not self._skip(mark):
            kind, text = self._next()
            self.fail(f"{mark!r} is expected, not {text if kind == 'end' else repr(text)}")

    def _number(self, what: str) -> StfNumber:
        return StfNumber(self._take("number", what))

    def _whole(self, what: str) -> int:
        number = self._number(what)
        if number.has_wildcards:
            self.fail(f"{what} has no wildcards: {number.text}")
        return number.value

    def _qualified(self, what: str) -> str:
        """A name with its dots and indices."""
        name = self._take("name", what)
        while True:
            if self._skip("."):
                name += "." + self._take("name", "a name behind the dot")
            elif self._skip("["):
                name += f"[{self._whole('an index')}]"
                self._mark("]")
            else:
                return name

    # -- statements

    def _add(self) -> StfAdd:
        table = self._qualified("a table")
        priority = self._whole("a priority") if self._next()[0] == "number" else None
        key: list[StfMatch] = []
        while True:
            name = self._qualified("a field of the key, or an action")
            if not self._skip(":"):
                break
            value = self._number(f"a value for {name}")
            prefix = self._whole("a prefix length") if self._skip("/") else None
            key.append(StfMatch(name, value, prefix, self._last() if self._skip(".") else None))
        action = self._action(name)
        name_of = self._take("name", "a name for the entry") if self._skip("=") else None
        return StfAdd(self.number, self.text, table, priority, tuple(key), action, name_of)

    def _last(self) -> int:
        self._mark(".")
        return self._whole("the last value of a range")

    def _action(self, name: str) -> StfAction:
        self._mark("(")
        arguments: list[tuple[str, int]] = []
        while not self._skip(")"):
            if arguments:
                self._mark(",")
            argument = self._take("name", f"an argument of {name}")
            self._mark(":")
            arguments.append((argument, self._whole(f"a value for {argument}")))
        return StfAction(name, tuple(arguments))

    def _default(self) -> StfDefault:
        table = self._qualified("a table")
        return StfDefault(self.number, self.text, table, self._action(self._qualified("an action")))

    def _remove(self) -> StfRemove:
        name = self._take("name", "all, or the name of an entry,")
        return StfRemove(self.number, self.text, None if name.lower() == "all" else name)

    def _check(self) -> StfCheckCounter:
        counter = self._qualified("a counter")
        self._mark("(")
        is_number = self._next()[0] == "number"
        index = self._whole("an index") if is_number else self._take("name", "an index").removeprefix("$")
        self._mark(")")
        if self._next()[0] == "end":
            return StfCheckCounter(self.number, self.text, counter, index, None, "==", 0)
        unit = self._take("name", "packets or bytes").lower()
        if unit not in ("packets", "bytes"):
            self.fail(f"a counter counts packets or bytes, not {unit}")
        condition = self._take("mark", "a condition")
        if condition not in _CONDITIONS:
            self.fail(f"{condition!r} is not a condition: {', '.join(_CONDITIONS)}")
        return StfCheckCounter(self.number, self.text, counter, index, unit, condition, self._whole("a number"))

    def _command(self, word: str) -> StfCommand:
        words = [word]
        for each in _PASSED[word]:
            if each == "q":
                words.append(self._qualified("a name"))
            elif each == "R":
                words += self._rates()
            else:
                words.append(str(self._whole("a number")))
                while each == "N" and self._next()[0] == "number":
                    words.append(str(self._whole("a number")))
        return StfCommand(self.number, self.text, tuple(words))

    def _rates(self) -> list[str]:
        """RATE:BURST, one or more; rates may have a fraction."""
        rates = []
        while not rates or self._next()[0] == "number":
            rate = self._take("number", "a rate")
            if self._skip("."):
                rate += "." + self._take("number", "a fraction")
            self._mark(":")
            rates.append(f"{rate}:{self._whole('a burst')}")
        return rates
