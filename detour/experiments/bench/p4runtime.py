# SPDX-License-Identifier: Apache-2.0
"""`detour bench p4runtime`: entries a second that a switch process takes, changes, gives back and deletes over gRPC.

The process is bound to one core, so what counts is the server's work; the client makes its messages before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from finsy.proto import p4i, p4r

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control.p4runtime.codec import to_bytes
from detour.control.p4runtime.pipeline import read_p4info
from detour.experiments.bench.client import Client
from detour.experiments.bench.processes import Switches
from detour.experiments.bench.report import BenchReport, Goal, report_of_rows
from detour.experiments.bench.tables import PORTS, BenchEntry, random_entries, table_name
from detour.experiments.columns import row, shown

GOAL = 20_000.0
ENTRIES = 100_000
BATCH = 2_000
_DEVICE = 1


@row
class WriteRate:
    """Entries a second of one kind of table."""

    kind: str = shown("table")
    entries: int = shown("entries", ",")
    insert_per_s: float = shown("inserted/s", ",.0f")
    modify_per_s: float = shown("modified/s", ",.0f")
    read_per_s: float = shown("read/s", ",.0f")
    delete_per_s: float = shown("deleted/s", ",.0f")


def _updates(info: p4i.P4Info, kind: str, entries: list[BenchEntry]) -> list[p4r.TableEntry]:
    table = next(table for table in info.tables if table.preamble.name == table_name(kind))
    forward = next(action for action in info.actions if action.preamble.name == "BenchIngress.forward")
    messages = []
    for (value,), priority in entries:
        message = p4r.TableEntry(table_id=table.preamble.id, priority=priority)
        match = message.match.add(field_id=table.match_fields[0].id)
        if kind == "exact":
            match.exact.value = to_bytes(value)
        elif kind == "lpm":
            match.lpm.value, match.lpm.prefix_len = to_bytes(value[0]), value[1]
        else:
            match.ternary.value, match.ternary.mask = to_bytes(value[0]), to_bytes(value[1])
        message.action.action.action_id = forward.preamble.id
        message.action.action.params.add(param_id=1, value=b"\x08")
        messages.append(message)
    return messages


def timed(work: Callable[[], object]) -> float:
    """Seconds that something takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _measure(client: Client, info: p4i.P4Info, kind: str, count: int, batch: int) -> WriteRate:
    messages = _updates(info, kind, list(random_entries(kind, count).values()))

    def seconds(what: p4r.Update.Type.ValueType) -> float:
        updates = [p4r.Update(type=what, entity=p4r.Entity(table_entry=message)) for message in messages]
        requests = client.requests(updates, batch)
        return timed(lambda: client.write(requests))

    wildcard = p4r.Entity(table_entry=p4r.TableEntry(table_id=messages[0].table_id))
    times = {
        "insert": seconds(p4r.Update.INSERT),
        "modify": seconds(p4r.Update.MODIFY),
        "read": timed(lambda: client.read([wildcard])),
        "delete": seconds(p4r.Update.DELETE),
    }
    return WriteRate(kind=kind, entries=count, **{f"{what}_per_s": count / took for what, took in times.items()})


def run(entries: int = ENTRIES, batch: int = BATCH, progress: Progress = silent) -> BenchReport:
    """Measure with so many entries in each kind of table, `batch` updates a message."""
    info = read_p4info(BUILD / "bench_tables.p4info.txtpb")
    config = (BUILD / "bench_tables.json").read_bytes()
    points = []
    core = {max(os.sched_getaffinity(0))}
    with (
        Switches("engine", {_DEVICE: {}}, core) as switches,
        Client(switches.target(_DEVICE).address, _DEVICE) as client,
    ):
        client.set_pipeline(client.pipeline(info, config))
        for kind in PORTS:
            points.append(_measure(client, info, kind, entries, batch))
            progress(f"{kind}: {points[-1].insert_per_s:,.0f} entries/s written")
    # The slowest kind of table counts.
    written = min(point.insert_per_s for point in points)
    numbers = {
        "written_per_s": written,
        "read_per_s": min(point.read_per_s for point in points),
        "tables": [vars(point) for point in points],
    }
    return report_of_rows("p4runtime", WriteRate, points, numbers, [Goal("entries/s written,", written, GOAL)])
