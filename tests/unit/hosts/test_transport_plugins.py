# SPDX-License-Identifier: Apache-2.0
"""Transports that are plugged in: one of a file, and what the built-in ones have in common with it."""

from __future__ import annotations

import pytest

from detour.base.errors import DetourError
from detour.hosts.parameters import host_config
from detour.hosts.transport import TRANSPORT_REGISTRY, transport
from detour.hosts.verbs import QPInitAttr
from tests.property.lossy import Network, Weather, make_pair, transfer

OWN = """
from dataclasses import dataclass
from detour.hosts.transport.gbn import on_ack, on_gap, on_timeout
from detour.hosts.transport.plugin import Transport, TransportParameters, hook

@dataclass(frozen=True)
class Parameters(TransportParameters):
    every: int = 4

@hook
def wants_answer(hs, i, q, p, s, news, now):
    s.asked += 1
    return s.asked % p.every == 0

OFTEN = Transport(Parameters(), {"asked": int}, (on_ack, on_gap, on_timeout, wants_answer))
number = 7
"""


@pytest.mark.parametrize(("values", "answers"), [("", 25), (":every=10", 10)])
def test_a_transport_of_a_file_says_which_packets_are_answered(own: str, values: str, answers: int) -> None:
    attr = QPInitAttr(psn=0, transport=f"{own}:OFTEN{values}", initial_cwnd=1000, congestion_control="fixed")
    pair = make_pair(attr_a=attr, attr_b=attr, window=1024)
    transfer(pair, Network(pair.hs, Weather()), 100)
    assert int(pair.hs.host["rx_frames"][0]) == answers


def test_it_repairs_losses(own: str) -> None:
    attr = QPInitAttr(psn=0, transport=f"{own}:OFTEN")
    pair = make_pair(attr_a=attr, attr_b=attr)
    stats = transfer(pair, Network(pair.hs, Weather(loss=0.05), seed=3), 200)
    assert stats["retransmitted"] > 0


def test_a_transport_has_one_name_and_its_own_parameters(own: str) -> None:
    assert all(transport(name).name == name for name in TRANSPORT_REGISTRY.names())
    assert {name: list(transport(name).values) for name in TRANSPORT_REGISTRY.built_in} == {
        "lerp": ["adapts_to_reordering"], "gbn": ["ack_every"]
    }  # fmt: skip
    assert host_config(ack_every=3).plugins == {"ack_every": 3}
    assert transport("GBN:ack_every=3").values == {"ack_every": 3}
    with pytest.raises(DetourError, match="gbn: there is no parameter ack_evry; allowed: ack_every"):
        transport("gbn:ack_evry=3")
    with pytest.raises(DetourError, match="is a int, and not a Transport"):
        transport(f"{own}:number")


def test_ends_with_different_transports_do_not_connect(own: str) -> None:
    with pytest.raises(DetourError, match="the peer's QP has a different transport or receiver"):
        make_pair(attr_a=QPInitAttr(transport="gbn"), attr_b=QPInitAttr(transport=f"{own}:OFTEN"))
