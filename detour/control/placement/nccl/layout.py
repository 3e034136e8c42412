# SPDX-License-Identifier: Apache-2.0
"""A job that is one operation of NCCL:

    - {collective: nccl, op: all_reduce, hosts: h0-h31, bytes: 1000000, machine: {gpus: 8, nics: 8, nvlink: 3.6T}}

`bytes` are the operation's, as nccl-tests count them; hosts are the NICs, machine by machine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from detour.base.errors import DetourError
from detour.control.placement.nccl import rules
from detour.control.placement.nccl.machines import Cluster, read_machine

NCCL_KEYS = frozenset({"op", "bytes", "machine", "algorithm", "protocol"})


@dataclass(frozen=True)
class NcclJob:
    """An operation on a cluster, and how it is carried out."""

    op: str
    bytes: int
    cluster: Cluster
    choice: rules.Choice

    def pairs(self) -> Counter[tuple[int, int]]:
        """Bytes that each NIC sends to each other one, on all channels together."""
        sent: Counter[tuple[int, int]] = Counter()
        if self.choice.algorithm == "p2p":
            for sender, receiver, size in rules.peer_messages(self.op, self.bytes, self.cluster):
                if self.cluster.machine_of(sender) != self.cluster.machine_of(receiver):
                    sent[self.cluster.rail(sender, receiver)] += size
            return sent
        part = max(1, self.bytes // self.choice.channels)
        for number in range(self.choice.channels):
            for pair, share in self._neighbours(number):
                sent[pair] += self.choice.protocol.on_wire(max(1, round(part * share)))
        return sent

    def _neighbours(self, number: int) -> list[tuple[tuple[int, int], float]]:
        """Return who sends to whom on a channel, and how often its part."""
        turn, nic = divmod(number, self.cluster.machine.nics)
        hosts = [self.cluster.host(machine, nic) for machine in range(self.cluster.machines)]
        ring = list(zip(hosts, hosts[1:] + hosts[:1], strict=True))
        if self.choice.algorithm != "ring":
            parents = rules.double_trees(len(hosts))[turn % 2]
            up = [(hosts[child], hosts[parent]) for child, parent in enumerate(parents) if parent >= 0]
            return [(pair, 1.0) for a, b in up for pair in ((a, b), (b, a))]
        if self.op in ("broadcast", "reduce"):
            return [(pair, 1.0) for pair in (ring[:-1] if self.op == "broadcast" else ring[1:])]
        share = (2 if self.op == "all_reduce" else 1) * (self.cluster.ranks - 1) / self.cluster.ranks
        return [(pair, share) for pair in ring]


def nccl_job(job: dict[str, Any], hosts: int) -> NcclJob:
    """Read a job with so many hosts. Raises DetourError: it is wrong."""
    machine = job.get("machine", {})
    if not isinstance(machine, dict):
        raise DetourError(f"machine is {machine!r:.60}; expected a mapping like {{gpus: 8, nics: 8, nvlink: 3.6T}}")
    text = ",".join(f"{key}={value}" for key, value in machine.items())
    cluster = Cluster.of_hosts(hosts, read_machine(text))
    op, size = str(job.get("op", "all_reduce")), job.get("bytes", 1)
    algorithm, protocol = (str(job[key]) if key in job else None for key in ("algorithm", "protocol"))
    choice = rules.choose(op, size, cluster, algorithm, protocol)
    return NcclJob(op, size, cluster, choice)
