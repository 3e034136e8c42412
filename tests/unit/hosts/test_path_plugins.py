# SPDX-License-Identifier: Apache-2.0
"""Path schemes that are plugged in: one that gives every packet its turn, and one that stays and leaves by marks."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from detour.base.errors import DetourError
from detour.base.jit import COMPILED
from detour.hosts.paths import PATH_REGISTRY, path_scheme
from detour.hosts.transport import TRANSPORT_REGISTRY
from detour.hosts.verbs import Path, QPInitAttr
from tests.property.lossy import US, Network, Pair, Weather, make_pair

OWN = """
from dataclasses import dataclass
from detour.hosts.paths import paths
from detour.hosts.paths.plugin import PathScheme, hook

@dataclass(frozen=True)
class Parameters:
    step: int = 1

@hook
def on_candidates(hs, i, q, p, s, news, now):
    s.turn = 0

@hook
def choose(hs, i, q, p, s, news, now):
    s.turn += p.step
    return s.turn % q.n_cand

@hook
def on_answer(hs, i, q, p, s, news, now):
    s.marks += news.marked
    if s.marks >= 3 and news.cand == 0:
        s.marks = 0
        paths.move(hs, i, q, 1, now)

TURNS = PathScheme(Parameters(), {"turn": int}, (on_candidates, choose), sprays=True)
LEAVES = PathScheme(None, {"marks": int}, (on_answer,))
number = 7
"""
CANDIDATES = [Path(1), Path(2), Path(0x8001), Path(0x8002)]
PACKETS = 240


def sent(scheme: str, weather: Weather, **attributes: object) -> Pair:
    """A message under a scheme."""
    attr = QPInitAttr(psn=0, **attributes)  # type: ignore[arg-type]
    connect = {"candidates": CANDIDATES, "choice": path_scheme(scheme)}
    pair = make_pair(connect=connect, attr_a=attr, attr_b=attr)
    net = Network(pair.hs, weather)
    pair.write(1000 * PACKETS)
    assert net.run(lambda: len(pair.cq_a.poll()) > 0), net.schedule()
    return pair


def test_every_packet_has_its_turn(own: str) -> None:
    packets = sent(f"{own}:TURNS", Weather(delay_of=lambda sport: 5 * US)).qp_a.stats()["paths"]
    assert set(packets.values()) == {PACKETS // 4}
    packets = sent(f"{own}:TURNS:step=2", Weather(delay_of=lambda sport: 5 * US)).qp_a.stats()["paths"]
    assert packets == {str(CANDIDATES[0]): PACKETS // 2, str(CANDIDATES[2]): PACKETS // 2}


def test_a_path_is_left_for_its_marks(own: str) -> None:
    for transport in TRANSPORT_REGISTRY.built_in:
        pair = sent(f"{own}:LEAVES", Weather(mark=1.0), transport=transport)
        assert pair.qp_a.stats()["reroutes"] == 1
        assert pair.qp_a.current_path == str(CANDIDATES[1])
        assert pair.qp_a.path_state["marks"] > 0


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("(on_candidates, choose)", "(on_candidates,)", "a path scheme that sprays needs the hook choose"),
        ("    return s.turn % q.n_cand", "    pass", "choose returns none; expected a number"),
        ("s.turn +=", "s.trun +=", "there is no field trun; there are turn"),
    ],
)
@pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")
def test_a_wrong_scheme_is_told_with_its_line(tmp_path: File, before: str, after: str, reason: str) -> None:
    assert before in OWN
    path = tmp_path / "own.py"
    path.write_text(OWN.replace(before, after))
    with pytest.raises(DetourError, match=rf"own\.py:\d+: {reason}"):
        sent(f"{path}:TURNS", Weather())


def test_a_number_is_no_scheme(own: str) -> None:
    with pytest.raises(DetourError, match="is a int, and not a PathScheme"):
        path_scheme(f"{own}:number")


RIVALS = {"flowbender", "mrc-like", "reps", "spritz-scout", "spritz-spray"}


def test_a_scheme_has_one_name_and_is_a_plugin_wherever_it_comes_from() -> None:
    assert set(PATH_REGISTRY.names()) - set(PATH_REGISTRY.built_in) >= RIVALS
    assert all(path_scheme(name).name == name for name in PATH_REGISTRY.names())
    assert path_scheme("Spritz-Scout") == path_scheme("spritz-scout")


@pytest.mark.parametrize(("former", "name"), [("telemetry", "probing"), ("spraying", "spray"), ("set", "pathset")])
def test_names_that_were_given_before_are_understood(former: str, name: str) -> None:
    assert path_scheme(former) == path_scheme(name)
