# SPDX-License-Identifier: Apache-2.0
"""TCP beside theory, beside Linux and beside ns-3, as tables."""

from __future__ import annotations

from detour.base.tables import Table, fixed, left, right
from detour.experiments.tcp.experiment import TcpFindings, TcpRow
from detour.experiments.tcp.linux import LinuxFindings, LinuxRow
from detour.experiments.tcp.ns3 import Ns3Findings, Ns3Row

_KINDS = {"loss": "random losses", "share": "sharing a cable", "queue": "queue of DCTCP"}


def table(found: TcpFindings) -> Table[TcpRow]:
    """All rows."""
    columns = [
        left("of", lambda row: _KINDS[row.kind]),
        left("control", lambda row: row.cc),
        right("loss", lambda row: f"{100 * row.loss:g} %" if row.loss else None),
        right("RTT, ms", lambda row: f"{row.rtt_ms:g}"),
        right("flows", lambda row: row.flows),
        left("what", lambda row: row.what),
        right("measured", lambda row: f"{row.measured:,.4g}"),
        right("theory", lambda row: f"{row.theory:,.4g}"),
        left("unit", lambda row: row.unit),
        right("differs by", lambda row: f"{100 * row.error:+.1f} %"),
    ]
    return Table(columns, found.rows, "TCP of the IP hosts and theory")


def linux_table(found: LinuxFindings) -> Table[LinuxRow]:
    """Both beside each other."""
    columns = [
        right("loss", lambda row: f"{100 * row.loss:g} %"),
        right("RTT, ms", lambda row: f"{row.rtt_ms:g}"),
        right("flows", lambda row: row.replicas, means="of each kind, at the same time"),
        right("Linux, Mb/s", lambda row: f"{row.linux:.3f}"),
        right("+-", lambda row: f"{row.linux_error:.3f}", means="standard error of the mean"),
        right("ours, Mb/s", lambda row: f"{row.ours:.3f}"),
        right("+-", lambda row: f"{row.ours_error:.3f}"),
        right("differs by", lambda row: f"{100 * row.difference:+.1f} %"),
    ]
    title = f"TCP of the IP hosts and Linux: {found.rows[0].cc}, {found.seconds:g} s on {found.rate_bps / 1e6:g} Mb/s"
    if found.lag_ms > 0:
        title += f" (the machine was too slow: times are {found.lag_ms:.0f} ms wrong)"
    return Table(columns, found.rows, title)


def ns3_table(found: Ns3Findings) -> Table[Ns3Row]:
    """Both beside each other: ns-3's value, then ours."""
    columns = [
        left("road", lambda row: row.road, means="short and marking: 10 Mb/s, 20 ms; long: 50 Mb/s, 100 ms"),
        left("control", lambda row: row.cc),
        left("ns-3's", lambda row: row.control),
        right("goodput, Mb/s", lambda row: f"{row.ns3_goodput:.3f}"),
        right("ours", lambda row: f"{row.goodput:.3f}"),
        right("highest", lambda row: f"{row.ns3.highest:.1f}", means="window in segments, mean of the tops"),
        right("ours", lambda row: f"{row.ours.highest:.1f}"),
        right("lowest", lambda row: f"{row.ns3.lowest:.1f}", means="mean of the bottoms"),
        right("ours", lambda row: f"{row.ours.lowest:.1f}"),
        right("mean", lambda row: f"{row.ns3.mean:.1f}"),
        right("ours", lambda row: f"{row.ours.mean:.1f}"),
        right("period, s", lambda row: fixed(row.ns3.period, 2), means="from top to top"),
        right("ours", lambda row: fixed(row.ours.period, 2)),
    ]
    how = "both run here" if all(row.measured for row in found.rows) else "ns-3's curves are stored ones"
    return Table(columns, found.rows, f"TCP of the IP hosts and ns-3 ({how})")
