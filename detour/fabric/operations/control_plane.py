# SPDX-License-Identifier: Apache-2.0
"""The control plane of a running fabric: connections to all switches, which are kept, what the switches are to hold,
what they count, and where packets go by what they hold."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from detour.base.errors import DetourError
from detour.base.garbage import HELD_OFF
from detour.base.grpc_loop import GrpcLoop
from detour.control.entries import Plan, difference
from detour.control.p4runtime.client import FabricClient, SwitchClient
from detour.control.p4runtime.monitor import CellReader, Monitor, Sample
from detour.control.p4runtime.punt import Responder
from detour.control.p4runtime.reconcile import Keeper, Written, reconcile, updates
from detour.control.p4runtime.watching import Cell
from detour.control.planner import plan, route_bounds
from detour.control.verifier.forwarding import SwitchTables
from detour.control.verifier.trace import Tracer
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.clock import PS
from detour.fabric.operations.results import DisplacedSwitch, PathHop, TracedPath
from detour.hosts.verbs import Path
from detour.topo import Failure, Host, failure_name
from detour.topo.paths import Bounds, SwitchPath, completed_usids, parse_usid_list


class ControlPlane:
    """See the module. Methods may be called from several threads; those that change what switches hold need `changing`,
    which callers hold around more than one of them."""

    def __init__(self, fabric: Fabric) -> None:
        """Connect to all switches and set their pipeline. Raises DetourError: a switch does not answer or has another
        controller."""
        self.topology = fabric.topology
        self.policy = fabric.terms.policy
        self.changing = threading.RLock()
        self.more: list[Callable[[], Plan]] = []
        """entries that switches are to hold beside the plan for topology, policy and failures"""
        self.entries = 0
        """on all switches"""
        self._writes = fabric.table_writes()
        self._kept: dict[int, tuple[int, SwitchTables]] = {}
        """tables that packets were followed by, with the number of writes before they were read"""
        self.set_failures(frozenset())
        self.responder = Responder({s.device_id: s.node_id for s in self.topology.switches})
        self.client = FabricClient(fabric.targets(), fabric.terms.pipeline, on_packet_in=self.responder)
        ports = {
            s.device_id: [p for p, peer in enumerate(s.ports, 1) if peer is not None] for s in self.topology.switches
        }
        self._monitor, self._cells = Monitor(self.client, ports, lambda: fabric.now_ps / PS), CellReader(self.client)
        self._loop = Background("control")
        try:
            self._loop.run(self.client.__aenter__())
            self._keeper = self._loop.run(self._keep())
        except BaseException:
            self._loop.close()
            raise

    async def _keep(self) -> Keeper:
        def give(device: int) -> None:
            """A switch is connected again, whatever it holds now: it gets what it has to hold."""
            with self.changing:
                self.reconcile([device])

        async def restore(switch: SwitchClient) -> None:
            work = asyncio.ensure_future(asyncio.to_thread(give, switch.target.device_id))
            try:
                await asyncio.shield(work)
            finally:  # no thread is left behind that waits for a loop which has ended
                await asyncio.gather(work, return_exceptions=True)

        return Keeper(self.client.switches.values(), restore)

    def close(self) -> None:
        """End the connections. May be called twice."""
        self._loop.close(self._disconnect)

    async def _disconnect(self) -> None:
        """Both at once: what still restores a switch ends when its connection does."""
        await asyncio.gather(self._keeper.close(), self.client.close())

    @property
    def lost(self) -> dict[str, str]:
        """Switches that are not reached, and why."""
        return dict(sorted(self._keeper.lost.items()))

    @property
    def displaced(self) -> dict[str, DisplacedSwitch]:
        """Switches that another controller has taken over since they were provisioned."""
        return {
            client.name: DisplacedSwitch(str(displaced.election_id), since(displaced.since), client.is_primary)
            for client in self.client.switches.values()
            if (displaced := client.displaced) is not None
        }

    def set_failures(self, failures: frozenset[Failure]) -> None:
        """Plan and follow packets with these from now on; `reconcile` writes the tables."""
        self.failures = failures
        self._tracer = Tracer(self._tables, self.topology, failures)

    # -- tables -----------------------------------------------------------------------------------------

    def reconcile(self, device_ids: Collection[int] | None = None) -> Written:
        """Bring all switches (or those named) to the plan for the present failures."""
        planned = plan(self.topology, self.policy, self.failures)
        for more in self.more:
            for device, entries in more().items():
                if device in planned:
                    planned[device] += entries
        if device_ids is not None:
            planned = {device: entries for device, entries in planned.items() if device in device_ids}
        with HELD_OFF:
            written = self._loop.run(reconcile(self.client, planned))
        if device_ids is None:
            self.entries = written.entries
        for switch in self.client.switches.values():
            switch.forgive()
        return written

    def read(self, device_ids: list[int] | None = None) -> Plan:
        """Read the entities of all switches (or those named)."""
        return self._loop.run(self.client.read(device_ids))

    def read_live(self) -> Plan:
        """Read the entities of the switches that are not down."""
        down = {failure.index for failure in self.failures if failure.kind == "switch"}
        with HELD_OFF:
            return self.read([switch.device_id for switch in self.topology.switches if switch.index not in down])

    def bound(self) -> Bounds:
        """Return how many switches packets may pass now."""
        return route_bounds(self.topology, self.policy, self.failures)

    @contextmanager
    def tracer(self) -> Iterator[Tracer]:
        """Follow packets by what the switches hold now: the tables of a switch are read when a packet comes there
        first, and again when they have been written since. This control plane changes nothing meanwhile."""
        with self.changing:
            if self._writes is None:  # nothing says whether they have been written
                self._kept.clear()
            yield self._tracer

    def _tables(self, device: int) -> SwitchTables:
        writes, kept = self._writes[device] if self._writes is not None else 0, self._kept.get(device)
        if kept is None or kept[0] != writes:
            kept = self._kept[device] = writes, SwitchTables(self.read([device])[device])
        return kept[1]

    def failure_names(self) -> list[str]:
        """Return the names of failed links and switches, in order."""
        return [failure_name(self.topology, failure) for failure in sorted(self.failures)]

    # -- counters ---------------------------------------------------------------------------------------

    def sample(self) -> Sample:
        """All counters now."""
        return self._loop.run(self._monitor.sample())

    def read_cells(self, cells: Mapping[int, Sequence[Cell]]) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Cells of counters, by device id."""
        return self._loop.run(self._cells.read(cells))

    def rewrite(self, before: Plan, after: Plan) -> None:
        """Bring switches from a part of their entries to another one; those that are down are left out."""

        async def write(switch: SwitchClient) -> None:
            device = switch.target.device_id
            change = difference(before.get(device, []), after.get(device, []))
            await switch.write(updates(switch.codec, change))

        down = {failure.index for failure in self.failures if failure.kind == "switch"}
        dead = {switch.device_id for switch in self.topology.switches if switch.index in down}
        self._loop.run(self.client.each(write, sorted((before.keys() | after.keys()) - dead)))


class Paths:
    """Paths of packets, from the switches' own tables. Methods may be called from several threads."""

    def __init__(self, control: ControlPlane) -> None:
        self._control, self._topology = control, control.topology

    def ends(self, source: str, target: str) -> tuple[Host, Host]:
        """The hosts of these names. Raises DetourError: there is none, or they are one."""
        ends = self._topology.host(source), self._topology.host(target)
        if ends[0] == ends[1]:
            raise DetourError(f"source and destination are both {source}; they must differ")
        return ends

    def chosen(self, target: Host, sport: int | None, usid: str | None) -> Path:
        """Return the path that the options select; a list that does not end at the destination host is completed."""
        if usid is None:
            return Path(sport or 0)
        return Path(sport or 0, completed_usids(self._topology, parse_usid_list(self._topology, usid), target))

    def path(self, source: str, target: str, sport: int | None, usid: str | None) -> TracedPath:
        """The hops of a packet."""
        a, b = self.ends(source, target)
        way = self.chosen(b, sport, usid)
        with self._control.tracer() as tracer:
            trace = tracer.trace(a, b, way.sport, way.usids or None)
        hops = [
            PathHop(self._topology.switches[hop.switch].name, hop.in_port, hop.out_port, hop.why) for hop in trace.hops
        ]
        return TracedPath(str(way), trace.delivered, trace.outcome, hops)

    def need_one(self, source: Host, target: Host, paths: Iterable[Path]) -> None:
        """Look whether packets arrive on one of these paths, while anything is down. Raises DetourError: they arrive
        on none, so a connection would wait in vain."""
        if not self._control.failures:
            return
        outcome = ""
        with self._control.tracer() as tracer:
            for path in paths:
                trace = tracer.trace(source, target, path.sport, path.usids or None)
                if trace.delivered:
                    return
                outcome = outcome or trace.outcome
        down = ", ".join(self._control.failure_names())
        raise DetourError(f"no packet of {source.name} reaches {target.name}: {outcome} (down: {down}; `detour heal`)")

    def hops(self, ways: Iterable[tuple[Host, Host, Path]]) -> list[SwitchPath]:
        """The stops of packets from a host to another one on a path, for each of them."""
        with self._control.tracer() as tracer:
            traces = [tracer.trace(a, b, path.sport, path.usids or None) for a, b, path in ways]
        return [trace.path(self._topology) for trace in traces]

    def hop_names(self, source: Host, target: Host, paths: Iterable[Path]) -> list[list[str]]:
        """The same by name, for several paths between two hosts."""
        ways = self.hops((source, target, path) for path in paths)
        return [self._topology.path_names(way) for way in ways]


def since(begin: float) -> float:
    """Seconds since a `time.monotonic()`."""
    return round(time.monotonic() - begin, 3)


T = TypeVar("T")


class Background:
    """Runs coroutines in a thread of its own and waits for their results."""

    def __init__(self, name: str) -> None:
        self._loop = GrpcLoop()
        self._ending = False
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, or its error. An interrupted wait cancels it. Raises DetourError: `close` was
        called before."""
        if self._ending:
            work.close()
            raise DetourError("the fabric is going down")
        return self._run(work)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Do a `last` thing, cancel what still runs and end the loop. May be called twice."""
        ending, self._ending = self._ending, True
        if ending:
            return
        try:
            if last is not None:
                self._run(last())
        finally:
            self._run(_cancel_others())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


async def _cancel_others() -> None:
    """Let everything that is under way end, as `asyncio.run` does."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
