# SPDX-License-Identifier: Apache-2.0
"""Senders on one switch (`relay`), receivers on another, one cable between them."""

from __future__ import annotations

from dataclasses import dataclass

from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.experiments.tcp.relay import Relay, RelaySide
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.hosts import IpStack

CABLE = (1, 1)
_TICK_PS = 1_000_000
_FAST_BPS = 100_000_000_000
_QUEUE_OF_HOSTS = 1 << 16
_STORED_BYTES = 256


@dataclass(frozen=True)
class Bottleneck:
    """Between the switches: bits a second, ps each way, packets of a queue, share of frames that the way to the
    receivers loses, packets in a queue at which marks begin."""

    rate_bps: int
    delay_ps: int
    queue_packets: int
    loss: float = 0.0
    marking_depth: int = 10


class Dumbbell:
    """Hosts `a0`, `a1`, ... send, `b0`, `b1`, ... receive. A context manager."""

    def __init__(self, pairs: int, cable: Bottleneck, *, seed: int = 1, jitter: bool = False) -> None:
        """`jitter`: of hosts (`Network.set_jitter`)."""
        sides = [(side, number) for side in (1, 2) for number in range(pairs)]
        # Relays leave MACs as they are, so a host's gateway is its partner.
        hosts = []
        for side, number in sides:
            gateway, partner = f"10.0.{side}.254", _mac(3 - side, number)
            terms = f"{address(side, number)}/24", gateway
            name = f"{'ab'[side - 1]}{number}"
            hosts.append(IpHostConfig(name, _mac(side, number), *terms, neighbours={gateway: partner}))
        self.stack = IpStack(hosts, seed=seed, elide=True)
        self.network = Network(Virtual(), _TICK_PS, seed, frame_bytes=_STORED_BYTES)
        code = Relay()
        for switch in (1, 2):
            self.network.add_switch(switch)
            self.network.set_pipeline(switch, code, RelaySide(switch, cable.marking_depth))
        self.network.connect((1, 1), (2, 1), cable.rate_bps, cable.delay_ps, cable.queue_packets)
        for number, (side, place) in enumerate(sides):
            self.network.attach_stack((side, 2 + place), self.stack, number, _FAST_BPS, 1, _QUEUE_OF_HOSTS)
        if jitter:
            self.network.set_jitter()
        if cable.loss:
            self.network.set_faults(CABLE, loss=cable.loss, both=False)

    def queue(self) -> int:
        """Packets that wait for the cable."""
        return sum(state.packets for state in self.network.queue_states(CABLE))

    def __enter__(self) -> Dumbbell:
        return self

    def __exit__(self, *_: object) -> None:
        self.network.stop()


def address(side: int, place: int) -> str:
    """Return the address of a host of side 1 (senders) or 2."""
    return f"10.0.{side}.{place + 1}"


def _mac(side: int, place: int) -> str:
    return f"02:00:00:00:{side:02x}:{place:02x}"
