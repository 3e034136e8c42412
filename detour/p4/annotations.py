# SPDX-License-Identifier: Apache-2.0
"""Annotations of declarations, types and statements (specification 1.2.5, section 20)."""

from __future__ import annotations

from dataclasses import dataclass

from detour.p4.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name`, `@name(...)` or `@name[...]`.

    `values` and `pairs` are what the expressions of the body are worth (int, str, bool, or nested tuples);
    `text` is the body as written, between the brackets, which is all that an unstructured annotation of an unknown
    name has.
    """

    name: str
    values: tuple[object, ...] = ()
    pairs: tuple[tuple[str, object], ...] = ()
    text: str = ""
    structured: bool = False
    span: Span = NOWHERE


def annotation(of: tuple[Annotation, ...], name: str) -> Annotation | None:
    """The annotation of that name, if there is one. Of several the first counts, as in p4c."""
    return next((one for one in of if one.name == name), None)
