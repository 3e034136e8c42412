# SPDX-License-Identifier: Apache-2.0
"""Paths that fail in part: data decides whether a path is left, whatever probes say."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean

import pytest

from detour.base.times import US
from detour.experiments.bench.gray import (
    BREAKS,
    DETOURS,
    GOAL_RTT,
    LOSS_KINDS,
    ROUND_TRIP,
    SHORTEST,
    CarriedFrame,
    Fault,
    GrayRun,
    MessageOutcome,
    contenders,
    gray_row,
)
from detour.fabric.backends.virtual.scheme import PATIENT
from detour.hosts.config import HostConfig

SPRAY = "SprayLERP"
CONTENDERS = contenders()


def lossy(share: float, seed: int, paths: frozenset[int] = frozenset(SHORTEST)) -> Fault:
    """A part of all frames is lost by links of these paths."""
    draw = random.Random(seed)
    return Fault(lambda frame: draw.random() < share, paths)


def sends(name: str, fault: Fault, seed: int, size: int = 2_000_000) -> MessageOutcome:
    """What becomes of a message."""
    scheme, choice = CONTENDERS[name]
    return GrayRun(scheme, fault, seed, choice).deliver(size)


@pytest.mark.parametrize("kind", LOSS_KINDS)
def test_what_is_lost_on_shortest_paths_arrives_by_detours_without_a_long_gap(kind: str) -> None:
    row = gray_row(SPRAY, kind, seeds=(1, 2))
    assert (row.failed, row.runs) == (0, 16)
    assert row.worst_gap_rtt <= GOAL_RTT


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name != SPRAY])
@pytest.mark.parametrize("begin", BREAKS)
def test_no_scheme_fails_while_paths_work(name: str, begin: int) -> None:
    size = 650_000 if begin else 200_000  # long enough to be under way when paths begin to lose
    for kind, lost in LOSS_KINDS.items():
        for count in (3, 4):
            assert not sends(name, Fault(lost, frozenset(SHORTEST[:count]), begin), 1, size).failed, kind


@pytest.mark.parametrize("kind", LOSS_KINDS)
@pytest.mark.parametrize("size", [1_000, 20_000, 63_000])
def test_a_short_message_takes_a_detour_long_before_the_first_timeout(kind: str, size: int) -> None:
    """One of fewer than `bdp_packets` packets ends on shortest paths, and of round trips nothing is known."""
    delivery = sends(SPRAY, Fault(LOSS_KINDS[kind], frozenset(SHORTEST)), 1, size)
    assert not delivery.failed
    assert delivery.us < HostConfig().min_rto_ps / US + GOAL_RTT * ROUND_TRIP / US


PROBING = [SPRAY, "REPS", "MRC-like", "Spritz-Scout", "FlowBender", "TelemetryLERP", "TelemetryGBN"]


@pytest.mark.parametrize("name", PROBING)
@pytest.mark.parametrize(("begin", "size"), [(BREAKS[1], 650_000), (0, 1_000)])
@pytest.mark.parametrize("works", [SHORTEST[3], DETOURS[1]])
def test_one_path_that_works_is_enough(name: str, begin: int, size: int, works: int) -> None:
    dead = frozenset(SHORTEST + DETOURS) - {works}
    assert not sends(name, Fault(LOSS_KINDS["data"], dead, begin), 1, size).failed


@pytest.mark.parametrize("name", PROBING)
@pytest.mark.parametrize("begin", BREAKS)
@pytest.mark.parametrize("kind", ["all", "data"])
def test_without_any_path_a_connection_gives_up(name: str, begin: int, kind: str) -> None:
    """Also where paths are asked more often than a timeout passes, and what they are asked for is sent again."""
    scheme, choice = CONTENDERS[name]
    patient = replace(scheme, hosts=(*scheme.hosts, *PATIENT))
    fault = Fault(LOSS_KINDS[kind], frozenset(SHORTEST + DETOURS), begin)
    delivery = GrayRun(patient, fault, 1, choice).deliver(5_000_000)
    assert delivery.failed
    assert delivery.us < 1.2 * HostConfig().retry_ps / US


def test_a_path_that_passes_probes_alone_gets_a_packet_at_a_time() -> None:
    """In 5 ms it is asked after 0.2, 1, 3 ms; each answer lets one packet try it."""
    counts: dict[str, int] = {"data": 0, "probe": 0}

    def lost(frame: CarriedFrame) -> bool:
        counts[frame.kind] = counts.get(frame.kind, 0) + frame.forward
        return frame.kind == "data"

    outcome = sends("Oblivious", Fault(lost, frozenset(SHORTEST[:1]), BREAKS[1]), 1, 50_000_000)
    assert outcome.us > 4_000
    assert counts["probe"] >= 3
    assert counts["data"] < 40 + counts["probe"], "what is in flight when it breaks, then one for each answer"


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.long) for share in (0.01, 0.05, 0.2))])
def test_shortest_paths_that_lose_are_left(share: float) -> None:
    """A message takes no longer than with the best rival, half a microsecond of noise aside, over equal draws."""
    times = {
        name: fmean(sends(name, lossy(share, seed), seed).us for seed in range(1, 6))
        for name in (SPRAY, "REPS", "MRC-like", "Oblivious", "Spritz-Scout", "Spritz-Spray")
    }
    assert times[SPRAY] <= min(times.values()) * 1.0025, times


def test_what_all_paths_lose_is_no_reason_to_take_detours_for_long() -> None:
    """Where only shortest paths lose as much, a message of this length hardly takes them."""
    everywhere = frozenset(SHORTEST + DETOURS)
    shares = [sends(SPRAY, lossy(0.01, seed, everywhere), seed, 20_000_000).share for seed in (1, 2, 3)]
    only = sends(SPRAY, lossy(0.01, 1), 1, 20_000_000).share
    assert fmean(shares) > 0.6
    assert only < 0.1
