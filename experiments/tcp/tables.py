# SPDX-License-Identifier: Apache-2.0
"""TCP beside theory, as a table."""

from __future__ import annotations

from detour.base.tables import Table, left, right
from detour.experiments.tcp.experiment import TcpFindings, TcpRow
from detour.experiments.tcp.linux import LinuxFindings, LinuxRow

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
