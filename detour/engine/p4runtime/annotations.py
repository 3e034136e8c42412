# SPDX-License-Identifier: Apache-2.0
"""Annotations of P4Info, which are the tokens of the P4 source put together by p4c: `@refers_to(t , f)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator


def arguments(annotations: Iterable[str], name: str) -> Iterator[str]:
    """Yield the content of the parentheses of each annotation `@name(...)`."""
    pattern = re.compile(rf"\s*@{name}\s*\((.*)\)\s*", re.DOTALL)
    for annotation in annotations:
        if matched := pattern.fullmatch(annotation):
            yield matched[1].strip()


def names(text: str) -> tuple[str, ...]:
    """The arguments `a , "b"` or `builtin : : a`, without quotes and blanks."""
    return tuple(re.sub(r'[\s"]', "", each) for each in text.split(","))
