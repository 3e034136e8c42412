# SPDX-License-Identifier: Apache-2.0
"""A running fabric with its control plane: what the daemon serves, the demo uses and the commands ask for.

Methods return plain dictionaries, ready for JSON. They may be called from several threads at once; those that
change tables wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path as File
from typing import Any

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.control.describe import TABLE_NAMES, entity_dict
from detour.control.entries import Plan, difference
from detour.control.p4runtime.client import FabricClient, SwitchClient
from detour.control.p4runtime.keeping import Keeper
from detour.control.p4runtime.monitor import PORT_COUNTERS, REASONS, CellReader, Monitor, Sample
from detour.control.p4runtime.punt import Responder
from detour.control.p4runtime.reconcile import Written, reconcile, updates
from detour.control.p4runtime.watching import Cell
from detour.control.placement.jobs import read_jobs
from detour.control.planner import plan
from detour.control.verifier.trace import Tracer
from detour.control.verifier.verifier import verify
from detour.fabric.daemon.background import Background
from detour.fabric.footings.base import Fabric
from detour.fabric.footings.clock import PS
from detour.fabric.monitoring import metrics
from detour.fabric.monitoring.port_watch import PortWatch
from detour.fabric.monitoring.switch_flows import FabricAccess, SwitchFlows
from detour.fabric.monitoring.windows import KEPT
from detour.fabric.operations.live import WINDOW_S, LiveFlow, LiveFlows
from detour.fabric.operations.prober import probe
from detour.fabric.operations.steering import Steering
from detour.fabric.traffic.flows import Choice, Flow, Pump
from detour.fabric.traffic.streams import FileSink, FileSource, PatternSink, PatternSource
from detour.fabric.traffic.workload import probing_choice, send_once
from detour.hosts.verbs.verbs import Path
from detour.topo import Failure, Host, failure_name, parse_failure
from detour.topo.paths import parse_usid_list

_log = logging.getLogger(__name__)

SLOT_BYTES = 64_000
"""messages of `send`"""


class Session:
    """Control plane and traffic of a fabric that has been started. `connect` first; `close` also closes the fabric."""

    def __init__(self, fabric: Fabric, window_s: float = WINDOW_S, kept: int = KEPT) -> None:
        """`window_s`: of the monitors of flows, by the fabric's clock; `kept`: windows that are remembered."""
        self.fabric = fabric
        self.topology = fabric.topology
        self.policy = fabric.terms.policy
        self.pump = Pump(fabric.device, fabric.clock)
        self.live = LiveFlows(fabric.hs, fabric.clock, window_s)
        self.steering = Steering(fabric.topology, self.live, self.reroute, fabric.terms.packet_s)
        self._port_watch = PortWatch(fabric, self.sample)
        links = FabricAccess(self._read_cells, self._write_watched, self.live.set_label, fabric.clock)
        self.switch_flows = SwitchFlows(links, fabric.terms.hosts.tick_ps, window_s, kept)
        self._watching = False
        self.failures: frozenset[Failure] = frozenset()
        self.started = time.monotonic()
        self._loop = Background("control")
        self._client: FabricClient | None = None
        self._keeper: Keeper | None = None
        self._monitor: Monitor | None = None
        self._cells: CellReader | None = None
        self._responder = Responder({s.device_id: s.node_id for s in self.topology.switches})
        self._change = threading.RLock()
        self._tracer: Tracer | None = None
        self._entries = 0
        self._dice = random.Random(fabric.terms.seed)

    # -- life -------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connects to all switches and sets their pipeline.

        Raises:
            DetourError: a switch does not answer or has another controller.
        """
        client = FabricClient(self.fabric.targets(), on_packet_in=self._responder)
        self._loop.run(client.__aenter__())
        self._keeper = self._loop.run(self._keep(client))
        self._client = client
        ports = {
            s.device_id: [p for p, peer in enumerate(s.ports, 1) if peer is not None] for s in self.topology.switches
        }
        self._monitor = Monitor(client, ports, lambda: self.fabric.now_ps / PS)
        self._cells = CellReader(client)

    async def _keep(self, client: FabricClient) -> Keeper:
        async def restore(switch: SwitchClient) -> None:
            work = asyncio.ensure_future(asyncio.to_thread(self._restore, switch.target.device_id))
            try:
                await asyncio.shield(work)
            finally:  # no thread is left behind that waits for a loop which has ended
                await asyncio.gather(work, return_exceptions=True)

        return Keeper(client.switches.values(), restore)

    def _restore(self, device: int) -> None:
        """A switch is connected again, whatever it holds now: it gets what it has to hold."""
        with self._change:
            self._reconcile([device])

    def close(self) -> None:
        """Ends connections and fabric. May be called twice."""
        client, self._client = self._client, None
        keeper, self._keeper = self._keeper, None
        self.live.stop()
        self._port_watch.stop()
        self.switch_flows.stop()
        try:
            if client is not None and keeper is not None:
                self._loop.run(_disconnect(keeper, client))
        finally:
            self._loop.close()
            self.fabric.close()

    @property
    def client(self) -> FabricClient:
        """The P4Runtime client."""
        if self._client is None:
            raise DetourError("the fabric is going down")
        return self._client

    # -- tables -----------------------------------------------------------------------------------------

    def provision(self) -> dict[str, Any]:
        """Plans for the present failures and writes what differs."""
        with self._change:
            begin = time.monotonic()
            written = self._reconcile()
            return {"switches": len(self.topology.switches), "seconds": _since(begin)} | _counts(written)

    def _reconcile(self, device_ids: Collection[int] | None = None) -> Written:
        """Brings all switches (or those named) to the plan for the present failures."""
        wanted = plan(self.topology, self.policy, self.failures)
        for device, entries in self.switch_flows.plan().items():
            if device in wanted:
                wanted[device] += entries
        if device_ids is not None:
            wanted = {device: entries for device, entries in wanted.items() if device in device_ids}
        written = self._loop.run(reconcile(self.client, wanted))
        if device_ids is None:
            self._entries = written.entries
        self._tracer = None
        for switch in self.client.switches.values():
            switch.forgive()
        return written

    def _read(self, device_ids: list[int] | None = None) -> Plan:
        return self._loop.run(self.client.read(device_ids))

    def _live(self) -> list[int]:
        down = {failure.index for failure in self.failures if failure.kind == "switch"}
        return [switch.device_id for switch in self.topology.switches if switch.index not in down]

    def verify(self) -> dict[str, Any]:
        """Reads all tables back and proves that every pair of hosts is connected by them."""
        begin = time.monotonic()
        with self._change:
            held = self._read(self._live())
        report = verify(held, self.topology, self.failures)
        return {
            "verified": report.ok,
            "pairs": report.pairs,
            "disconnected": report.disconnected,
            "proofs": report.proofs,
            "ways": report.ways,
            "sids": report.sids,
            "failed": report.failed,
            "problems": report.problems,
            "longest": report.longest._asdict(),
            "bound": report.bound._asdict(),
            "seconds": _since(begin),
        }

    def entries(self, switch: str | None = None, table: str | None = None) -> dict[str, Any]:
        """What switches hold, by name."""
        if table is not None and table not in TABLE_NAMES and table not in TABLE_NAMES.values():
            raise DetourError(f"there is no table {table!r}; allowed: {', '.join(TABLE_NAMES)}")
        chosen = self.topology.switches if switch is None else (self.topology.switch(switch),)
        held = self._read([s.device_id for s in chosen])
        wanted = None if table is None else TABLE_NAMES.get(table, table)
        records = {s.name: [entity_dict(entity) for entity in held[s.device_id]] for s in chosen}
        return {name: [r for r in rows if wanted in (None, r["table"])] for name, rows in records.items()}

    # -- what is going on -------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What runs, since when, and where."""
        targets, addresses = self.fabric.targets(), self.fabric.addresses()
        return {
            "target": self.fabric.target,
            "topology": self.topology.spec,
            "switches": len(self.topology.switches),
            "hosts": len(self.topology.hosts),
            "links": len(self.topology.links),
            "entries": self._entries,
            "lost": {} if self._keeper is None else dict(sorted(self._keeper.lost.items())),
            "failures": [failure_name(self.topology, f) for f in sorted(self.failures)],
            "rate_mbps": self.fabric.terms.rate_bps / 1e6,
            "seconds_up": round(time.monotonic() - self.started, 1),
            "endpoints": {t.name: {"address": addresses[t.name], "device_id": t.device_id} for t in targets},
            "displaced": self._displaced(),
            "icmp_answered": self._responder.answered,
        } | self.fabric.details()

    def _displaced(self) -> dict[str, Any]:
        """Switches that another controller has taken over since they were provisioned. Election ids are text: they have
        128 bits."""
        clients = self._client.switches.values() if self._client is not None else ()
        return {
            client.name: {
                "election_id": str(found.election_id),
                "seconds_ago": _since(found.since),
                "primary_again": client.is_primary,
            }
            for client in clients
            if (found := client.displaced) is not None
        }

    def sample(self) -> Sample:
        """All counters now."""
        if self._monitor is None:
            raise DetourError("the fabric is going down")
        return self._loop.run(self._monitor.sample())

    def counters(self, switch: str | None = None) -> dict[str, Any]:
        """Counters of the ports and verdicts of switches, by name."""
        chosen = self.topology.switches if switch is None else (self.topology.switch(switch),)
        sample = self.sample()
        result: dict[str, Any] = {}
        for s in chosen:
            ports = {}
            for port, peer in enumerate(s.ports, 1):
                if peer is None:
                    continue
                counts = {name: sample.port(s.device_id, port, name) for name in PORT_COUNTERS}
                ports[str(port)] = {
                    f"{name}_{unit}": getattr(count, unit)
                    for name, count in counts.items()
                    for unit in ("packets", "bytes")
                }
            verdicts = {name: sample.reason(s.device_id, i).packets for i, name in enumerate(REASONS)}
            result[s.name] = {"ports": ports, "verdicts": {name: n for name, n in verdicts.items() if n}}
        return result

    def watch(self, seconds: float = 1.0, cancelled: threading.Event | None = None) -> dict[str, Any]:
        """Use, queue, drops and marks of every link's two directions over the next `seconds`."""
        before, states_before = self.sample(), self.fabric.ports()
        self.fabric.clock.wait_seconds(seconds, cancelled)
        change, states = self.sample().since(before), self.fabric.ports()
        rows = []
        for link in self.topology.links:
            for device, port in self.fabric.link_ends(link.index):
                state, old = states[device, port], states_before[device, port]
                drops = None if state.drops is None or old.drops is None else state.drops - old.drops
                rate = change.rate_bps(device, port)
                rows.append(
                    {
                        "link": link.name,
                        "from": f"s{device - 1}:{port}",
                        "kind": link.kind,
                        "up": state.up,
                        "mbps": rate / 1e6,
                        "use": rate / self.fabric.terms.rate_bps,
                        "queue_packets": state.queue_packets,
                        "drops": drops,
                        "marks": change.port(device, port, "marked").packets,
                    }
                )
        dropped = sum(change.dropped(switch.device_id) for switch in self.topology.switches)
        return {"seconds": change.seconds, "links": rows, "pipeline_drops": dropped}

    # -- paths ------------------------------------------------------------------------------------------

    def _trace(self) -> Tracer:
        with self._change:
            if self._tracer is None:
                self._tracer = Tracer(self._read(self._live()), self.topology, self.failures)
            return self._tracer

    def _ends(self, source: str, target: str) -> tuple[Host, Host]:
        ends = self.topology.host(source), self.topology.host(target)
        if ends[0] == ends[1]:
            raise DetourError(f"source and destination are both {source}; they must differ")
        return ends

    def _path(self, target: Host, sport: int | None, usid: str | None) -> Path:
        """What the options mean; a list that does not end at the destination host is completed."""
        if usid is None:
            return Path(sport or 0)
        usids = parse_usid_list(self.topology, usid)
        if usids[-1] != target.node_id:
            # A host's uSID is known at its own switch only.
            last = self.topology.switches[target.switch].node_id
            usids = (*usids, target.node_id) if usids[-1] == last else (*usids, last, target.node_id)
        return Path(sport or 0, usids)

    def path(self, source: str, target: str, sport: int | None = None, usid: str | None = None) -> dict[str, Any]:
        """The hops of a packet, from the switches' own tables."""
        a, b = self._ends(source, target)
        way = self._path(b, sport, usid)
        found = self._trace().trace(a, b, way.sport, way.usids or None)
        hops = [
            {"switch": f"s{hop.switch}", "in_port": hop.in_port, "out_port": hop.out_port, "why": hop.why}
            for hop in found.hops
        ]
        return {"path": str(way), "delivered": found.delivered, "outcome": found.outcome, "hops": hops}

    def hops(self, source: Host, target: Host, path: Path) -> tuple[int, ...]:
        """Switches that packets on a path pass, from the switches' own tables."""
        return self._trace().trace(source, target, path.sport, path.usids or None).switches

    def _hop_names(self, source: Host, target: Host, path: Path) -> list[str]:
        return [f"s{switch}" for switch in self.hops(source, target, path)]

    @property
    def entry_count(self) -> int:
        """Entities on all switches."""
        return self._entries

    # -- failures ---------------------------------------------------------------------------------------

    def fail(self, name: str) -> dict[str, Any]:
        """Takes a link or a switch down and withdraws it from all tables."""
        with self._change:
            failure = parse_failure(self.topology, name)
            if failure in self.failures:
                raise DetourError(f"{failure_name(self.topology, failure)} is down already")
            return self._change_failures(self.failures | {failure}, failure_name(self.topology, failure))

    def heal(self, name: str | None = None) -> dict[str, Any]:
        """Brings a link or switch, or all of them, back."""
        with self._change:
            if name is None:
                names = [failure_name(self.topology, f) for f in sorted(self.failures)]
                return self._change_failures(frozenset(), ", ".join(names))
            failure = parse_failure(self.topology, name)
            if failure not in self.failures:
                raise DetourError(f"{failure_name(self.topology, failure)} is not down")
            return self._change_failures(self.failures - {failure}, failure_name(self.topology, failure))

    def _change_failures(self, failures: frozenset[Failure], changed: str) -> dict[str, Any]:
        begin = time.monotonic()
        healing = failures < self.failures
        self.failures = failures
        # What is dead goes down first, as in life; what comes back is up before anybody sends there.
        self.fabric.apply_failures(failures)
        # Senders that choose their path by themselves can leave dead links before the tables know of them.
        repaired = None if healing else self.steering.repair(failures)
        written = self._reconcile()
        repaired = self.steering.repair(failures) if healing else repaired
        for live in self.live.all():
            self._follow(live)
        names = [failure_name(self.topology, f) for f in sorted(failures)]
        key = "healed" if healing else "failed"
        result = {key: changed, "failures": names, "seconds": _since(begin)} | _counts(written)
        return result | ({"placement": repaired} if repaired else {})

    # -- traffic ----------------------------------------------------------------------------------------

    def send(
        self,
        source: str,
        target: str,
        length: int = 1_000_000,
        file: str | None = None,
        store: str | None = None,
        sport: int | None = None,
        usid: str | None = None,
        tell: Progress = silent,
        cancelled: threading.Event | None = None,
    ) -> dict[str, Any]:
        """Sends a message, or a file, and checks what arrives: on the path that is given, or that the placement has for
        these hosts, or on one of several that are probed.

        Raises:
            DetourError: no such host, path or file, the connection fails, or `cancelled` is set.
        """
        a, b = self._ends(source, target)
        if length < 1:
            raise DetourError(f"{length} bytes cannot be sent; at least 1")
        placed = self.steering.next_path(a.index, b.index) if sport is None and usid is None else None
        if placed is not None:
            choice = Choice((placed[1],))
        elif sport is None and usid is None:
            choice = probing_choice(self.topology, a, b, self._dice)
        else:
            choice = Choice((self._path(b, sport, usid),))
        seed = self._dice.randrange(1 << 63)
        if file is None:
            stream = PatternSource(seed, length), PatternSink(seed)
        else:
            stream = FileSource(File(file)), FileSink(File(file), None if store is None else File(store))
            length = stream[0].length
        flow = self.pump.open(a.index, b.index, choice, stream, slot_bytes=SLOT_BYTES)
        name = self.live.open(flow, placed[0] if placed else None)
        self.steering.opened(name, placed[0] if placed else None)
        try:
            if self._watching:
                self._watch_flow(self.live.find(name))
            cancelled = cancelled or threading.Event()
            seconds = send_once(self.pump, flow, cancelled, _teller(tell, length))
            if flow.failure:
                raise DetourError(f"{source} to {target}: {flow.failure}")
            if cancelled.is_set():
                raise DetourError(f"{source} to {target}: cancelled after {flow.bytes_ok} bytes")
            return self._send_result(a, b, seconds, flow)
        finally:
            self.steering.closed(name)
            self._unwatch(name)
            self.live.close(name)
            self.pump.close_flow(flow)

    def _send_result(self, a: Host, b: Host, seconds: float, flow: Flow) -> dict[str, Any]:
        stats = flow.stats()
        paths = [
            {"path": str(path), "packets": packets, "switches": self._hop_names(a, b, path)}
            for path, packets in flow.packets_by_path().items()
        ]
        return {
            "bytes_ok": flow.bytes_ok,
            "throughput_mbps": flow.bytes_ok * 8 / seconds / 1e6,
            "paths": paths,
            "retransmitted": stats["retransmitted"],
            "ecn_marked": stats["ecn_marked"],
            "queuing_delay_ns": stats["queuing_delay_ns"] or {"min": None, "mean": None, "max": None},
        }

    def place(self, jobs: str, reroute: bool = False, watch: bool = False) -> dict[str, Any]:
        """Places the flows of a job file; connections between their hosts take these paths from now on. `reroute`: the
        controller moves them when they are congested; `watch`: switches watch them (`watch_flows`).

        Raises:
            DetourError: the file is wrong or the flows cannot be placed; what was placed before stays.
        """
        with self._change:
            begin = time.monotonic()
            report = self.steering.apply(read_jobs(File(jobs), self.topology), self.failures)
            self.steering.reroute(reroute)
            if watch:
                self.watch_flows(True)
        return report | {"topology": self.topology.spec, "rerouting": reroute, "seconds": _since(begin)}

    def placement(self) -> dict[str, Any]:
        """The placement as it is now."""
        return self.steering.report()

    def metrics(self) -> dict[str, Any]:
        """Flows, ports, verdicts and placement as metrics (`fabric.metrics`)."""
        windows = self._port_watch.last()
        ports = metrics.port_rows(self.topology, windows, self.sample(), self.fabric.ports())
        found = metrics.flow_metrics(self.live.rows()) + metrics.port_metrics(ports)
        found += metrics.switch_flow_metrics(self.flows()["flows"], self.switch_flows.tick_ps)
        found.append(metrics.verdict_metric(self.topology, self.sample()))
        return {"metrics": found + metrics.placement_metrics(self.steering.report())}

    def flows(self) -> dict[str, Any]:
        """What sends now, as its receivers, and if asked the switches on the way, saw it in the last window."""
        rows = [row | {"switches": self.switch_flows.rows(row["name"])} for row in self.live.rows()]
        watching = {"watching": self._watching, "switch_window_s": self.switch_flows.pause_s}
        return {"window_s": self.live.window_s, **watching, "flows": rows}

    def watch_flows(self, on: bool) -> dict[str, Any]:
        """Switches watch the flows that send, and those that will, or no flow any more."""
        with self._change:
            self._watching = on
            for live in self.live.all():
                if on:
                    self._watch_flow(live)
                else:
                    self._unwatch(live.name)
        return self.flows()

    def _watch_flow(self, live: LiveFlow) -> None:
        """Lets all switches watch a flow that it can pass. Without room for it, it sends unwatched."""
        with self._change:
            source = self.topology.hosts[live.flow.source_host]
            if live.name not in self.switch_flows:
                try:
                    self.switch_flows.add(live.name, source.address, self._devices(live))
                except DetourError as error:
                    _log.warning("%s is not watched: %s", live.name, error)

    def _unwatch(self, name: str) -> None:
        with self._change:
            try:
                self.switch_flows.remove(name)
            except DetourError as error:
                _log.warning("%s: %s", name, error)

    def _follow(self, live: LiveFlow) -> None:
        """A flow may have got another path: if it is watched, then there."""
        with self._change:
            if live.name in self.switch_flows:
                try:
                    self.switch_flows.move(live.name, self._devices(live))
                except DetourError as error:
                    _log.warning("%s is watched no longer: %s", live.name, error)

    def _devices(self, live: LiveFlow) -> list[int]:
        """The switches that a flow can pass, in order of its paths."""
        ends = (self.topology.hosts[host] for host in (live.flow.source_host, live.flow.target_host))
        source, target = ends
        passed = (switch for path in live.flow.paths for switch in self.hops(source, target, path))
        return list(dict.fromkeys(self.topology.switches[switch].device_id for switch in passed))

    def _read_cells(self, cells: Mapping[int, Sequence[Cell]]) -> Mapping[int, Sequence[tuple[int, int]]]:
        if self._cells is None:
            raise DetourError("the fabric is going down")
        return self._loop.run(self._cells.read(cells))

    def _write_watched(self, before: Plan, after: Plan) -> None:
        async def write(switch: SwitchClient) -> None:
            device = switch.target.device_id
            change = difference(before.get(device, []), after.get(device, []))
            await switch.write(updates(switch.codec, change))

        down = {failure.index for failure in self.failures if failure.kind == "switch"}
        dead = {switch.device_id for switch in self.topology.switches if switch.index in down}
        self._loop.run(self.client.each(write, sorted((before.keys() | after.keys()) - dead)))

    def reroute(self, flow: str, usid: str) -> dict[str, Any]:
        """The sender of a flow takes another uSID list, if that leads to its destination.

        Raises:
            DetourError: no such flow or list, or packets with it would not arrive; the flow stays as it is.
        """
        live = self.live.find(flow).flow
        a, b = self.topology.hosts[live.source_host], self.topology.hosts[live.target_host]
        way = self._path(b, None, usid)
        found = self._trace().trace(a, b, way.sport, way.usids)
        if not found.delivered:
            raise DetourError(f"flow {flow} stays: {way} {found.outcome}")
        self.live.reroute(flow, way)
        self.steering.rerouted(flow, found.switches)
        self._follow(self.live.find(flow))
        return {"flow": flow, "path": str(way), "switches": [f"s{switch}" for switch in found.switches]}

    def probe(self, source: str, target: str) -> dict[str, Any]:
        """Probes all candidate paths between two hosts and reports their queuing delays."""
        a, b = self._ends(source, target)
        choice = probing_choice(self.topology, a, b, self._dice)
        found = probe(self.fabric, a.index, b.index, choice.paths)
        tick_ns = self.fabric.terms.hosts.tick_ps // 1000
        rows = [
            {
                "path": str(path),
                "delay_ns": None if delay is None else delay * tick_ns,
                "switches": self._hop_names(a, b, path),
            }
            for path, delay in zip(choice.paths, found, strict=True)
        ]
        return {"source": source, "target": target, "paths": rows}


async def _disconnect(keeper: Keeper, client: FabricClient) -> None:
    """Both at once: what still restores a switch ends when its connection does."""
    await asyncio.gather(keeper.close(), client.close())


def _teller(tell: Progress, total: int) -> Callable[[int], None]:
    return lambda arrived: tell(f"{arrived} of {total} bytes")


def _counts(written: Written) -> dict[str, Any]:
    return {"entries": written.entries} | written.as_dict()


def _since(begin: float) -> float:
    return round(time.monotonic() - begin, 3)
