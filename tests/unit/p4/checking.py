# SPDX-License-Identifier: Apache-2.0
"""Checks small programs for tests of the checker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from detour.p4 import core
from detour.p4.check import check_program
from detour.p4.check.flow import warn_of_flow
from detour.p4.elaborate import elaborate
from detour.p4.messages import CompileError, Message, Messages
from detour.p4.parser import parse
from detour.p4.preprocess import Preprocessor


@dataclass
class Checked:
    """The typed program, or what is wrong with the source."""

    program: Any
    """A `core.Program`; tests say themselves of which kinds its parts are."""
    errors: list[Message]
    warnings: list[Message]

    def __getitem__(self, name: str) -> Any:
        assert self.program is not None, [message.text for message in self.errors]
        return next(declaration for declaration in self.program.declarations if declaration.name == name)

    def value(self, name: str) -> Any:
        """Value of a constant, as `core` has it."""
        constant = self[name]
        assert isinstance(constant, core.Constant)
        return constant.value

    def first(self) -> tuple[int, str]:
        """Line and text of the first error."""
        return self.errors[0].span.line, self.errors[0].text


def check(source: str) -> Checked:
    """Checks a program; `core.p4` is not included."""
    messages = Messages()
    program = None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.p4"
        path.write_text(source)
        try:
            tree = parse(Preprocessor(messages).run(path), messages)
            assert not messages.errors, [message.text for message in messages.errors]
            program = check_program(tree, messages)
            if elaboration := elaborate(program):
                warn_of_flow((block.declaration for block in elaboration.blocks), messages)
        except CompileError as error:
            if error.message is not None:
                messages.errors.append(error.message)
    return Checked(program, messages.errors, messages.warnings)


def body(statements: str, before: str = "") -> str:
    """A control with statements, on one line each; the first statement is on line 2 of what follows `before`."""
    return f"{before}control c(inout bit<8> a, inout bit<16> b, in int<8> s) {{ apply {{\n{statements}\n}} }}\n"


def statements_of(source: Checked, name: str = "c") -> tuple[Any, ...]:
    """Statements of a control's apply block."""
    control = source[name]
    assert isinstance(control, core.Control)
    assert control.body is not None
    return control.body.statements
