# SPDX-License-Identifier: Apache-2.0
"""Sizes, times, rates and fractions as people write them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from detour.base.errors import DetourError
from detour.base.quantities import (
    bytes_of,
    fraction_of,
    number_of,
    rate_bps_of,
    time_or_never_of,
    time_ps_of,
    time_text,
    whole_number_of,
)

MILLION = partial(whole_number_of, most=10**6)


@pytest.mark.parametrize(
    ("of", "text", "value"),
    [
        (bytes_of, "64k", 64_000), (bytes_of, "1.5MB", 1_500_000), (bytes_of, "1e6", 1_000_000),
        (time_ps_of, "10us", 10_000_000), (time_ps_of, "1.5 ms", 1_500_000_000), (time_ps_of, "0", 0),
        (rate_bps_of, "100G", 100_000_000_000), (rate_bps_of, "25Gb/s", 25_000_000_000), (rate_bps_of, "10k", 10_000),
        (fraction_of, "1e-3", 0.001), (MILLION, "1e6", 1_000_000), (MILLION, "1M", 1_000_000), (MILLION, "0xff", 255),
        (number_of, "2.5k", 2_500.0), (number_of, "-.5", -0.5), (bytes_of, "4MB", 4_000_000), (bytes_of, "64K", 64_000),
        (time_or_never_of, "2ms", 2 * 10**9), (partial(time_ps_of, bare="s"), "1.5", 1_500_000_000_000),
        (partial(bytes_of, least=0), "0", 0), (partial(whole_number_of, most=9, least=-9), "-9", -9),
    ],
)  # fmt: skip
def test_what_is_meant(of: Callable[[str], float], text: str, value: float) -> None:
    assert of(text) == value


@pytest.mark.parametrize(
    ("of", "texts"),
    [
        (bytes_of, ("0", "-1", "1.5", "5x", "nan", "inf", "1e13", "")),
        (time_ps_of, ("5", "5m", "-1us", "20000s", "us")),
        (rate_bps_of, ("1", "9k", "100T", "fast")),
        (fraction_of, ("1.1", "-0.1", "5%")),
        (MILLION, ("0", "1000001", "1.5", "2M", "nan", "0xfffff", "1kB")),
        (number_of, ("x", "1m", "")),
        (time_or_never_of, ("nie", "5")),
        (partial(time_ps_of, bare="s"), ("-1", "1h")),
    ],
)
def test_what_means_nothing(of: Callable[[str], float], texts: tuple[str, ...]) -> None:
    for text in texts:
        with pytest.raises(DetourError, match="is not"):
            of(text)


def test_never_is_no_time() -> None:
    assert time_or_never_of("never") is None
    with pytest.raises(DetourError, match="'0' is neither a time above 0 nor never"):
        time_or_never_of("0")


def test_times_are_said_with_a_unit() -> None:
    assert [time_text(ps) for ps in (0, 1_500, 12_300_000, 2 * 10**12)] == ["0 s", "1.5 ns", "12.3 us", "2 s"]
