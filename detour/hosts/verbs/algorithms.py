# SPDX-License-Identifier: Apache-2.0
"""Gives queue pairs the fields of their congestion control, path scheme and transport."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from detour.base.arrays import Int64Array
from detour.hosts import rdma
from detour.hosts.cc import algorithm
from detour.hosts.cc.built_in import CONGESTION
from detour.hosts.cc.plugin import CongestionAlgorithm
from detour.hosts.cc.plugin import entry_of as cc_entry_of
from detour.hosts.paths.built_in import PATH_SCHEMES
from detour.hosts.paths.plugin import PathScheme
from detour.hosts.paths.plugin import entry_of as path_entry_of
from detour.hosts.plugins import Bound, MakeEntry, Plugin
from detour.hosts.records import QueuePair
from detour.hosts.state import MAX_TIME, Hosts
from detour.hosts.transport.built_in import TRANSPORTS
from detour.hosts.transport.plugin import Transport
from detour.hosts.transport.plugin import entry_of as transport_entry_of

rdma.RDMA.companions = (CONGESTION, PATH_SCHEMES, TRANSPORTS)


def initial_window(hs: Hosts, chosen: CongestionAlgorithm) -> float:
    """Packets that a connection starts with. If it is rate-based, only its rate limits it, and the room for what is in
    flight."""
    cfg = hs.cfg[0]
    if chosen.rate_based:
        return float(cfg["window"])
    return float(cfg["line_rate_cwnd"] if cfg["line_rate_start"] else cfg["initial_cwnd"])


def give(hs: Hosts, rows: Int64Array, chosen: CongestionAlgorithm) -> None:
    """Rows of the table of QPs that are about to begin get their fields, all 0."""
    hs.qp["rate_based"][rows], hs.qp["cc_told"][rows] = chosen.rate_based, chosen.told and chosen.parameters is not None
    news = _give(hs, rows, chosen, "cc_row")
    for name in ("rtt", "delay", "hops"):
        news[name][...] = -1


def start(hs: Hosts, rows: Int64Array, chosen: str | CongestionAlgorithm, window: float | None) -> None:
    """Connections begin, with an algorithm and a window in packets (default: `initial_window`)."""
    control = algorithm(chosen)
    give(hs, rows, control)
    rdma.begin(hs.listing, np.ascontiguousarray(rows, np.int64), float(window or initial_window(hs, control)))


def give_paths(hs: Hosts, rows: Int64Array, chosen: PathScheme, *, begin: bool = True) -> None:
    """Candidates of rows of the table of QPs are others, among which this scheme chooses. What it has of a QP stays if
    it has chosen there before. `begin` False: it is not told yet."""
    hs.qp["sprays"][rows] = chosen.sprays
    hs.qp["watches"][rows] = chosen.watches
    hs.qp["path_timer"][rows] = MAX_TIME
    if not chosen.hooks:
        hs.qp["path_row"][rows] = 0
        return
    table = _bound(hs, chosen).table.ctypes.data
    new = rows[(hs.qp["path_row"][rows] == 0) | (state_of(hs, chosen)["table"][rows] != table)]
    if len(new):
        _give(hs, new, chosen, "path_row")
    if begin:
        rdma.new_candidates(hs.listing, np.ascontiguousarray(rows, np.int64))


def give_transport(hs: Hosts, rows: Int64Array, chosen: Transport) -> None:
    """Rows of the table of QPs that are about to begin get their transport."""
    hs.qp["selective"][rows] = chosen.selective
    _give(hs, rows, chosen, "transport_row")


_PATH_AT = QueuePair.CC_AT + QueuePair.CC_BYTES
_ROOM = {
    "cc_row": (QueuePair.CC_AT, QueuePair.CC_BYTES),
    "path_row": (_PATH_AT, QueuePair.PATH_BYTES),
    "transport_row": (_PATH_AT + QueuePair.PATH_BYTES, QueuePair.TRANSPORT_BYTES),
}
"""by field that has the address: where in a QP's row there is room, and how much"""


def _give(hs: Hosts, rows: Int64Array, chosen: Plugin, where: str) -> NDArray[Any]:
    """The QPs' rows of a plugin, all 0: in their own rows if there is room. Returns what hooks are told there."""
    bound = _bound(hs, chosen)
    first, room = _ROOM[where]
    if chosen.row.itemsize <= room:
        fields, at = _inside(hs, chosen, first), rows
        addresses = hs.qp.ctypes.data + first + hs.qp.itemsize * rows
    else:
        fields, at = np.zeros(len(rows), chosen.row), np.arange(len(rows))
        bound.kept.append(fields)
        addresses = fields.ctypes.data + fields.itemsize * at
    fields[at] = 0
    fields["table"][at] = bound.table.ctypes.data
    hs.qp[where][rows] = addresses
    return fields["packet"]


def has_room(hs: Hosts, rows: Int64Array) -> bool:
    """Return whether QPs have all that is theirs of plugins in their own rows."""
    own = hs.qp.ctypes.data + hs.qp.itemsize * rows
    given = ((hs.qp[where][rows], own + first) for where, (first, _) in _ROOM.items())
    return all(bool(((at == 0) | (at == here)).all()) for at, here in given)


def _inside(hs: Hosts, chosen: Plugin, first: int) -> NDArray[Any]:
    return np.ndarray(len(hs.qp), chosen.row, hs.qp.view(np.uint8).data, first, (hs.qp.itemsize,))


def state_of(hs: Hosts, chosen: Plugin) -> NDArray[Any]:
    """Return a view of each QP's state of a plug-in that has room in its row."""
    return _inside(hs, chosen, _ROOM["path_row" if isinstance(chosen, PathScheme) else "cc_row"][0])


_ENTRIES: dict[type[Plugin], MakeEntry] = {
    PathScheme: path_entry_of, CongestionAlgorithm: cc_entry_of, Transport: transport_entry_of
}  # fmt: skip


def _bound(hs: Hosts, plugin: Plugin) -> Bound:
    """One for all QPs of these hosts that have the same plugin; it lives as long as they do."""
    for bound in hs.plugins:
        if bound.algorithm is plugin or bound.algorithm == plugin:
            return bound
    here = plugin.on_hosts(hs.plugin_values)
    entry_of = next(entry_of for kind, entry_of in _ENTRIES.items() if isinstance(plugin, kind))
    bound = Bound(plugin, here.parameter_record(lambda name: hs.cfg[0][name]), entry_of, QueuePair.dtype)
    hs.plugins.append(bound)
    return bound
