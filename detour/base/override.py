# SPDX-License-Identifier: Apache-2.0
"""A value, like one of the whole process, that is another one for a while.

A `ContextVar` would not do: threads begin with an empty context, and what a command starts (a server of metrics, a
pool) has to find the same value as the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Override(Generic[T]):
    """`value` is what it was made with, but inside `set_to` in any thread."""

    def __init__(self, value: T) -> None:
        self.value = value

    @contextmanager
    def set_to(self, value: T) -> Iterator[None]:
        """Replace the value while the block runs."""
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before
