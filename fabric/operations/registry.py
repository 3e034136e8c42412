# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a running fabric: the one list that control socket, command line and prompt are served from.

An operation is the method of that name of `Session`; parameters and results are the method's. Loads nothing, so that
the command line can show it before there is any fabric.
"""

from __future__ import annotations

from dataclasses import dataclass

LIMIT_S = 600.0
QUICK_S = 60.0


@dataclass(frozen=True)
class Operation:
    """`text`: for people, without a full stop. `limit_s`: how long it may take before who asked gives up; None: as long
    as it says that it goes on."""

    name: str
    text: str
    limit_s: float | None = LIMIT_S


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("provision", "write what switches and plan differ in"),
        Operation("verify", "read all tables back and prove that every pair of hosts is connected"),
        Operation("entries", "what switches hold"),
        Operation("counters", "what passed each port, and what became of packets", QUICK_S),
        Operation("watch", "live table of link use, queue, drops and marks; once with --json"),
        Operation("status", "what is up, since when, and where its switches are reached", QUICK_S),
        Operation("path", "the hops that a packet takes, from the switches' tables", QUICK_S),
        Operation("fail", "take a link or a switch down and withdraw it from all tables"),
        Operation("heal", "bring a link or switch back (default: all)"),
        # Transfers take as long as their size and their path want; they say how far they are.
        Operation("send", "send bytes, or a file, from host to host and check what arrives", None),
        Operation("probe", "queuing delay of every candidate path", QUICK_S),
        Operation("flows", "what sends now, as its receivers and the switches on its way see it", QUICK_S),
        Operation("watch_flows", "switches count every flow by itself from now on, or no more"),
        Operation("reroute", "give a flow that sends another uSID list", QUICK_S),
        Operation("place", "paths for the flows of AI jobs that share as few links as can be"),
        Operation("placement", "the placement as it is now", QUICK_S),
        Operation("metrics", "flows and ports of the fabric in Prometheus' text format", QUICK_S),
    )
}
