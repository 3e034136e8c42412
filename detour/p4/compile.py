# SPDX-License-Identifier: Apache-2.0
"""The driver: a P4_16 program to BMv2 JSON and P4Info, pass by pass.

compile_file(Path("program.p4")).json
"""

from __future__ import annotations

import gc
import json
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError, InternalError
from detour.p4.messages import CompileError, Message, Messages, render
from detour.p4.preprocess import Preprocessor
from detour.p4.source import NOWHERE, Span

if TYPE_CHECKING:
    from finsy.proto import p4i, p4r

    from detour.p4 import core
    from detour.p4.elaborate import Elaboration
    from detour.p4.lexer import Token

PACKAGES = {"v1model": "V1Switch", "psa": "PSA_Switch", "pna": "PNA_NIC"}
"""The package that `main` instantiates, by architecture."""

_RECURSION = 20_000
"""Depth of calls that nested expressions and long chains of `else if` need."""
_LONGEST = 400
"""Characters of source in the report of a bug."""


@dataclass
class Result:
    """The output of the compiler. `json` is None if there are errors."""

    json: dict[str, Any] | None = None
    p4info: p4i.P4Info | None = None
    entries: p4r.WriteRequest | None = None
    """Entries in the source, as a controller would write them."""
    errors: list[Message] = field(default_factory=list)
    warnings: list[Message] = field(default_factory=list)
    files: dict[Path, bytes] = field(default_factory=dict)
    """All files that were read, with their contents."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The JSON as it is written to a file."""
        return json.dumps(self.json, indent=2) + "\n"

    def rendered(self) -> str:
        """All messages, each with its line of the source."""
        texts = [render(message, "warning") for message in self.warnings]
        texts += [render(message, "error") for message in self.errors]
        return "\n".join(texts)


class Refused(DetourError):
    """A program with errors; the text is the first one, `result` has all."""

    def __init__(self, result: Result) -> None:
        first = result.errors[0]
        more = len(result.errors) - 1
        hint = f" ({first.hint})" if first.hint else ""
        rest = f"; {more} more error{'s' if more > 1 else ''}" if more else ""
        super().__init__(f"{first.span}: {first.text}{hint}{rest}")
        self.result = result


def compile_file(
    path: Path,
    arch: str | None = None,
    include: Iterable[Path] = (),
    defines: Mapping[str, str] | None = None,
    *,
    name: str | None = None,
    p4info: bool = True,
    entries: bool = False,
    edited: Mapping[Path, str] | None = None,
) -> Result:
    """Compile a program.

    Args:
        arch: the architecture that the program must be for; None: any.
        include: folders with files that the program includes.
        defines: macros, with their values.
        name: what messages and the JSON call the program's file.
        p4info: also make the P4Info.
        entries: also make a request with the entries of the source.
        edited: texts that stand for those of files.

    Returns:
        JSON, or errors.

    Raises:
        DetourError: the file cannot be read.
        InternalError: the compiler has a bug, or lacks something that it should name.
    """
    start = time.perf_counter()
    result = Result()
    messages = Messages(result.errors, result.warnings)
    reader = Preprocessor(messages, include, defines, edited)
    result.files = reader.files
    with _undisturbed():
        try:
            program, elaboration = _checked(reader.run(path, name), messages, arch)
            from detour.p4.bmv2.document import lower

            result.json = lower(program, elaboration, messages, name or str(path))
            messages.stop_at_errors()
            if p4info:
                _describe(program, elaboration, messages, result, entries)
        except CompileError as error:
            if error.message is not None:
                result.errors.append(error.message)
        except OSError as error:
            raise DetourError(f"{path}: {error.strerror}") from None
        except Exception as error:
            if not result.errors:
                raise _bug(error, path) from error
            # What follows an error may be strange: the error is what there is to say.
    if result.errors:
        result.json = result.p4info = result.entries = None
        # What seems unused may be what is meant where an error is.
        result.warnings = [warning for warning in result.warnings if warning.kind != "unused"]
    result.seconds = time.perf_counter() - start
    return result


def compiled(path: Path, arch: str | None = None, include: Iterable[Path] = (), **options: Any) -> Result:
    """Compile a program that must have no errors. Raises `Refused`."""
    result = compile_file(path, arch, include, **options)
    if result.errors:
        raise Refused(result)
    return result


def _checked(tokens: list[Token], messages: Messages, arch: str | None) -> tuple[core.Program, Elaboration]:
    """The typed program, and its instances."""
    from detour.p4.check import check_program
    from detour.p4.check.flow import warn_of_flow
    from detour.p4.elaborate import elaborate
    from detour.p4.parser import parse

    tree = parse(tokens, messages)
    # Errors of the lexer and the parser in the order of the source.
    order = {file: index for index, file in enumerate(dict.fromkeys(token.span.file for token in tokens))}
    messages.errors.sort(key=lambda error: (order.get(error.span.file, -1), error.span.start))
    messages.stop_at_errors()
    program = check_program(tree, messages)
    messages.stop_at_errors()
    elaboration = elaborate(program)
    if elaboration is None:
        hint = "as in V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), ...) main;"
        raise messages.fail(tokens[-1], "the program has no main", hint)
    _check_architecture(elaboration, arch, messages)
    warn_of_flow((block.declaration for block in elaboration.blocks), messages)
    return program, elaboration


def _describe(
    program: core.Program, elaboration: Elaboration, messages: Messages, result: Result, entries: bool
) -> None:
    """P4Info, which imports protobuf."""
    from detour.p4 import p4info

    result.p4info = p4info.build(program, elaboration, messages)
    if entries and not messages.errors:
        result.entries = p4info.entries(program, elaboration, messages)


def _check_architecture(elaboration: Elaboration, arch: str | None, messages: Messages) -> None:
    declared = elaboration.main.declaration.name
    main = elaboration.main.node
    if arch is not None and arch not in PACKAGES:
        raise messages.fail(main, f"there is no architecture {arch}", f"there are {', '.join(PACKAGES)}")
    if arch is not None and declared != PACKAGES[arch]:
        raise messages.fail(main, f"main is a {declared}, not a {PACKAGES[arch]} as {arch} has it")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Deep recursion, and no garbage collection: nearly all that is made stays in use."""
    collecting, depth = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()
    sys.setrecursionlimit(max(depth, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(depth)
        if collecting:
            gc.enable()


# ---------------------------------------------------------------- bugs


def _bug(error: Exception, path: Path) -> InternalError:
    """A bug of the compiler, with the lines of the source that it was at."""
    span = _source_of(error)
    if span is None:
        return InternalError.of(f"compiling {path}", error)
    whole = span.file.text
    begin, end = whole.rfind("\n", 0, span.start) + 1, whole.find("\n", span.end)
    text = whole[begin : end if end >= 0 else len(whole)]
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
    bug = InternalError.of(f"compiling {span}", error)
    return InternalError(f"{bug}\nThis is a bug of the compiler, not of the program. It was at:\n{text}")


def _source_of(error: Exception) -> Span | None:
    """The smallest source among what the functions that failed were working on, the innermost function first."""
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        spans = [span for value in frame.f_locals.values() if (span := _span_of(value)) is not None]
        if spans:
            return min(spans, key=lambda span: span.end - span.start)
    return None


def _span_of(value: object) -> Span | None:
    span = value if isinstance(value, Span) else getattr(value, "span", None)
    if isinstance(span, Span) and span is not NOWHERE and not span.file.standard and span.end > span.start:
        return span
    return None
