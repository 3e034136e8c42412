# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a running fabric: the one list that control socket, command line and prompt are served from.

An operation is a method of `Operations`: its parameters and its result have types, and the decorator has its help.
`Session` carries them out, `cli.asking` asks for them by the same signatures. Loads nothing, not even the results'
types, so that the command line can show what there is before there is any fabric.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, get_type_hints

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent

if TYPE_CHECKING:
    from detour.fabric.operations.results import (
        Captured,
        EntryRow,
        FabricMetrics,
        Failed,
        FlowRows,
        Healed,
        ImpairedLinks,
        LinkUses,
        LivePackets,
        Loaded,
        P4rtClientRows,
        PacketTrace,
        PlacedFlows,
        PlacementState,
        ProbedPaths,
        ProvenFabric,
        Provisioned,
        ReroutedFlow,
        SentMessage,
        Status,
        SwitchCounters,
        TracedPath,
        Verification,
    )

LIMIT_S = 600.0
QUICK_S = 60.0
NOT_SENT = ("progress", "cancelled")
"""parameters that are no part of a request: who serves it reports progress by the one, and ends it by the other"""

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """`text`: for people, without a full stop. `limit_s`: how long it may take before who asked gives up; None: as long
    as it says that it goes on."""

    name: str
    text: str
    limit_s: float | None
    function: Callable[..., Any]

    @property
    def parameters(self) -> dict[str, Any]:
        """The types of its parameters by name."""
        return {name: kind for name, kind in self._hints().items() if name not in (*NOT_SENT, "return")}

    @property
    def result(self) -> Any:
        """The type of its result."""
        return self._hints()["return"]

    def _hints(self) -> dict[str, Any]:
        from detour.fabric.operations import results

        return get_type_hints(self.function, {**self.function.__globals__, **vars(results)})

    def arguments(self, *values: Any, **more: Any) -> dict[str, Any]:
        """The arguments of a call by name."""
        found = inspect.signature(self.function).bind(None, *values, **more).arguments
        return {name: value for name, value in found.items() if name != "self"}

    def decoded(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that a client asks it with in JSON.

        Raises:
            DetourError: it has no such parameter, needs another one, or one of another type.
        """
        from detour.base.records import from_json

        parameters, declared = self.parameters, inspect.signature(self.function).parameters
        if unknown := request.keys() - parameters.keys():
            raise DetourError(f"control socket: {self.name} has no {', '.join(sorted(unknown))}")
        needed = [name for name in parameters if declared[name].default is inspect.Parameter.empty]
        if missing := [name for name in needed if name not in request]:
            raise DetourError(f"control socket: {self.name} needs {', '.join(missing)}")
        found: dict[str, Any] = {}
        for name, value in request.items():
            try:
                found[name] = from_json(parameters[name], value)
            except DetourError as error:
                raise DetourError(f"control socket: {self.name}: {name}: {error}") from None
        return found


OPERATIONS: dict[str, Operation] = {}


def _operation(text: str, limit_s: float | None = LIMIT_S) -> Callable[[_F], _F]:
    """Declares an operation."""

    def declare(function: _F) -> _F:
        OPERATIONS[function.__name__] = Operation(function.__name__, text, limit_s, function)
        return function

    return declare


class Operations(Protocol):
    """See the module. Each of them raises `DetourError` with one line that says why not."""

    @_operation("write what switches and plan differ in")
    def provision(self) -> Provisioned: ...

    @_operation("read all tables back and prove that every pair of hosts is connected")
    def verify(self) -> Verification: ...

    @_operation("read all tables of an expander back and prove that no buffer that PFC may block waits for itself")
    def prove(self, k: int = 32) -> ProvenFabric: ...

    @_operation("what switches hold")
    def entries(self, switch: str | None = None, table: str | None = None) -> dict[str, list[EntryRow]]: ...

    @_operation("what passed each port, and what became of packets", QUICK_S)
    def counters(self, switch: str | None = None) -> dict[str, SwitchCounters]: ...

    @_operation("live table of link use, queue, drops and marks; once with --json")
    def watch(self, seconds: float = 1.0) -> LinkUses: ...

    @_operation("what is up, since when, and where its switches are reached", QUICK_S)
    def status(self) -> Status: ...

    @_operation("the hops that a packet takes, from the switches' tables", QUICK_S)
    def path(self, source: str, target: str, sport: int | None = None, usid: str | None = None) -> TracedPath: ...

    @_operation("take a link or a switch down and withdraw it from all tables")
    def fail(self, name: str) -> Failed: ...

    @_operation("bring a link or switch back (default: all)")
    def heal(self, name: str | None = None) -> Healed: ...

    @_operation("make a link slower or lossy, or let it be as it was, or say which are so", QUICK_S)
    def impair(
        self, link: str | None = None, rate: float | None = None, loss: float | None = None, clear: bool = False
    ) -> ImpairedLinks: ...

    # Transfers take as long as their size and their path want; they say how far they are.
    @_operation("send bytes, or a file, from host to host and check what arrives", None)
    def send(
        self,
        source: str,
        target: str,
        length: int = 1_000_000,
        file: str | None = None,
        store: str | None = None,
        sport: int | None = None,
        usid: str | None = None,
        spray: bool = False,
        progress: Progress = silent,
    ) -> SentMessage: ...

    @_operation("queuing delay of every candidate path", QUICK_S)
    def probe(self, source: str, target: str) -> ProbedPaths: ...

    @_operation("what sends now, as its receivers and the switches on its way see it", QUICK_S)
    def flows(self) -> FlowRows: ...

    @_operation("switches count every flow by itself from now on, or no more")
    def watch_flows(self, on: bool) -> FlowRows: ...

    @_operation("give a flow that sends another uSID list", QUICK_S)
    def reroute(self, flow: str, usid: str) -> ReroutedFlow: ...

    @_operation("paths for the flows of AI jobs that share as few links as can be")
    def place(self, jobs: str, reroute: bool = False, watch: bool = False) -> PlacedFlows: ...

    @_operation("the placement as it is now", QUICK_S)
    def placement(self) -> PlacementState: ...

    @_operation("flows and ports of the fabric in Prometheus' text format", QUICK_S)
    def metrics(self) -> FabricMetrics: ...

    @_operation("begin or end traffic that goes on between pairs of hosts, or say what it has done", QUICK_S)
    def load(self, pattern: str | None = None, stop: bool = False) -> Loaded: ...

    @_operation("begin or end to write what passes ports into pcapng files, or say what is being written", QUICK_S)
    def capture(self, folder: str | None = None, where: list[str] | None = None, stop: bool = False) -> Captured: ...

    @_operation("the P4Runtime clients of a switch, with roles and election ids", QUICK_S)
    def clients(self, switch: str) -> P4rtClientRows: ...

    @_operation("what happens to a packet, line by line of P4, in every switch on its way", QUICK_S)
    def trace(
        self,
        source: str,
        target: str,
        sport: int | None = None,
        usid: str | None = None,
        length: int = 1000,
        all_ways: bool = False,
        coverage: str | None = None,
        progress: Progress = silent,
    ) -> PacketTrace: ...

    @_operation("the same of any frame, given in hex, that a host sends", QUICK_S)
    def trace_frame(
        self, source: str, frame: str, all_ways: bool = False, progress: Progress = silent
    ) -> PacketTrace: ...

    @_operation("the same of packets that pass, as they pass", None)
    def trace_live(
        self,
        wanted: str = "",
        switch: str | None = None,
        count: int = 1,
        seconds: float = 10.0,
        coverage: str | None = None,
        progress: Progress = silent,
    ) -> LivePackets: ...
