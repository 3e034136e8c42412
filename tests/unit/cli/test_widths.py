# SPDX-License-Identifier: Apache-2.0
"""Tables of a running fabric fit 80 columns with the names, addresses and counters of a large one, and lose no cell."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from detour.base.tables import Table, left
from detour.cli import demo, metrics, operations, place
from detour.cli.output import Page
from detour.control.placement.placement import Assignment
from detour.control.placement.report import PlacedLink, PlacementReport
from detour.fabric.demo import BothThroughputs, DemoResult, DemoSummary
from detour.fabric.operations.results import (
    EntryRow,
    FlowRows,
    LinkUse,
    LinkUses,
    PathHop,
    ProbedPath,
    ProbedPaths,
    QueuingDelay,
    SentMessage,
    Status,
    SwitchCounters,
    SwitchEndpoint,
    TracedPath,
    UsedPath,
)
from detour.fabric.records import FlowRow, PortCounts, ServedAt, SwitchFlowTotals
from detour.fabric.traffic.workload import WorkloadResult

USIDS = "usid:fcbb:bb00:100:101:106:107:108:841f"
SWITCHES = ["s255", "s256", "s261", "s262", "s263"]
STATUS = Status(
    target="bmv2", topology="dragonfly:p=4,a=8,h=4", switches=264, hosts=1056, links=2640, entries=48_216, lost={},
    failures=[], rate_mbps=20.0, seconds_up=86_400.0, displaced={}, icmp_answered=0,
    endpoints={f"s{n}": SwitchEndpoint(f"127.0.0.1:{50_000 + n}", n + 1) for n in range(264)},
    p4runtime=ServedAt("unix:/run/x", "unix:/run/x", tls=False, reach="", thrift="unix:/run/y"),
)  # fmt: skip
ENTRIES = {
    "s263": [
        EntryRow("FabricIngress.usid.local_sid", "dst_addr=fcbb:bb00:100:e001::/64", "node_ua(port=10)", 0),
        EntryRow("Ingress.router.route", "dst_addr=fd00:20:7:3::/64", "deliver(mac=02:00:00:00:04:1f, port=4)", 0),
        EntryRow("FabricIngress.qos.punt_meter", "index=10", "cir=1000/100, pir=1000/100", 0),
        EntryRow("FabricEgress.flows.watched", "src_addr=fd00:20:7:3::1, label=8191", "count(slot=255)", 10),
    ]
}
COUNTS = PortCounts(
    rx_packets=987_654_321, rx_bytes=987_654_321_000, enqueued_packets=987_654_999, enqueued_bytes=987_654_999_000,
    tx_packets=987_654_321, tx_bytes=987_654_321_000, marked_packets=12_345_678, marked_bytes=12_345_678_000,
)  # fmt: skip
COUNTERS = {"s263": SwitchCounters({"15": COUNTS}, {"forwarded": 987_654_321, "hop limit exceeded": 12})}
LINKS = LinkUses(
    1.0, [LinkUse(link="s255-s263", from_="s263:15", kind="global", up=True, mbps=99_999.99, use=1.0,
                  queue_packets=1024, drops=123_456, marks=1_234_567)], 0,
)  # fmt: skip
AT_SWITCH = SwitchFlowTotals(
    switch="s263", packets=987_654_321, bytes=987_654_321_000, ecn_packets=12_345_678, delays=[], rate_bps=1e11,
    usual_bps=1e11, drop=1.0, ecn_share=1.0, delay_ps=1.234e12,
)  # fmt: skip
FLOWS = FlowRows(
    0.1, True, 0.1, [FlowRow(name="h1023-h1055#12", packets=987_654_321, bytes=987_654_321_000, duplicates=1_234_567,
                             ecn_packets=12_345_678, rate_bps=1e11, usual_bps=1e11, drop=1.0, ecn_share=1.0,
                             delay_ps=1.234e12, path=USIDS, placed=True, switches=[AT_SWITCH])],
)  # fmt: skip
PATH = TracedPath(USIDS, True, "delivered to h1055", [PathHop(
    "s263", 15, 11, "uN fcbb:bb00:108::/48: the list is shifted, then route fd00:20:7:3::/64")])  # fmt: skip
SENT = SentMessage(
    987_654_321_000, 99_999.99, [UsedPath(USIDS, 987_654_321, SWITCHES)], 12_345, 12_345, QueuingDelay(1e6, 2e6, 3e9)
)
PROBED = ProbedPaths("h0", "h1055", [ProbedPath(USIDS, 1_234_567_890, SWITCHES), ProbedPath(USIDS, None, SWITCHES)])
PLACED = PlacementReport(
    topology="fat-tree:k=16", flows=123_456, jobs=12, method="local search", collisions=123_456, lower_bound=100_000,
    gap=0.234, ecmp_mean=1_234_567.8, ecmp_worst=2_345_678, busiest=123, bound=120,
    busiest_gap=0.025, unit="flows", ecmp_busiest_mean=234.5,
    ecmp_busiest_worst=345, seeds=100, seconds=12.3,
    links=[PlacedLink("s255-s263", 1234, 1234.56, 123_456, 123_456.78, 234_567)],
)  # fmt: skip
ASSIGNED = [Assignment("training-1", "h1023", "h1055", SWITCHES, ["100", "101", "106", "107", "841f"])]
WORKLOAD = WorkloadResult(1234.5, 10**11, 10**11, 1056, 1056, (), 12_345, 12_345, 12_345, 123.4)
SUMMARY = DemoSummary("engine", 264, 1056, 48_216, True, 0, 0, BothThroughputs(0.0, 0.0), 0, 12.3)
DEMO = DemoResult(SUMMARY, "dragonfly:p=4,a=8,h=4", WORKLOAD, WORKLOAD, (12, 345))

SHOWN: dict[str, tuple[Callable[[Page], None], list[str]]] = {
    "status": (lambda page: operations.show_status(page, STATUS, endpoints=True), ["s263", "127.0.0.1:50263"]),
    "entries": (
        lambda page: operations.show_entries(page, ENTRIES),
        ["dst_addr=fcbb:bb00:100:e001::/64", "deliver(mac=02:00:00:00:04:1f,", "punt_meter"],
    ),
    "counters": (
        lambda page: operations.show_counters(page, COUNTERS), ["s263:15", "987654321", "987.7 GB", "678", "12345678"]
    ),
    "watch": (
        lambda page: page.table(operations.links_table(LINKS, everything=True)),
        ["s255-s263", "s263:15", "99999.99", "██████████ 100%", "1024", "123456", "1234567"],
    ),
    "flows": (
        lambda page: metrics.show_flows(page, FLOWS),
        ["h1023-h1055#12", "100000.00", "100%", "1234.00", "987.7 GB", "1234567", "s263"],
    ),
    "path": (lambda page: operations.show_path(page, PATH), [USIDS, "fcbb:bb00:108::/48:"]),
    "send": (lambda page: operations.show_send(page, SENT), [USIDS, "987654321", "s255", "s263"]),
    "probe": (lambda page: operations.show_probe(page, PROBED), [USIDS, "1234.568", "no answer"]),
    "place": (
        lambda page: place.show_placement(page, PLACED, ASSIGNED),
        ["s255-s263", "123456.78", "234567", "training-1", "100:101:106:107:841f"],
    ),
    "demo": (lambda page: demo.show_demo(page, DEMO), ["bytes that arrived as sent", "100.0 GB", "1056 of 1056"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_tables_fit_80_columns(name):
    show, cells = SHOWN[name]
    text = io.StringIO()
    show(Page(Console(file=text, width=80)))
    assert not [line for line in text.getvalue().splitlines() if len(line.rstrip()) > 80]
    assert not [cell for cell in cells if cell not in text.getvalue()]
    assert "…" not in text.getvalue()


def test_flows_that_go_the_same_way_are_one_row():
    text = io.StringIO()
    other = Assignment("training-1", "h1023", "h1056", SWITCHES, ["100", "8420"])
    place.show_placement(Page(Console(file=text, width=80)), PLACED, [*ASSIGNED * 8, other])
    rows = [line.split() for line in text.getvalue().splitlines() if "training-1" in line]
    assert [row[-1] for row in rows] == ["8", "1"]
    assert "the first 9 flows; --out FILE has the other 123447" in text.getvalue()


_MANY = Table([left(f"column {n}", lambda row, n=n: f"{row}{n:08}") for n in range(20)], ["x", "y"], "Much", ["a note"])


@pytest.mark.parametrize("width", [80, 120, 1000])
def test_tables_of_results_leave_out_what_does_not_fit_and_say_so(width):
    text = io.StringIO()
    Page(Console(file=text, width=width), fitting=True).table(_MANY)
    shown = text.getvalue().splitlines()
    heads = next(line for line in shown if "x00000000" in line).split()
    room = min(width, 120)
    assert max(len(line.rstrip()) for line in shown[:-1]) <= room
    assert len(heads) == (room + 2) // 12
    left_out = ", ".join(f"column {n}" for n in range(len(heads), 20))
    assert " ".join(" ".join(shown).split()).endswith(f"--wide also shows: {left_out}")
    assert _cells(_MANY, width, wide=True) == 20
    assert _cells(_MANY, width, wide=False) == 20, "of commands that cannot show it otherwise nothing is left out"


def _cells(table: Table[str], width: int, wide: bool) -> int:
    text = io.StringIO()
    Page(Console(file=text, width=width), wide, fitting=wide).table(table)
    return text.getvalue().count("x000000")


@pytest.mark.parametrize(
    ("name", "cells"), [("entries", ["priority", "s263"]), ("watch", ["global"]), ("flows", ["yes", USIDS, "12345678"])]
)
def test_all_columns_are_there_on_request(name, cells):
    text = io.StringIO()
    SHOWN[name][0](Page(Console(file=text, width=200), wide=True))
    assert not [cell for cell in cells if cell not in text.getvalue()]
