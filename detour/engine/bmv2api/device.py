# SPDX-License-Identifier: Apache-2.0
"""One switch of a network as BMv2's API acts on it: the state that packets run on, and what P4Runtime keeps beside."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from detour.base.errors import DetourError
from detour.engine.bmv2api.notifications import Learning, NotificationSocket
from detour.engine.compiler.program import Program
from detour.engine.network import Network
from detour.engine.state import SwitchState
from detour.engine.target import TargetSwitch, compile_program

if TYPE_CHECKING:  # importing it takes a tenth of a second, and a switch without a server needs none of it
    from detour.engine.p4runtime import EntityStore, P4RuntimeServer, Pipelines, ProfileStore, TableStore

T = TypeVar("T")


class NoProgram(DetourError):
    """The switch has no program yet."""


@dataclass(frozen=True)
class GivenProgram:
    """A program that came without P4Info, as it was given and with the state that was made for it."""

    text: bytes
    program: Program
    state: SwitchState


class BmDevice:
    """See the module. Whatever reads or changes state does it in a function that `run` is given."""

    def __init__(
        self,
        network: Network,
        switch: int,
        server: P4RuntimeServer | None = None,
        device_id: int | None = None,
        *,
        thrift_port: int = 0,
        epoch_us: int = 0,
    ) -> None:
        """`switch`: its number in the network; `server` serves it over P4Runtime as `device_id` (default: the same
        number). `epoch_us`: wall clock when loop time was 0."""
        self.network, self.switch = network, switch
        self.id = switch if device_id is None else device_id
        self.thrift_port, self.epoch_us = thrift_port, epoch_us
        self.interfaces: dict[int, str] = {}
        """what its ports are attached to"""
        self.notifications: NotificationSocket | None = None
        self.learning: Learning | None = None
        self.target = TargetSwitch(network, switch)
        self._server = server
        self._lock = threading.RLock()
        self._program: GivenProgram | None = None
        self._next: GivenProgram | None = None
        self._timeouts: dict[tuple[str, int], tuple[int, int]] = {}
        self._timeouts_of: SwitchState | None = None

    def notify(self, socket: NotificationSocket) -> None:
        """Begin to tell of digests and of ports by that socket."""
        self.notifications, self.learning = socket, Learning(self.network, self.switch, socket)
        self.network.on_port_state(lambda port, up: socket.port(port[1], up) if port[0] == self.switch else None)

    # -- turns

    def run(self, function: Callable[[], T]) -> T:
        """Run a function while no packet is processed and no P4Runtime request is at the switch."""
        with self._lock:
            if self._server is None:
                return self.network.call(function)
            return self._server.exclusively(self.id, lambda: self.network.call(function))

    # -- state, within `run`

    @property
    def state(self) -> SwitchState:
        """Tables and arrays: those that packets run on or, from `prepare` to `swap`, those that they will run on.
        Raises NoProgram if there are none."""
        state = self._next.state if self._next is not None else self.network.state(self.switch)
        if state is None:
            raise NoProgram("the switch has no program yet")
        return state

    @property
    def timeouts(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(table, the engine's handle) of entries that age -> (time-out in ms, loop time when it was set)."""
        if self._timeouts_of is not self.state:
            self._timeouts, self._timeouts_of = {}, self.state
        return self._timeouts

    @property
    def store(self) -> EntityStore | None:
        """P4Runtime's entities beside that state; None if the program came without P4Info."""
        pipelines = self._pipelines
        live = None if pipelines is None else pipelines.live
        return live if live is not None and live.state is self.state else None

    def table_store(self, name: str) -> TableStore | None:
        """The same of one table; None if P4Info does not have it."""
        store = self.store
        return None if store is None else next((t for t in store.tables.values() if t.info.name == name), None)

    def profile_store(self, name: str) -> ProfileStore | None:
        """The same of one action profile."""
        store = self.store
        return None if store is None else next((p for p in store.profiles.values() if p.info.name == name), None)

    # -- programs

    @property
    def _pipelines(self) -> Pipelines | None:
        return None if self._server is None else self._server.pipelines(self.id)

    @property
    def config(self) -> bytes:
        """The JSON of the program as it was given; written anew if nobody has kept it, empty if there is none."""
        if self._next is not None:
            return self._next.text
        pipelines = self._pipelines
        if pipelines is not None and (text := pipelines.live_json):
            return text
        running = self.network.state(self.switch)
        if running is None:
            return b""
        program = running.program
        if self._program is None or self._program.program is not program:
            self._program = GivenProgram(json.dumps(program.model.json).encode(), program, running)
        return self._program.text

    @property
    def is_prepared(self) -> bool:
        """Return whether a program waits for `swap`."""
        return self._next is not None

    def prepare(self, text: bytes) -> None:
        """Make a program without P4Info and its state, on which everything acts from now on but packets. Raises
        DetourError for what the engine cannot realise."""
        program = compile_program(text)
        self._next = GivenProgram(text, program, self.target.new_state(program))

    def swap(self) -> None:
        """Let packets run on what was prepared. P4Runtime, which has no P4Info of it, has no pipeline any more."""
        given, self._next = self._next, None
        assert given is not None
        self.target.install(given.program, given.state)
        pipelines = self._pipelines
        if pipelines is not None:
            pipelines.forget()
        self._program = given

    def load(self, text: bytes) -> None:
        """Both, for a switch that is being started."""
        self.prepare(text)
        self.run(self.swap)
