# SPDX-License-Identifier: Apache-2.0
"""Other candidates for a QP in the middle of a message: the next packet takes one of them, whatever is under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.hosts.decode import decode
from detour.hosts.parameters import host_config
from detour.hosts.verbs import Path, QPInitAttr
from tests.property.lossy import US, Network, Pair, Weather, complete, make_pair, through_switches
from tests.property.plans import SPRAYS, STAYS

PATHS = [*(Path(k) for k in range(1, 5)), *(Path(0x8000 + k) for k in range(1, 5))]
LISTED = [Path(0x0105, (0x0005, 0xE003, 0x8001)), Path(0x8106, (0x0006, 0x8001))]
CHOICES = [*STAYS, *SPRAYS]
PACKETS = 600
CHANGE = 21 * US


class Seen:
    """A filter that remembers the source ports of what host 0 sends from a moment on, by kind of frame."""

    def __init__(self) -> None:
        self.open = False
        self.sports: dict[str, set[int]] = {"data": set(), "ptm": set()}

    def __call__(self, host: int, frame: bytes) -> bytes | None:
        if host == 0 and self.open:
            f = decode(through_switches(frame))
            self.sports[f["kind"]].add(f["sport"])
        return frame


def begin(choice: str, *, seed: int = 0, **options: Any) -> tuple[Pair, Network, Seen]:
    """A sender in the middle of a message, on paths of unlike length."""
    connect = {"candidates": PATHS, "choice": choice}
    pair = make_pair(memory=1 << 20, window=256, seed=seed, connect=connect, **options)
    seen = Seen()
    weather = Weather(delay_of=lambda sport: (1 + sport % 7) * US, queue_of=lambda sport: sport * 7919 % 9000)
    net = Network(pair.hs, weather, seed, filter=seen)
    pair.write(PACKETS * 1000)
    net.run(lambda: net.now >= CHANGE)
    assert pair.qp_a.stats()["packets"] > pair.qp_a.stats()["bytes"] // 1000, "something is in flight"
    return pair, net, seen


def change(pair: Pair, net: Network, seen: Seen, some: list[Path]) -> None:
    pair.qp_a.set_path(candidates=some, now_ps=net.now)
    seen.open = True


def finish(pair: Pair, net: Network) -> None:
    complete(pair, net, PACKETS)
    q = pair.hs.qp[pair.qp_a.index]
    assert (q["flight_head"], q["lost_head"], q["inflight"], q["n_lost"]) == (-1, -1, 0, 0), net.schedule()


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dead", [False, True], ids=["alive", "withdrawn paths are dead"])
@pytest.mark.parametrize("some", [[PATHS[0], PATHS[7]], [PATHS[6], PATHS[5]], LISTED, [PATHS[3]]], ids=str)
def test_the_next_packet_takes_one_of_the_others(choice: str, dead: bool, some: list[Path]) -> None:
    for seed in range(2):
        pair, net, seen = begin(choice, seed=seed)
        sports = {path.sport for path in some}
        if dead:
            net.weather.dead = lambda sport, now, sports=sports: sport not in sports
        change(pair, net, seen, some)
        finish(pair, net)
        assert seen.sports["data"] | seen.sports["ptm"] <= sports, net.schedule()
        assert pair.qp_a.path_scheme.name == choice
        assert net.now < CHANGE + 5_000 * US


@pytest.mark.parametrize("choice", SPRAYS)
def test_late_answers_say_nothing_of_other_candidates(choice: str) -> None:
    """Answers to packets of the first list come when the second is in force; the places in it are of other paths."""
    pair, net, seen = begin(choice)
    change(pair, net, seen, LISTED)
    packets = pair.qp_a.stats()["packets"]
    heard = pair.hs.candidate[pair.qp_a.index, : len(LISTED)]
    late = CHANGE + 2 * US
    net.run(lambda: net.now >= late)  # answers come, and none can be of a new path
    assert pair.qp_a.stats()["packets"] > packets
    assert heard["rtt"].tolist() == [0, 0]
    if choice not in ("oblivious", "pathset"):
        swaps = choice == "mrc-like"
        assert pair.qp_a.path_state["size" if swaps else "n_tokens"] == (2 if swaps else 0)
    finish(pair, net)


def test_probes_of_an_earlier_list_are_not_sent() -> None:
    pair, net, seen = begin("probing")
    pair.qp_a.probe()
    change(pair, net, seen, LISTED)
    finish(pair, net)
    assert seen.sports["ptm"] <= {path.sport for path in LISTED}


@pytest.mark.parametrize("choice", ["spray", "reacting", "probing"])
def test_a_single_path_meanwhile(choice: str) -> None:
    """A QP that was given one path, and then candidates again, chooses among them as before."""
    pair, net, seen = begin(choice)
    pair.qp_a.set_path(PATHS[2], now_ps=net.now)
    assert pair.qp_a.path_scheme.name == "fixed"
    net.run(lambda: net.now >= CHANGE + 3 * US)
    change(pair, net, seen, LISTED)
    assert pair.qp_a.path_scheme.name == choice
    finish(pair, net)


def test_a_reacting_qp_judges_the_new_path_by_itself() -> None:
    """What packets waited on the path before is not a measure, and nothing is judged at first."""
    pair, net, seen = begin("reacting", config=host_config(react_hold_ps=30 * US))
    q = pair.hs.qp[pair.qp_a.index]
    reroutes = q["st_reroutes"]
    net.weather.queue_of = lambda sport: 90_000 if sport == LISTED[0].sport else 0
    change(pair, net, seen, LISTED)
    finish(pair, net)
    assert q["st_reroutes"] == reroutes + 1, "the change itself"


@pytest.mark.parametrize("some", [[], PATHS * 9], ids=["none", "too many"])
def test_what_is_refused_changes_nothing(some: list[Path]) -> None:
    pair, net, _ = begin("spray")
    before = pair.hs.qp.copy(), pair.hs.candidate.copy()
    with pytest.raises(DetourError, match="1 to 64 candidate paths"):
        pair.qp_a.set_path(candidates=some)
    assert (pair.hs.qp == before[0]).all()
    assert (pair.hs.candidate == before[1]).all()
    finish(pair, net)


def test_rows_change_where_the_device_says() -> None:
    """With an engine or a driver another thread is at work on them: nothing may change outside of `Device.call`."""
    pair, net, _ = begin("spray")
    waiting: list[Callable[[], Any]] = []
    qp, call = pair.qp_a, pair.device.call
    pair.device.call = waiting.append  # type: ignore[method-assign]
    before = pair.hs.qp.copy(), pair.hs.candidate.copy()
    qp.set_path(candidates=LISTED, now_ps=net.now)
    qp.set_flow_label(7)
    row = qp.index
    qp.close()
    assert (pair.hs.qp == before[0]).all()
    assert (pair.hs.candidate == before[1]).all()
    qp.index, pair.device.call = row, call  # type: ignore[method-assign]
    for function in waiting[:2]:
        function()
    assert (pair.hs.qp[row]["n_cand"], pair.hs.qp[row]["flow_label"]) == (2, 7)


def test_go_back_n_takes_other_candidates_too() -> None:
    attr = QPInitAttr(transport="gbn")
    for choice in ("probing", "reacting", "flowbender"):
        pair, net, seen = begin(choice, attr_a=attr, attr_b=attr)
        change(pair, net, seen, LISTED)
        finish(pair, net)
        assert pair.qp_a.path_scheme.name == choice
        assert seen.sports["data"] <= {path.sport for path in LISTED}
