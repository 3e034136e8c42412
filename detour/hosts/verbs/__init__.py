# SPDX-License-Identifier: Apache-2.0
"""Verbs: RDMA WRITE from Python, with the names of rdma-core's pyverbs.

    device = Device(hs)                                # all hosts of a process share one
    context = Context(device, host)
    pd, cq = PD(context), CQ(context)
    mr = MR(pd, 1 << 20, AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE)
    qp = QP(pd, cq)
    qp.connect(remote_endpoint, path=Path(sport=0x8001))   # remote_endpoint: the other side's qp.endpoint
    qp.post_send(SendWR(1, mr.sge(), remote_addr=addr, rkey=rkey))
    cq.poll()                                          # [WC(wr_id=1, status=WCStatus.SUCCESS, ...)]

Differences from InfiniBand: the only operation is RDMA WRITE, with or without immediate; an immediate needs no
posted receive; a QP goes from RESET to RTS in one step. A virtual address is an offset in the arena.

Methods that change state run through `Device.call`; with an engine that is `Network.call`, with a socket driver
`Driver.call`, so they may be used from any thread. Polling takes no lock: one thread polls a CQ.
"""

from detour.hosts.verbs.device import CQ, MR, PD, Context, Device, qp_numbers
from detour.hosts.verbs.qp import QP, QPInitAttr, random_candidates
from detour.hosts.verbs.types import (
    SGE,
    WC,
    AccessFlag,
    Endpoint,
    Path,
    QPState,
    SendWR,
    WCOpcode,
    WCStatus,
)

# pyright: reportUnsupportedDunderAll=false
__all__ = [
    "CQ", "MR", "PD", "QP", "SGE", "WC", "AccessFlag", "Context", "Device", "Endpoint", "Path",
    "QPInitAttr", "QPState", "SendWR", "WCOpcode", "WCStatus", "algorithms", "bulk",
    "qp_numbers", "random_candidates",
]  # fmt: skip
