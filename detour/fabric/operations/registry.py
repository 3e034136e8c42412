# SPDX-License-Identifier: Apache-2.0
"""The operations on a running fabric: the one list from which control socket, commands, prompt and page are served.

An operation is a method of `Operations`: its parameters and its result have types, those that people give on a command
line have a `CommandOption`, and the decorator has its help. Nothing else declares them: `Session` and, for a daemon,
`cli.asking` carry them out. Loads nothing, not even the results' types, so that the command line can show what there is
before there is any fabric.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_type_hints

from detour.base.errors import DetourError, told_of
from detour.base.progress import Progress, silent

if TYPE_CHECKING:
    from detour.fabric.operations import results

LIMIT_S = 600.0
QUICK_S = 60.0
SENT_BYTES = 1_000_000
NOT_SENT = ("progress", "cancelled")
"""parameters that are no part of a request: who serves it reports progress by the one, and ends it by the other"""


@dataclass(frozen=True)
class CommandOption:
    """A parameter on the command line: by its place, or by a `flag`, which takes no value if it has neither `metavar`
    nor `choices`. `text`: its help; `kind`: what reads it, a function or its name in `cli.parser` (None: it is text);
    `group`: one of them may be given; `is_file`: it names a file of this machine, which the page may not; `repeatable`:
    each time it is given counts; `several`: it takes more than one value."""

    text: str | None = None
    metavar: str | None = None
    flag: str | None = None
    kind: str | Callable[[str], Any] | None = None
    group: str | None = None
    is_file: bool = False
    choices: tuple[str, ...] | None = None
    repeatable: bool = False
    several: bool = False


_SOURCE, _TARGET = CommandOption("host, like h0", "SRC"), CommandOption("host, like h71", "DST")
_SWITCH = CommandOption("like s3 (default: all)", "SWITCH")
SPORT_OPTION = CommandOption(
    "UDP source port: below 0x8000 takes a shortest path, from 0x8000 a non-shortest one; the value selects which",
    "N", "--sport", "port", group="path",
)  # fmt: skip
USID_OPTION = CommandOption(
    "uSIDs on the path, like s4,s9 (at most six with those of the destination)", "LIST", "--usid", group="path"
)
_FILE = CommandOption(is_file=True)
_LINK = "like s0-s3, s0:3 (port 3 of s0)"

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """`text`: for people, without a full stop. `limit_s`: how long it may take before who asked gives up; None: as long
    as it says that it goes on."""

    name: str
    text: str
    limit_s: float | None
    function: Callable[..., Any]

    @cached_property
    def options(self) -> dict[str, CommandOption]:
        """Command line options of the parameters, by name."""
        # Not `get_type_hints`: that would load the result's type.
        texts = {name: text for name, text in self.function.__annotations__.items() if name != "return"}
        types = {name: eval(text, self.function.__globals__) for name, text in texts.items()}
        return {name: option for name, kind in types.items() for option in getattr(kind, "__metadata__", ())}

    @property
    def tells(self) -> bool:
        """Return whether it reports progress."""
        return "progress" in self.function.__annotations__

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

        return get_type_hints(self.function, {**self.function.__globals__, "results": results})

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self.function)
        return signature.replace(parameters=[p for name, p in signature.parameters.items() if name != "self"])

    def arguments(self, *values: Any, **more: Any) -> dict[str, Any]:
        """The arguments of a call by name."""
        return dict(self._signature.bind(*values, **more).arguments)

    def all_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """With those that are what they are by default."""
        bound = self._signature.bind(**arguments)
        bound.apply_defaults()
        return dict(bound.arguments)

    def decoded(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that a client asks it with in JSON. Raises DetourError: it has no such parameter, needs another
        one, or one of another type."""
        from detour.base.records import from_json

        parameters, declared = self.parameters, self._signature.parameters
        if unknown := request.keys() - parameters.keys():
            raise DetourError(f"control socket: {self.name} has no {', '.join(sorted(unknown))}")
        needed = [name for name in parameters if declared[name].default is inspect.Parameter.empty]
        if missing := [name for name in needed if name not in request]:
            raise DetourError(f"control socket: {self.name} needs {', '.join(missing)}")
        arguments: dict[str, Any] = {}
        for name, value in request.items():
            with told_of(f"control socket: {self.name}: {name}"):
                arguments[name] = from_json(parameters[name], value)
        return arguments


OPERATIONS: dict[str, Operation] = {}


def _operation(text: str, limit_s: float | None = LIMIT_S) -> Callable[[_F], _F]:

    def declare(function: _F) -> _F:
        operation = OPERATIONS[function.__name__] = Operation(function.__name__, text, limit_s, function)

        @wraps(function)
        def called(self: Operations, *values: Any, **more: Any) -> Any:
            return self.carry_out(operation, operation.arguments(*values, **more))

        return cast(_F, called)

    return declare


class Operations:
    """See the module. Each of them raises `DetourError` with one line that says why not."""

    def carry_out(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """The result of one of the operations below; `arguments`: those that are given, by name."""
        raise NotImplementedError

    @_operation("write the differences between plan and switches")
    def provision(self) -> results.Provisioned: ...

    @_operation("read all tables back and prove that all hosts reach each other")
    def verify(self) -> results.Verification: ...

    @_operation("read all tables of an expander back and prove that no buffer that PFC may block waits for itself")
    def prove(self, k: int = 32) -> results.ProvenFabric: ...

    @_operation("show the table entries of switches")
    def entries(
        self,
        switch: Annotated[str | None, _SWITCH] = None,
        table: Annotated[str | None, CommandOption("only this table, like route", "NAME", "--table")] = None,
    ) -> dict[str, list[results.EntryRow]]: ...

    @_operation("show packets per port, and packets by result of the pipeline", QUICK_S)
    def counters(self, switch: Annotated[str | None, _SWITCH] = None) -> dict[str, results.SwitchCounters]: ...

    @_operation("show a live table of link utilisation, queues, drops and marks; once with --json")
    def watch(self, seconds: float = 1.0, cancelled: threading.Event | None = None) -> results.LinkUses: ...

    @_operation("show the running fabric, its uptime and the addresses of its switches", QUICK_S)
    def status(self) -> results.Status: ...

    @_operation("show the hops of a packet, according to the switches' tables", QUICK_S)
    def path(
        self,
        source: Annotated[str, _SOURCE],
        target: Annotated[str, _TARGET],
        sport: Annotated[int | None, SPORT_OPTION] = None,
        usid: Annotated[str | None, USID_OPTION] = None,
    ) -> results.TracedPath: ...

    @_operation("take a link or a switch down and remove it from all tables")
    def fail(
        self, name: Annotated[str, CommandOption(f"{_LINK}, h7 (its link) or s3", "LINK|SWITCH")]
    ) -> results.Failed: ...

    @_operation("bring a link or switch back (default: all)")
    def heal(self, name: Annotated[str | None, CommandOption(metavar="LINK|SWITCH")] = None) -> results.Healed: ...

    @_operation("make a link slower or lossy, restore it, or list such links", QUICK_S)
    def impair(
        self,
        link: Annotated[str | None, CommandOption(f"{_LINK} or h7 (its link)", "LINK")] = None,
        rate: Annotated[
            float | None, CommandOption("reduce its rate to this fraction", "F", "--rate", "fraction")
        ] = None,
        loss: Annotated[
            float | None, CommandOption("lose this fraction of its frames", "F", "--loss", "fraction")
        ] = None,
        clear: Annotated[bool, CommandOption("restore the link, or every link", flag="--clear")] = False,
    ) -> results.ImpairedLinks: ...

    # Transfers take as long as their size and their path want; they say how far they are.
    @_operation("send bytes, or a file, from host to host and check what arrives", None)
    def send(
        self,
        source: Annotated[str, _SOURCE],
        target: Annotated[str, _TARGET],
        length: Annotated[
            int, CommandOption(f"number of bytes (default {SENT_BYTES})", "N", "--bytes", "bytes", group="what")
        ] = SENT_BYTES,
        file: Annotated[str | None, CommandOption("file to send", "F", "--file", group="what", is_file=True)] = None,
        store: Annotated[
            str | None,
            CommandOption("file that the receiver writes", "OUT", "--store", "output file", is_file=True),
        ] = None,
        sport: Annotated[int | None, SPORT_OPTION] = None,
        usid: Annotated[str | None, USID_OPTION] = None,
        spray: Annotated[
            bool, CommandOption("choose a path for each packet (docs/transports.md)", flag="--spray")
        ] = False,
        progress: Progress = silent,
        cancelled: threading.Event | None = None,
    ) -> results.SentMessage: ...

    @_operation("measure the queuing delay of every candidate path", QUICK_S)
    def probe(self, source: Annotated[str, _SOURCE], target: Annotated[str, _TARGET]) -> results.ProbedPaths: ...

    @_operation("show active flows, as measured by receivers and switches", QUICK_S)
    def flows(self) -> results.FlowRows: ...

    @_operation("start or stop counting each flow in switches")
    def watch_flows(self, on: bool) -> results.FlowRows: ...

    @_operation("move an active flow to another uSID list", QUICK_S)
    def reroute(
        self,
        flow: Annotated[str, CommandOption("a flow of `detour flows`, like h0-h9", "FLOW")],
        usid: Annotated[
            str, CommandOption("uSIDs on the path, like s9,s3 (completed with those of the target)", "LIST")
        ],
    ) -> results.ReroutedFlow: ...

    @_operation("place the flows of AI jobs on paths that share as few links as possible")
    def place(self, jobs: str, reroute: bool = False, watch: bool = False) -> results.PlacedFlows: ...

    @_operation("run the jobs of a file on the fabric, once their flows are placed", None)
    def run_jobs(
        self, jobs: str, progress: Progress = silent, cancelled: threading.Event | None = None
    ) -> results.JobsRan: ...

    @_operation("the placement as it is now", QUICK_S)
    def placement(self) -> results.PlacementState: ...

    @_operation("print flows and ports of the fabric in Prometheus' text format", QUICK_S)
    def metrics(self) -> results.FabricMetrics: ...

    @_operation("start or stop continuous traffic between pairs of hosts, or report on it", QUICK_S)
    def load(
        self,
        pattern: Annotated[
            str | None, CommandOption("adv1, adv2, unf or permutation, like unf:pairs=100,seed=2", "PATTERN")
        ] = None,
        stop: Annotated[bool, CommandOption("stop it", flag="--stop")] = False,
    ) -> results.Loaded: ...

    @_operation("start or stop capturing ports into pcapng files, or list the captures", QUICK_S)
    def capture(
        self,
        folder: Annotated[str | None, CommandOption("output folder", "DIR", is_file=True)] = None,
        where: Annotated[
            list[str] | None,
            CommandOption(
                "switches, links or hosts whose ports to capture, like s3 s0-s3 h7 (default all)", "LINK|SWITCH"
            ),
        ] = None,
        stop: Annotated[bool, CommandOption("stop and complete the files", flag="--stop")] = False,
    ) -> results.Captured: ...

    @_operation("the P4Runtime clients of a switch, with roles and election ids", QUICK_S)
    def clients(self, switch: str) -> results.P4rtClientRows: ...

    @_operation("follow a packet through the switches, line by line of P4", QUICK_S)
    def trace(
        self,
        source: str,
        target: str,
        sport: int | None = None,
        usid: str | None = None,
        length: int = 1000,
        all_ways: bool = False,
        coverage: Annotated[str | None, _FILE] = None,
        progress: Progress = silent,
    ) -> results.PacketTrace: ...

    @_operation("the same of any frame, given in hex, that a host sends", QUICK_S)
    def trace_frame(
        self, source: str, frame: str, all_ways: bool = False, progress: Progress = silent
    ) -> results.PacketTrace: ...

    @_operation("the same of packets that pass, as they pass", None)
    def trace_live(
        self,
        wanted: str = "",
        switch: str | None = None,
        count: int = 1,
        seconds: float = 10.0,
        coverage: Annotated[str | None, _FILE] = None,
        progress: Progress = silent,
        cancelled: threading.Event | None = None,
    ) -> results.LivePackets: ...
