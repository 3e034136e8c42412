# SPDX-License-Identifier: Apache-2.0
"""Records as JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.base.records import as_json, from_json


@dataclass(frozen=True)
class Inner:
    delay_us: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner
    by_name: dict[str, Inner]
    maybe: float | None = None


def test_a_record_comes_back_as_it_was() -> None:
    record = Outer(3, Inner(1.5, ("a", "b")), {"x": Inner(2.0)}, None)
    assert from_json(Outer, json.loads(json.dumps(as_json(record)))) == record


def test_keys_are_the_fields_names() -> None:
    assert json.loads(json.dumps(as_json(Inner(0.5)))) == {"delay_us": 0.5, "names": []}


@pytest.mark.parametrize(
    ("value", "place"),
    [({"delay_us": "1"}, "delay_us"), ({}, "delay_us"), ([], "object"), ({"delay_us": 1, "names": [1]}, "names")],
)
def test_what_is_none_is_refused_with_the_place(value: Any, place: str) -> None:
    with pytest.raises(DetourError, match=place):
        from_json(Inner, value)


def test_keys_of_a_newer_writer_are_ignored() -> None:
    assert from_json(Inner, {"delay_us": 1, "newer": 2}) == Inner(1.0)
