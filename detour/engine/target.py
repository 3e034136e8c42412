# SPDX-License-Identifier: Apache-2.0
"""The engine as servers of P4Runtime and of BMv2's API see it. Of their modules only this one knows the interfaces of
the network and the compiler."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from detour.base.errors import DetourError
from detour.engine.compiler.model import read_json
from detour.engine.compiler.native import CompileLimits
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState

T = TypeVar("T")
LIMITS = CompileLimits()
"""of compiling what a client pushes"""


class NetworkLike(Protocol):
    """The part of a `detour.engine.network.Network` that the server needs."""

    tick_ps: int
    seed: int

    @property
    def now_ps(self) -> int: ...
    @property
    def virtual(self) -> bool: ...
    def call(self, function: Callable[[], T]) -> T: ...
    def has_port(self, port: tuple[int, int]) -> bool: ...
    def set_pipeline(self, switch: int, program: Any, state: Any) -> None: ...
    def packet_out(self, switch: int, frame: bytes) -> None: ...
    def on_packet_in(self, switch: int, callback: Callable[[bytes, int], None] | None) -> None: ...
    def on_digest(self, switch: int, callback: Callable[[int, bytes, int], None] | None) -> None: ...
    def clear_replication(self, switch: int) -> None: ...
    def set_multicast_group(self, switch: int, group: int, replicas: Sequence[tuple[int, int]] | None) -> None: ...
    def set_clone_session(
        self, switch: int, session: int, replicas: Sequence[tuple[int, int]] | None, length: int = 0
    ) -> None: ...


def compile_program(text: bytes) -> Program:
    """The compiled program of a BMv2 JSON document; DetourError says what is wrong with it."""
    try:
        document = text.decode()
    except UnicodeDecodeError as e:
        raise DetourError(f"P4 program: the BMv2 JSON is not UTF-8 at byte {e.start}") from e
    if not document.lstrip().startswith("{"):  # read_json would take it for a path
        raise DetourError("P4 program: this is not BMv2 JSON")
    return Program.from_json(read_json(document), apart=LIMITS)


class TargetSwitch:
    """One switch of the network."""

    def __init__(self, network: NetworkLike, switch: int) -> None:
        self.network, self.switch = network, switch

    def call(self, function: Callable[[], T]) -> T:
        """Run a function while no packet is processed."""
        return self.network.call(function)

    def has_port(self, port: int) -> bool:
        """Return whether anything is attached to a port; the CPU port is one."""
        return self.network.has_port((self.switch, port))

    def new_state(self, program: Program) -> SwitchState:
        """State of the switch with that program, nothing written yet."""
        seed = self.network.seed * 0x9E3779B1 + self.switch + 1
        return SwitchState(program, seed, self.network.tick_ps)

    def install(self, program: Program, state: SwitchState) -> None:
        """Let packets run the program on that state."""
        self.network.set_pipeline(self.switch, program, state)

    def listen(
        self, packet_in: Callable[[bytes, int], None] | None, digest: Callable[[int, bytes, int], None] | None
    ) -> None:
        """Set the receivers of packets to the CPU port and of digests."""
        self.network.on_packet_in(self.switch, packet_in)
        self.network.on_digest(self.switch, digest)

    def packet_out(self, frame: bytes) -> None:
        """Inject a frame at the CPU port."""
        self.network.packet_out(self.switch, frame)

    def clear_replication(self) -> None:
        """No multicast groups, no clone sessions."""
        self.network.clear_replication(self.switch)

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]] | None) -> None:
        """Sets or deletes a multicast group."""
        self.network.set_multicast_group(self.switch, group, replicas)

    def set_session(self, session: int, replicas: Sequence[tuple[int, int]] | None, length: int = 0) -> None:
        """Sets or deletes a clone session."""
        self.network.set_clone_session(self.switch, session, replicas, length)

    @property
    def now_ps(self) -> int:
        """Loop time."""
        return self.network.now_ps

    def stamp_ns(self, time_ps: int | None = None) -> int:
        """Return the time stamp of a message about an event at a loop time (default: now): in virtual time that, on the
        wall clock nanoseconds since 1970."""
        if not self.network.virtual:
            return time.time_ns()
        return (self.now_ps if time_ps is None else time_ps) // 1000

    def tick_to_ps(self, tick: int) -> int:
        """Loop time of a tick."""
        return tick * self.network.tick_ps
