# SPDX-License-Identifier: Apache-2.0
"""Networks of switches with the scripted program."""

from __future__ import annotations

from typing import Any

from script_program import CrossProgram, ScriptProgram, ScriptState

from detour.engine.clock import Clock
from detour.engine.network import Network
from detour.hosts.ip.addressing import IpHostConfig
from detour.hosts.ip.hosts import IpStack


class Bench:
    """A network with one or more switches, and a list of (time, frame) for each port that has a sink."""

    def __init__(self, program: ScriptProgram, clock: Clock, **options: Any) -> None:
        self.program = program
        self.net = Network(clock, **options)
        self.out: dict[tuple[int, int], list[tuple[int, bytes]]] = {}

    def switch(self, device_id: int = 1, **options: Any) -> ScriptState:
        self.net.add_switch(device_id, **options)
        state = ScriptState()
        self.net.set_pipeline(device_id, self.program, state)
        return state

    def sink(self, device_id: int, *ports: int, **options: Any) -> None:
        for port in ports:
            collected = self.out.setdefault((device_id, port), [])
            self.net.attach_sink((device_id, port), lambda data, time, to=collected: to.append((time, data)), **options)

    def single(self, *ports: int, priorities: int = 1, **options: Any) -> Bench:
        """With switch 1 and sinks on these ports of it."""
        self.switch(priorities=priorities)
        self.sink(1, *ports, **options)
        return self

    def frames(self, port: int, device_id: int = 1) -> list[bytes]:
        return [data for _, data in self.out[device_id, port]]

    def times(self, port: int, device_id: int = 1) -> list[int]:
        return [time for time, _ in self.out[device_id, port]]

    def counter(self, name: str, device_id: int = 1) -> int:
        stats = self.net.switch_stats()
        return int(stats[name][list(stats["device_id"]).index(device_id)])

    def port(self, port: int, device_id: int = 1) -> dict[str, int]:
        stats = self.net.port_stats()
        time = stats.pop("time_ps")
        keys = list(zip(stats["device_id"].tolist(), stats["port"].tolist(), strict=True))
        row = keys.index((device_id, port))
        return {name: int(column[row]) for name, column in stats.items()} | {"time_ps": time}


class IpPair:
    """Hosts h1 and h2 on ports 1 and 2 of a switch that crosses them."""

    def __init__(
        self, hosts: list[IpHostConfig], cables: list[tuple[int, int, int]], clock: Clock, elide: bool, seed: int
    ) -> None:
        self.stack = IpStack(hosts, elide=elide, seed=seed)
        self.net = Network(clock, seed=seed, frame_bytes=256 if elide else None)
        self.net.add_switch(1)
        self.net.set_pipeline(1, CrossProgram(), ScriptState())
        for host, cable in enumerate(cables):
            self.net.attach_stack((1, host + 1), self.stack, host, *cable)
        self.h1, self.h2 = self.stack.host("h1"), self.stack.host("h2")
