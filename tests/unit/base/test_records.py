# SPDX-License-Identifier: Apache-2.0
"""Records as JSON and back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from msgspec import UNSET, UnsetType

from detour.base.errors import DetourError
from detour.base.records import as_json, decoder, extended, from_json, given


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


@dataclass(frozen=True)
class Walk:
    kind: Literal["walk", "hike"]
    hours: float


@dataclass(frozen=True, kw_only=True)
class Ride:
    wheels: int
    bell: bool | UnsetType = UNSET
    kind: Literal["ride"] = "ride"


@dataclass(frozen=True, kw_only=True)
class LongRide(Ride):
    nights: int


def test_a_field_that_is_unset_has_no_key() -> None:
    assert as_json(Ride(wheels=2)) == {"wheels": 2, "kind": "ride"}
    assert from_json(Ride, {"wheels": 2}).bell is UNSET
    assert [given(ride.bell, True) for ride in (Ride(wheels=2), Ride(wheels=2, bell=False))] == [True, False]
    assert from_json(Ride, as_json(Ride(wheels=2, bell=True))).bell is True


def test_records_of_several_kinds_are_told_apart() -> None:
    decode = decoder(Walk, Ride)
    for record in (Walk("hike", 2.5), Walk("walk", 0.5), Ride(wheels=3)):
        assert decode(json.loads(json.dumps(as_json(record)))) == record
    assert decoder(Inner)({"delay_us": 1}) == Inner(1.0)


@pytest.mark.parametrize("value", [{"kind": "swim"}, {}, [], None])
def test_a_record_of_no_known_kind_is_refused(value: Any) -> None:
    with pytest.raises(DetourError, match="not a walk or hike or ride"):
        decoder(Walk, Ride)(value)


def test_a_record_takes_over_what_another_one_has() -> None:
    assert extended(LongRide, Ride(wheels=2, bell=False), nights=3) == LongRide(wheels=2, bell=False, nights=3)


def test_numbers_of_numpy_are_numbers() -> None:
    assert as_json({"rate": np.float64(1.5), "count": np.int64(3), "on": np.bool_(True)}) == {
        "rate": 1.5, "count": 3, "on": True
    }  # fmt: skip
    with pytest.raises(TypeError):
        as_json(object)
