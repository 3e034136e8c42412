# SPDX-License-Identifier: Apache-2.0
"""Errors of commands, in the words of BMv2's command line, which people and scripts look for."""

from __future__ import annotations

from collections.abc import Collection

from detour.base.errors import DetourError
from detour.engine.bmv2api.wire import ServiceError

_SHOWN = 12
"""names that are listed; more are counted"""


class CommandError(DetourError):
    """`kind` comes first, as in BMv2's output; `hint` says what would be right."""

    def __init__(self, text: str, hint: str = "", kind: str = "Error") -> None:
        self.kind, self.text, self.hint = kind, text, hint
        super().__init__(f"{kind}: {self.reason}")

    @property
    def reason(self) -> str:
        """Without the kind."""
        return f"{self.text}: {self.hint}" if self.hint else self.text


def unknown(kind: str, name: str, names: Collection[str]) -> CommandError:
    """A name that the program does not have."""
    return CommandError(f"Invalid {kind} name ({name})", allowed(names))


def allowed(names: Collection[str]) -> str:
    """The hint that lists what may be named."""
    if not names:
        return "there are none in this program"
    shown = sorted(names)[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(shown)}{more}"


def error_line(error: Exception) -> str:
    """One line for what went wrong with a command, as BMv2 prints it."""
    if isinstance(error, ServiceError):
        return f"Invalid {error.SUBJECT} operation ({error.name})"
    if isinstance(error, CommandError):
        return str(error)
    return f"Error: {error}"
