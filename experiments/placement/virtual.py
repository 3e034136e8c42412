# SPDX-License-Identifier: Apache-2.0
"""One run of the rerouting experiment in virtual time: 100 Gb/s, exactly repeatable."""

from __future__ import annotations

from typing import Any

import numpy as np

from detour.base.dataplane import PAYLOAD
from detour.base.errors import DetourError
from detour.base.times import US
from detour.control.p4runtime.watching import CLASS_MEANS
from detour.control.rerouting import ReroutingController
from detour.experiments.placement.scenario import (
    NAMES,
    ONSET,
    RECEIVER,
    SENDER,
    SPINE_PATHS,
    THROTTLE,
    THROTTLED,
    TOPOLOGY,
    Footing,
    RunResult,
    bins,
)
from detour.fabric.footings.virtual.fabric import VirtualFabric
from detour.fabric.footings.virtual.scheme import STEP_MARKING, LinkSettings, RunSettings, Scheme
from detour.fabric.footings.virtual.watch import switch_flows
from detour.fabric.monitoring.windows import FLOW_FIELDS, FlowMonitor
from detour.hosts.state import set_host
from detour.hosts.verbs.verbs import CQ, MR, PD, QP, AccessFlag, Context, Path, SendWR, WCOpcode, WCStatus
from detour.topo import address, parse_topology
from detour.topo.paths import path_usids

SCHEME = Scheme("placed", "lerp", "dctcp", "shortest", STEP_MARKING)
MESSAGE_BYTES = 250_000
DEPTH = 8
"""messages under way: 160 us of work at 100 Gb/s, more than a window of the monitor"""
PUSH_PS = 10 * US
"""from the end of a window to the new uSID list at the sender: the report's way, the decision, the push"""
DRAIN_PS = 10_000 * US
_FLOW = "h1-h0"


def _ps(seconds: float) -> int:
    return round(seconds * 1e12)


class _Run:
    """A fabric with its one flow."""

    def __init__(self, how: Footing, mode: str, seconds: float) -> None:
        self.how, self.mode = how, mode
        self.end_ps = _ps(seconds)
        self.onset_ps = _ps(seconds * ONSET)
        self.topology = parse_topology(TOPOLOGY)
        settings = RunSettings(links=LinkSettings(how.rate_bps), frames=1 << 13)
        self.fabric = VirtualFabric(self.topology, SCHEME, settings, queue_pairs=1)
        for host in self.topology.hosts:
            usid = address.ipv6_text(address.locator(host.node_id))
            set_host(self.fabric.hs, host.index, address.ipv6_text(host.address), usid=usid, mac=host.mac)
        target = self.topology.hosts[RECEIVER]
        self.paths = [Path(0, path_usids(self.topology, way, target)) for way in SPINE_PATHS]
        self._connect()
        self.monitor = FlowMonitor(self.fabric.hs)
        self.monitor.add(_FLOW, self.peer.index)
        self.controller = ReroutingController(self.topology, how.thresholds)
        self.controller.add(_FLOW, SPINE_PATHS[0])
        windows = round(seconds / how.window_s) + 2
        self.switches = switch_flows(self.fabric, {_FLOW: self.qp.index}, kept=windows)
        # The NIC tells nobody when it moves, so all that it may pass watch from the beginning.
        ways = SPINE_PATHS if mode == "nic" else SPINE_PATHS[:1]
        source = self.topology.hosts[SENDER].address
        self.switches.add(_FLOW, source, dict.fromkeys(self._device(switch) for way in ways for switch in way))
        self.posted = self.completed = self.received = 0
        self.in_order = True

    def _device(self, switch: int) -> int:
        return self.topology.switches[switch].device_id

    def _connect(self) -> None:
        device = self.fabric.device
        ends = [Context(device, host) for host in (SENDER, RECEIVER)]
        domains = [PD(context) for context in ends]
        self.queues = [CQ(context) for context in ends]
        access = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE
        self.regions = [MR(domain, DEPTH * MESSAGE_BYTES, access) for domain in domains]
        self.qp, self.peer = (QP(domain, queue) for domain, queue in zip(domains, self.queues, strict=True))
        self.peer.connect(self.qp.endpoint)
        if self.mode == "nic":
            self.qp.connect(self.peer.endpoint, candidates=self.paths, react=True)
        else:
            self.qp.connect(self.peer.endpoint, path=self.paths[0])

    def feed(self, more: bool = True) -> None:
        """Takes completions, which must come in order, and keeps `DEPTH` messages under way."""
        for side, queue in enumerate(self.queues):
            while found := queue.poll(64):
                for wc in found:
                    if wc.status != WCStatus.SUCCESS:
                        raise DetourError(f"the flow failed: {wc.status.name}")
                    if wc.opcode == WCOpcode.RECV_RDMA_WITH_IMM:
                        self.in_order &= wc.imm_data == self.received and wc.byte_len == MESSAGE_BYTES
                        self.received += 1
                    else:
                        self.in_order &= side == 0 and wc.wr_id == self.completed
                        self.completed += 1
        while more and self.posted - min(self.completed, self.received) < DEPTH:
            offset = self.posted % DEPTH * MESSAGE_BYTES
            sge = self.regions[0].sge(offset, MESSAGE_BYTES)
            there = self.regions[1]
            request = SendWR(self.posted, sge, there.addr + offset, there.rkey, self.posted)
            self.qp.post_send(request, now_ps=self.fabric.now_ps)
            self.posted += 1

    def throttle(self) -> None:
        """The link loses part of its rate, in both directions."""
        link = self.topology.link(THROTTLED)
        for switch, port in (link.a, link.b):
            self.fabric.network.set_rate((self._device(switch), port), round(self.how.rate_bps * THROTTLE))

    def window(self) -> tuple[int, Path, Any] | None:
        """Ends a window of the monitor; (time of the push, new path, its switches) if the controller wants one."""
        now = self.fabric.now_ps
        self.monitor.sample(now)
        self.switches.sample()
        if self.mode != "controller":
            return None
        for way in self.controller.decide(self.monitor.reports(), now).values():
            usids = path_usids(self.topology, way, self.topology.hosts[RECEIVER])
            self.controller.moved(_FLOW, way, now)
            self.switches.move(_FLOW, [self._device(switch) for switch in way])
            return now + PUSH_PS, Path(0, usids), way
        return None

    def hops(self) -> list[dict[str, Any]]:
        """What the switches saw of the flow, in the order of its path: packets, those that they marked, the mean delay
        in their queues, and the longest mean of a window."""
        found = []
        for row in self.switches.rows(_FLOW):
            device = self.topology.switch(row["switch"]).device_id
            _, windows = self.switches.monitor.history(_FLOW, device)
            delays = np.array(row["delays"])
            mean = float(delays @ CLASS_MEANS) / max(int(delays.sum()), 1) * self.fabric.config.tick_ps
            worst = float(windows[:, FLOW_FIELDS.index("delay_ps")].max(initial=0.0))
            known = {"switch": NAMES[row["switch"]], "packets": row["packets"], "ecn_packets": row["ecn_packets"]}
            found.append({**known, "delay_s": mean / 1e12, "worst_window_delay_s": worst / 1e12})
        return found

    def column(self, name: str, receiver: bool = False) -> int:
        """A counter of the sender's QP, or of the receiver's."""
        return int(self.fabric.hs.qp[name][self.peer.index if receiver else self.qp.index])


def run(how: Footing, mode: str, seconds: float) -> RunResult:
    """Carries out a run; see `experiment`."""
    it = _Run(how, mode, seconds)
    try:
        return _measure(it)
    finally:
        it.fabric.close()


def _measure(it: _Run) -> RunResult:
    fabric, step = it.fabric, _ps(it.how.window_s)
    moves: list[int] = []
    times: list[float] = []
    counts: list[int] = []
    push: tuple[int, Path, Any] | None = None
    onset = None if it.mode == "uncongested" else it.onset_ps
    throttled, rtt_ps, seen = False, 0, 0
    it.feed()
    while fabric.now_ps < it.end_ps:
        due = [fabric.now_ps - fabric.now_ps % step + step, it.end_ps]
        due += [onset] if onset is not None and not throttled else []
        due += [push[0]] if push else []
        fabric.run(min(due))
        now = fabric.now_ps
        it.feed()
        if now == onset:
            rtt_ps, throttled = it.column("srtt"), True
            it.throttle()
        if push and now == push[0]:
            it.qp.set_path(push[1], now_ps=now)
            moves.append(now)
            push = None
        if now % step == 0:
            times.append(now / 1e12)
            counts.append(it.column("st_rx_bytes", receiver=True))
            push = it.window() or push
        if it.mode == "nic" and it.column("st_reroutes") > seen:
            seen = it.column("st_reroutes")
            moves.append(it.column("react_moved"))
    delivered = it.column("st_rx_bytes", receiver=True)
    while it.completed < it.posted and fabric.now_ps < it.end_ps + DRAIN_PS:
        fabric.run(fabric.now_ps + step)
        it.feed(more=False)
    it.switches.sample()
    ends, rates = bins(times, counts, it.how.bin_s)
    return RunResult(
        times_s=ends,
        rates_bps=rates,
        onset_s=None if onset is None else onset / 1e12,
        rerouted_s=[when / 1e12 for when in moves],
        delivered_bytes=delivered,
        sent_bytes=it.posted * MESSAGE_BYTES,
        arrived_bytes=it.column("st_rx_delivered", receiver=True),
        duplicate_bytes=it.column("st_rx_duplicates", receiver=True) * PAYLOAD,
        messages=it.received,
        in_order=it.in_order and it.received == it.posted,
        retransmitted=it.column("st_retransmitted"),
        ecn_marked=it.column("st_ecn_marked"),
        rtt_s=(rtt_ps or it.column("srtt")) / 1e12,
        switches=it.hops(),
    )
