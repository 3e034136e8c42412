# SPDX-License-Identifier: Apache-2.0
"""Steady phases of flows are skipped (docs/fast-forward.md).

    skipper = Skipper(fabric, run.connections, 0.02)
    skipper.run(until_ps)  # in place of fabric.run

Busy connections whose data share a link are a *partition*. When its rates and what it has in flight are steady
(`steadiness`) it is suspended: its frames leave the network, its senders stand still, and everybody else goes on. It
comes back before a message of it would end, or at the next look after another connection begins to send over its links.
Then each sender has sent as many packets as its rate (`shares`) says, and everything else is as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.errors import DetourError
from detour.engine.suspension import Places
from detour.fabric.backends.virtual.fabric import VirtualFabric
from detour.fabric.backends.virtual.scheme import Scheme
from detour.fabric.fast.execution import Execution
from detour.fabric.fast.flow_paths import FlowPath, FlowPaths
from detour.fabric.fast.partitions import Partition, Partitions, Suspended
from detour.fabric.fast.shares import Shares
from detour.fabric.fast.steadiness import HALF, KEPT, SUMS, steady_partitions
from detour.fabric.traffic.placed_tasks import PlacedTasks
from detour.hosts import suspension
from detour.hosts.frames.sizes import AETH, BTH, DATA_OVERHEAD, ETHERNET, ICRC, IPV6, SACK, UDP
from detour.hosts.records import ControlMessage
from detour.hosts.state import FIRST_QPN, MAX_TIME
from detour.topo import Topology

LOOK_PS = 8_000_000
"""time between two looks"""
_GUARD = 32
"""packets that a message has left at least after a jump, beside as many as are in flight"""
_WORTH = 6
"""looks that a jump is long at least"""
_ATTEMPTS = 3
_ANSWERS = 4096
_ACK_BYTES = ETHERNET + IPV6 + UDP + BTH + AETH + SACK + ICRC


def check_skippable(topology: Topology, scheme: Scheme) -> None:
    """Raises `DetourError`: under the scheme, or in the topology, packets of a connection take paths that are not known
    beforehand, or senders and switches remember what jumps do not move."""
    reasons = (
        (scheme.paths not in ("shortest", "pinned"), "connections that stay on a path, as in LERP-shortest"),
        (scheme.transport != "lerp", "the transport LERP"),
        (scheme.control not in ("dctcp", "fixed"), "the congestion control dctcp or fixed"),
        (scheme.pfc or scheme.trims, "switches that drop what they have no room for"),
        (scheme.routing not in ("valiant", "minimal"), "the routing valiant or minimal"),
    )
    wanted = next((text for wrong, text in reasons if wrong), None)
    if wanted is not None:
        raise DetourError(f"steady phases are skipped with {wanted}; scheme {scheme.name} is another one")
    if topology.planes > 1:
        raise DetourError(f"steady phases are skipped where hosts have one port; {topology.spec} has planes")


class Skipper(Execution):
    """Runs a fabric and skips what is steady."""

    def __init__(
        self, fabric: VirtualFabric, ends: Int64Array, error: float, placed: PlacedTasks | None = None
    ) -> None:
        """`ends`: (connections, 2) hosts of the fabric's. `error`: by how much rates may differ
        between two halves of a look back, as a fraction. `placed`: who gives connections their paths, if anybody does.
        Raises `DetourError`: connections share queue pairs."""
        if fabric.hs.cfg[0]["leased"]:
            raise DetourError(f"steady phases are not skipped of {fabric.count} connections, which share queue pairs")
        super().__init__(fabric)
        self._error, self._placed = error, placed
        self._paths = FlowPaths(fabric, ends)
        flows, hs = fabric.flows, fabric.hs
        self._senders, self._receivers = (np.ascontiguousarray(rows) for rows in (flows.sender, flows.receiver))
        self._source, self._target = (np.ascontiguousarray(side) for side in ends.T)
        count = len(flows)
        self._una, self._flying, self._trouble = np.zeros((3, KEPT, count), np.int64)
        self._busy, self._changed, self._found = np.zeros((3, count), np.int64)
        self._sums = np.zeros((count, SUMS), np.int64)
        self._marks = np.zeros(len(hs.qp), np.uint8)
        self._partitions = Partitions(count, self._path)
        self._mask = int(hs.cfg[0]["qpn_mask"])
        self._wire = int(hs.cfg[0]["payload"]) + DATA_OVERHEAD
        self._shares = Shares(self._una, LOOK_PS, self._wire + fabric.settings.links.overhead_bytes, error)
        self._look, self._next_ps = 0, 0
        self._rates = fabric.network.link_rates()
        self._loads = np.zeros(len(self._rates))
        """of answers that are not sent, as their flows are suspended, bits a second"""

    # -- running ----------------------------------------------------------------------------------------

    @property
    def skips(self) -> bool:
        return bool(self._partitions.asleep)

    def run(self, until_ps: int) -> None:
        fabric = self._fabric
        while fabric.now_ps < until_ps:
            fabric.run(min(until_ps, max(self._next_ps, fabric.now_ps)))
            if fabric.now_ps >= self._next_ps:
                self._act()

    def wake_all(self) -> None:
        for part in list(self._partitions.asleep):
            self._wake(part)

    def change(self) -> None:
        self._paths.forget()
        self._rates = self._fabric.network.link_rates()
        self._partitions.renew(self._look)

    def count(self) -> None:
        self._count(self._partitions.asleep)

    def _act(self) -> None:
        """Looks what has changed, ends jumps whose time has come and begins others."""
        now, partitions = self._fabric.now_ps, self._partitions
        row = self._look % KEPT
        changes = suspension.look(
            self._fabric.hs.listing, self._senders, self._una[row], self._flying[row], self._trouble[row],
            self._busy, self._changed,
        )  # fmt: skip
        for part in [one for one in partitions.asleep if one.suspended and one.suspended.until_ps <= now]:
            self._wake(part)
        for flow in self._changed[:changes].tolist():
            if self._busy[flow]:
                for part in partitions.touched(flow):
                    if part.suspended is not None:
                        self._wake(part)
                partitions.begin(flow, self._look)
            else:
                partitions.end(flow, self._look)
        for part in self._steady():
            self._try(part)
        self._look += 1
        self._next_ps = self._after(now)

    def _after(self, now: int) -> int:
        """When to look next: at a multiple of the time between looks."""
        if self._partitions.awake:
            return now + LOOK_PS
        due = min((one.suspended.until_ps for one in self._partitions.asleep if one.suspended), default=MAX_TIME // 2)
        due = min(due, int(self._fabric.hs.host["events_when"].min()))
        return max(now + LOOK_PS, -(-due // LOOK_PS) * LOOK_PS)

    def _path(self, flow: int) -> FlowPath | None:
        return self._paths.path(flow, None if self._placed is None else self._placed.placement)

    def _steady(self) -> list[Partition]:
        """Partitions that have not changed from one half of the time looked back on to the other."""
        partitions = self._partitions
        count = steady_partitions(
            self._una, self._flying, self._trouble, partitions.member, partitions.since[: partitions.most], self._look,
            self._error, self._sums[: partitions.most], self._found,
        )  # fmt: skip
        return [partitions.awake[number] for number in self._found[:count].tolist()]

    # -- jumps ------------------------------------------------------------------------------------------

    def _try(self, part: Partition) -> None:
        """Suspends a partition, if that is worth it."""
        if not part.paths or part.refused >= _ATTEMPTS:
            return
        found = self._shares.of(part, self._look, self._rates - self._loads)
        if found is None:
            return
        rates, most_ps = found
        left = np.zeros(len(part.flows), np.int64)
        suspension.unsent(self._fabric.hs.listing, self._senders[part.flows], left)
        spare = left - self._flying[self._look % KEPT, part.flows] - _GUARD
        jump_ps = int(min((spare / rates).min(), most_ps or MAX_TIME)) // LOOK_PS * LOOK_PS
        if jump_ps >= _WORTH * LOOK_PS:
            self._suspend(part, rates, jump_ps)
        else:
            self._partitions.since[part.number] += HALF

    def _suspend(self, part: Partition, rates: np.ndarray, jump_ps: int) -> None:
        fabric, now, flows = self._fabric, self._fabric.now_ps, np.array(part.flows)
        places = Places(*(np.unique(np.concatenate([getattr(path.places, name) for path in part.paths]))
                          for name in ("links", "ports", "nics")))  # fmt: skip
        senders, receivers = self._senders[flows], self._receivers[flows]
        extra = self._extra(receivers)
        self._marks[senders] = self._marks[receivers] = 1
        frames = fabric.network.take_frames(places, self._marks, FIRST_QPN, self._mask)
        windows, answers = np.zeros(len(flows)), np.zeros(_ANSWERS, ControlMessage.dtype)
        count = suspension.suspend(
            fabric.hs.listing, senders, windows, self._marks.ctypes.data, np.unique(self._target[flows]),
            answers.ctypes.data, len(answers),
        )  # fmt: skip
        self._marks[senders] = self._marks[receivers] = 0
        answers = answers[:count].copy()
        owners = fabric.hs.qp["host"][answers["qp"]].astype(np.int64)
        part.suspended = Suspended(
            now, now + jump_ps, rates, extra, windows, frames, answers, owners, np.zeros(len(flows), np.int64)
        )
        part.noted = None
        self._partitions.leave(part)
        self._partitions.asleep.append(part)
        self._load(part, 1)
        # Each packet in flight is one frame, or one answer. If it is not, the paths are others than they seem to be.
        if len(frames.frames) + count != int(fabric.hs.qp["inflight"][senders].sum()):
            part.refused += 1
            self._wake(part)

    def _extra(self, receivers: Int64Array) -> np.ndarray:
        """Marks, delay and samples of delays a packet so far."""
        rows = self._fabric.hs.qp[receivers]
        names = ("st_rx_ecn_marked", "st_rx_delay_sum", "st_rx_delay_samples")
        return np.stack([rows[name] / np.maximum(rows["st_rx_packets"], 1) for name in names], axis=1)

    def _load(self, part: Partition, sign: int) -> None:
        """Links carry the answers of what is suspended all the same: they have so much less for others."""
        assert part.suspended is not None
        links, lengths = part.links("answers")
        np.add.at(self._loads, links, np.repeat(part.suspended.rates, lengths) * (sign * _ACK_BYTES * 8e12))
        links = np.unique(links)
        self._fabric.network.set_link_rates(links, np.rint(self._rates[links] - self._loads[links]).astype(np.int64))

    def _wake(self, part: Partition) -> None:
        """A partition goes on, having sent what it would have."""
        at, fabric, flows = part.suspended, self._fabric, np.array(part.flows)
        assert at is not None
        self._load(part, -1)
        self._count([part])
        elapsed_ps, gained = fabric.now_ps - at.at_ps, np.empty((len(flows), 4), np.int64)
        gained[:, 0] = at.gained(fabric.now_ps)
        gained[:, 1:] = at.extra * gained[:, :1]
        fabric.network.put_frames(at.frames, elapsed_ps)
        suspension.resume(
            fabric.hs.listing, self._senders[flows], self._receivers[flows], at.windows, gained, elapsed_ps,
            at.answers.ctypes.data, at.owners,
        )  # fmt: skip
        for host in np.union1d(self._source[flows], at.owners).tolist():
            fabric.network.kick_host(host)
        self.skipped += int(gained[:, 0].sum())
        part.suspended = None
        self._partitions.asleep.remove(part)
        self._partitions.enter(part, self._look)

    def _count(self, parts: Sequence[Partition]) -> None:
        """Links count what the connections of partitions have sent since they last did."""
        news, now = [], self._fabric.now_ps
        for part in parts:
            assert part.suspended is not None
            gained = part.suspended.gained(now)
            news.append(gained - part.suspended.counted)
            part.suspended.counted[:] = gained
        for which, size in (("data", self._wire), ("answers", _ACK_BYTES)) if news else ():
            links, lengths = zip(*(part.links(which) for part in parts), strict=True)
            packets = np.repeat(np.concatenate(news), np.concatenate(lengths))
            self._fabric.network.credit_frames(np.concatenate(links), packets, size)
