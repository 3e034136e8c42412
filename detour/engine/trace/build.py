# SPDX-License-Identifier: Apache-2.0
"""From what functions did for a packet to its tree: what simple_switch does between them is put back in.

A switch's parser and ingress run when a packet arrives; its egress and deparser when a port takes it out, for each copy
of it. Who waits for an egress is kept in a list, by the kind of copy (`instance_type`); the first that fits gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from detour.engine import phv
from detour.engine.network import Network
from detour.engine.trace.events import EventReader
from detour.engine.trace.records import Execution
from detour.engine.trace.tree import Branch, Dropped, Event, Fork, Output, SourcePlace, TraceTree, Visit

SlotOf = Callable[[int], int]
"""the slot of the pool that an address lies in"""

FULL_QUEUE = "dropped between ingress and egress: its queue was full"
"""why a packet ended of which nothing else is known"""
_MOST_FORKS = 64
"""copies of copies that are followed"""
TOO_DEEP = f"cut: it is a copy of copies, {_MOST_FORKS} times"
_AGAIN = {phv.TYPE_RESUBMIT: "resubmit", phv.TYPE_RECIRCULATION: "recirculate"}
_NO_COPY = "no copy left the switch: the group is not there, or its queues were full"
_DROPS = {
    phv.ERROR_ASSERT: "an assertion failed",
    phv.ERROR_DIVISION: "division by zero",
    phv.ERROR_INDEX: "an index of a header stack is out of bounds",
    phv.ERROR_LOOP: "a loop in an action did not end",
}

Copies = tuple[tuple[int, int], ...]
"""(egress port, replication id) of each"""


class ReplicaReader:
    """A reader of the replicas of groups and clone sessions, as long as nobody changes them while packets are traced.
    Look (`look`) when tracing starts and whenever records are fetched: changes in between are not seen."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._changes: dict[int, int] = {}
        self._read: dict[int, tuple[dict[int, Copies], dict[int, Copies]] | None] = {}

    def look(self, switches: Iterable[int]) -> None:
        for switch in switches:
            changes = self._network.replication_changes(switch)
            if self._changes.get(switch) != changes:
                self._read[switch] = None if switch in self._changes else self._network.replication(switch)
                self._changes[switch] = changes
            elif self._read[switch] is None:
                self._read[switch] = self._network.replication(switch)

    def of(self, switch: int, number: int, is_clone: bool) -> list[tuple[int, int]] | None:
        """Return the replicas of a multicast group or a clone session; None: not known."""
        tables = self._read.get(switch)
        return None if tables is None else list(tables[is_clone].get(number, ()))


@dataclass(slots=True)
class _Waiting:
    """A trace that goes on when an egress, or the parser again, runs for a packet of a kind. `copies`: those of a fork
    that have not come yet; None: nobody knows. `depth`: how many forks it is behind."""

    kind: int
    trace: TraceTree
    fork: Fork | None = None
    copies: list[tuple[int, int]] | None = None
    depth: int = 0


@dataclass(slots=True)
class _Open:
    """A visit that is being put together."""

    visit: Visit
    reader: EventReader
    drop_port: int
    current: TraceTree = field(default_factory=TraceTree)
    depth: int = 0
    egress_port: int = 0
    waiting: list[_Waiting] = field(default_factory=list)


class TreeBuilder:
    """Takes executions one by one; `visits` are those of packets, in the order in which they arrived."""

    def __init__(
        self,
        readers: dict[int, EventReader],
        drop_ports: dict[int, int],
        replicas: ReplicaReader,
        slot_of: SlotOf | None = None,
    ) -> None:
        """`readers` and `drop_ports`: by the number of the switch."""
        self.visits: list[Visit] = []
        self._readers, self._drop_ports, self._slot_of = readers, drop_ports, slot_of
        self._replicas = replicas
        self._open: dict[tuple[int, int], _Open] = {}

    def add(self, executions: Iterable[Execution]) -> None:
        """Put executions into the trees that they belong to."""
        for execution in executions:
            getattr(self, f"_{execution.function}")(execution)

    # -- parser and ingress ---------------------------------------------------------------------------------

    def _parse(self, run: Execution) -> None:
        values = run.begin
        again = _AGAIN.get(values["instance_type"])
        key = run.trace, run.switch
        reader = self._readers[run.switch]
        if again is None or key not in self._open:
            port, ticks, slot = values["ingress_port"], values["ingress_global_timestamp"], self._slot(values["packet"])
            visit = Visit(run.trace, run.switch, port, ticks, run.begin.data, TraceTree(), slot)
            arrived = {"port": port, "bytes": values["packet_length"], "time_ticks": ticks}
            visit.tree.parts.append(Event("packet_ingress", arrived))
            opened = _Open(visit, reader, self._drop_ports[run.switch], visit.tree)
            self._open[key] = opened
            self.visits.append(visit)
        else:
            opened = self._open[key]
            opened.current = self._resume(opened, values["instance_type"]) or TraceTree()
        opened.current.parts += [_PARSER, reader.events(run)]

    def _ingress(self, run: Execution) -> None:
        opened = self._open[run.trace, run.switch]
        trace = opened.current
        trace.parts += [_INGRESS, opened.reader.events(run)]
        if _failed(run, trace):
            return
        trace = self._clone(opened, trace, run, "ingress", phv.TYPE_INGRESS_CLONE)
        if run.after("resubmit"):
            opened.waiting.append(_Waiting(phv.TYPE_RESUBMIT, trace, depth=opened.depth))
        elif run.after("mcast_grp"):
            group = run.after("mcast_grp")
            trace.parts.append(Event("multicast", {"group": group}))
            trace.fork = Fork("multicast", True, [])
            copies = self._replicas.of(run.switch, group, is_clone=False)
            opened.waiting.append(_Waiting(phv.TYPE_REPLICATION, trace, trace.fork, copies, opened.depth))
        elif run.after("egress_spec") == opened.drop_port:
            trace.outcome = Dropped("dropped in ingress", _drop_source(trace))
        else:
            facts = {"egress_spec": run.after("egress_spec"), "priority": run.after("priority")}
            trace.parts.append(Event("stage", {"stage": "traffic_manager", **facts}))
            opened.waiting.append(_Waiting(phv.TYPE_NORMAL, trace, depth=opened.depth))

    def _clone(self, opened: _Open, trace: TraceTree, run: Execution, where: str, kind: int) -> TraceTree:
        """Fork off clones, if there are any; the trace in which the original goes on."""
        if not run.after("clone_session"):
            return trace
        original = Branch("original", 1.0, TraceTree())
        trace.fork = Fork(f"clone in {where}", True, [original])
        copies = self._replicas.of(run.switch, run.after("clone_session") - 1, is_clone=True)
        opened.waiting.append(_Waiting(kind, trace, trace.fork, copies, opened.depth))
        return original.trace

    # -- egress and deparser --------------------------------------------------------------------------------

    def _egress(self, run: Execution) -> None:
        opened = self._open.get((run.trace, run.switch))
        if opened is None:
            return
        values = run.begin
        trace = self._resume(opened, values["instance_type"], (values["egress_port"], values["egress_rid"]))
        if trace is None:
            opened.current = TraceTree()  # of which nobody will hear
            return
        opened.egress_port = values["egress_port"]
        queue = Event("queue", {fact: values[name] for fact, name in _QUEUE_FACTS.items()})
        trace.parts += [queue, _EGRESS, opened.reader.events(run)]
        if _failed(run, trace):
            return
        opened.current = self._clone(opened, trace, run, "egress", phv.TYPE_EGRESS_CLONE)
        if run.after("egress_spec") == opened.drop_port:
            opened.current.outcome = Dropped("dropped in egress", _drop_source(trace))

    def _deparse(self, run: Execution) -> None:
        opened = self._open.get((run.trace, run.switch))
        if opened is None:
            return
        trace = opened.current
        trace.parts += [_DEPARSER, opened.reader.events(run)]
        if _failed(run, trace):
            return
        frame = run.end.data + run.begin.data
        if run.after("recirculate"):
            opened.waiting.append(_Waiting(phv.TYPE_RECIRCULATION, trace, depth=opened.depth))
            return
        if run.after("truncate"):
            frame = frame[: run.after("truncate")]
        trace.outcome = Output(opened.egress_port, frame, self._slot(run.begin["payload_at"]))

    # -- what waits -----------------------------------------------------------------------------------------

    def _resume(self, opened: _Open, kind: int, copy: tuple[int, int] = (0, 0)) -> TraceTree | None:
        """The trace that goes on with a packet of that kind; `copy`: its port and its replication id."""
        candidates = [waiting for waiting in opened.waiting if waiting.kind == kind]
        if not candidates:
            return None
        # Copies of one packet may have copies: each belongs to the first that still waits for one like it.
        waiting = next((each for each in candidates if each.copies is not None and copy in each.copies), candidates[0])
        opened.depth = waiting.depth
        if waiting.fork is None:
            opened.waiting.remove(waiting)
            return waiting.trace
        if waiting.copies is not None and copy in waiting.copies:
            waiting.copies.remove(copy)
            if not waiting.copies:
                opened.waiting.remove(waiting)
        branch = Branch(_label(kind, copy), 1.0, TraceTree())
        waiting.fork.branches.append(branch)
        if waiting.depth == _MOST_FORKS:
            branch.trace.outcome = Dropped(TOO_DEEP)
            return None
        opened.depth += 1
        return branch.trace

    def finish(self, why: str | None = None) -> None:
        """Say of packets that never came to an egress that they were dropped. When nothing is under way any more."""
        for opened in self._open.values():
            for waiting in opened.waiting:
                if waiting.fork is None:
                    waiting.trace.outcome = Dropped(why or FULL_QUEUE)
                    continue
                missing = [_label(waiting.kind, copy) for copy in waiting.copies or ()]
                dropped = [Branch(label, 1.0, TraceTree([], Dropped(why or FULL_QUEUE))) for label in missing]
                waiting.fork.branches += dropped
                if not waiting.fork.branches:
                    waiting.trace.fork = None
                    waiting.trace.outcome = Dropped(why or _NO_COPY)
        self._open.clear()

    def _slot(self, address: int) -> int | None:
        return None if self._slot_of is None else self._slot_of(address)


def _failed(run: Execution, trace: TraceTree) -> bool:
    """Return whether an error ended the packet, which its trace then says."""
    error = run.after("error")
    if error:
        trace.outcome = Dropped(_DROPS[error], _last_source(trace))
    return bool(error)


def _label(kind: int, copy: tuple[int, int]) -> str:
    label = f"port {copy[0]}, rid {copy[1]}"
    return label if kind == phv.TYPE_REPLICATION else f"clone to {label}"


class _Stage(Event):
    """A stage of which nothing more is to be said. All traces share it, and its text."""

    __slots__ = ("_text",)

    def __init__(self, name: str) -> None:
        super().__init__("stage", {"stage": name})
        self._text = super().json()

    def json(self) -> str:
        return self._text


_PARSER, _INGRESS, _EGRESS, _DEPARSER = (_Stage(name) for name in ("parser", "ingress", "egress", "deparser"))


_QUEUE_FACTS = {
    "port": "egress_port", "rid": "egress_rid", "priority": "priority", "depth_found": "enq_qdepth",
    "depth_left": "deq_qdepth", "wait_ticks": "deq_timedelta", "enqueued_at_ticks": "enq_timestamp",
}  # fmt: skip
"""what the packet met in its queue -> its standard metadata"""


def _drop_source(trace: TraceTree) -> SourcePlace | None:
    """Return where the packet was marked to be dropped: the last mark, or the last write to egress_spec."""

    def may_drop(event: Event) -> bool:
        if event.kind == "assign":
            return event.facts.get("field") == "standard_metadata.egress_spec"
        return event.kind == "mark_to_drop"

    event = trace.latest(may_drop)
    return event and event.source


def _last_source(trace: TraceTree) -> SourcePlace | None:
    event = trace.latest(lambda event: event.source is not None)
    return event and event.source
