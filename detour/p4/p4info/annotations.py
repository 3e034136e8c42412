# SPDX-License-Identifier: Apache-2.0
"""Annotations in P4Info (P4Runtime specification, sections 6.2.2 and 7): which are kept, and how they are written."""

from __future__ import annotations

import re
from typing import Any

from finsy.proto import p4i, p4t

from detour.p4 import core

SAID_ELSEWHERE = frozenset({"name", "id", "brief", "description"})
"""Fields of the messages say what these say."""
OF_PACKAGES = SAID_ELSEWHERE | {"pkginfo", "platform_property"}
OF_SELECTORS = SAID_ELSEWHERE | {"max_group_size", "selector_size_semantics", "max_member_weight"}
OF_TYPES = SAID_ELSEWHERE | {"p4runtime_translation"}

_TOKEN = re.compile(
    r"//[^\n]*|/\*(?s:.*?)\*/"  # comments, which are no tokens
    r'|("(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d\w*|&&&|\.\.\.?|\S)'
)


def as_text(annotation: core.Annotation) -> str:
    """An unstructured annotation, its tokens with a blank between each two: `@size(1 + 2)`."""
    tokens = [token for token in _TOKEN.findall(annotation.text) if token]
    return f"@{annotation.name}({' '.join(tokens)})" if tokens else f"@{annotation.name}"


def _expression(into: Any, value: object) -> None:
    if isinstance(value, bool):
        into.bool_value = value
    elif isinstance(value, int):
        into.int64_value = value
    else:
        into.string_value = str(value)


def annotate(message: Any, annotations: tuple[core.Annotation, ...], without: frozenset[str] = SAID_ELSEWHERE) -> None:
    """Add annotations to a message that has fields for both sorts; `@brief` and `@description` to its documentation,
    if it has some.
    """
    for name in ("brief", "description") if "doc" in message.DESCRIPTOR.fields_by_name else ():
        if (text := core.annotated(annotations, name)) is not None:
            setattr(message.doc, name, str(text))
    for one in annotations:
        if one.name in without:
            continue
        if not one.structured:
            message.annotations.append(as_text(one))
            continue
        structured: p4t.StructuredAnnotation = message.structured_annotations.add(name=one.name)
        for value in one.values:
            _expression(structured.expression_list.expressions.add(), value)
        for key, value in one.pairs:
            _expression(structured.kv_pair_list.kv_pairs.add(key=key).value, value)


def of_package(package: p4i.PkgInfo, annotations: tuple[core.Annotation, ...]) -> None:
    """Fill the package's information from `@pkginfo`, `@platform_property` and other annotations of `main`."""
    for name, into, fields in (
        ("pkginfo", package, ("name", "version", "organization", "contact", "url")),
        (
            "platform_property",
            package.platform_properties,
            (
                "multicast_group_table_size",
                "multicast_group_table_total_replicas",
                "multicast_group_table_max_replicas_per_entry",
            ),
        ),
    ):
        note = next((one for one in annotations if one.name == name), None)
        for key, value in note.pairs if note else ():
            if key in fields:
                setattr(into, key, value)
    annotate(package, annotations, OF_PACKAGES)
