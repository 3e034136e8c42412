# SPDX-License-Identifier: Apache-2.0
"""`detour trace`: the document, and what people read."""

from typing import Any

import pytest
from finsy.proto import p4r
from google.protobuf import text_format
from scapy.layers.inet6 import IPv6
from scapy.utils import wrpcapng

from detour import cli
from detour.base.places import BUILD
from detour.engine.switch import pcap
from detour.engine.trace.tree import EVENT_KINDS

PLANNED = ["trace", "h0", "h5", "--topo", "dragonfly:p=1,a=2,h=1", "--sport", "0x8001"]
PROGRAM = ["trace", "--program", f"{BUILD / 'fabric.p4info.txtpb'},{BUILD / 'fabric.json'}"]


def _events(tree: dict[str, Any]) -> list[dict[str, Any]]:
    branches = tree["fork"]["branches"] if "fork" in tree else []
    return [*tree["events"], *(event for branch in branches for event in _events(branch["trace"]))]


def test_the_document(run_json):
    report = run_json(*PLANNED)
    assert report.keys() == {"hops", "outcomes"}
    for hop in report["hops"]:
        assert hop.keys() == {"switch", "port", "at_ns", "trace"}
        assert {event["kind"] for event in _events(hop["trace"])} <= set(EVENT_KINDS)
        assert "output" in hop["trace"]["outcome"]
    [outcome] = report["outcomes"]
    assert outcome["fraction"] == 1
    assert outcome["dropped"] is None
    assert [packet["host"] for packet in outcome["packets"]] == ["h5"]
    sources = [event["source"] for hop in report["hops"] for event in _events(hop["trace"]) if event["source"]]
    assert {source.keys() == {"file", "line", "column", "text"} for source in sources} == {True}
    lookups = [event for event in _events(report["hops"][0]["trace"]) if event["kind"] == "table_lookup"]
    hit = next(event for event in lookups if event["entry"])
    assert hit["entry"]["key"][0]["name"] == hit["key"][0]["name"]


def test_what_changed_has_its_line(run_json):
    report = run_json(*PLANNED)
    [change] = [
        event
        for event in _events(report["hops"][0]["trace"])
        if event["kind"] == "assign" and event["field"] == "ipv6.hop_limit"
    ]
    assert (change["before"], change["after"]) == (64, 63)
    assert change["source"]["text"] == "hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1"


def test_people_see_hops_tables_and_the_end(capsys):
    assert cli.main(PLANNED) == 0
    out = capsys.readouterr().out
    assert out.startswith("s0, port 1\n")
    assert "valiant.detour: hit" in out
    assert "ipv6.hop_limit: 64 -> 63" in out
    assert out.rstrip().endswith("arrives at h5, 1102 bytes")
    assert cli.main([*PLANNED, "-v"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2 * len(out.splitlines()) - 40


def test_all_ways(run_json):
    report = run_json("trace", "h0", "h15", "--topo", "fat-tree:k=4", "--all")
    fork = report["hops"][0]["trace"]["fork"]
    assert not fork["all"]
    assert sum(branch["fraction"] for branch in fork["branches"]) == pytest.approx(1)
    assert sum(outcome["fraction"] for outcome in report["outcomes"]) == pytest.approx(1)


def test_a_packet_that_is_dropped_has_the_line_that_dropped_it(run_json):
    report = run_json(*PROGRAM, "--packet", "00" * 14)
    [outcome] = report["outcomes"]
    assert outcome["dropped"]["reason"] == "dropped in ingress"
    assert "mark_to_drop" in outcome["dropped"]["source"]["text"]


def test_entries_and_a_capture(tmp_path, run_json, refused):
    frame = bytes(12) + b"\x86\xdd" + bytes([0x60]) + bytes(3) + b"\0\0\x3b\x40" + bytes.fromhex("fd" + "00" * 15) * 2
    (tmp_path / "in.pcap").write_bytes(pcap.header() + pcap.packet(0, frame))
    (tmp_path / "entries.txtpb").write_text("updates { type: INSERT entity { table_entry { table_id: 1 } } }")
    arguments = [*PROGRAM, "--packet", str(tmp_path / "in.pcap"), "--entries", str(tmp_path / "entries.txtpb")]
    assert "entries.txtpb: update 1: " in refused(*arguments)
    (tmp_path / "entries.txtpb").write_text(text_format.MessageToString(p4r.WriteRequest()))
    report = run_json(*arguments)
    assert report["hops"][0]["trace"]["events"][0]["bytes"] == len(frame)


def test_a_capture_of_ip_gets_the_addresses_that_are_said(tmp_path, run_json, refused):
    packet = bytes([0x60]) + bytes(3) + b"\0\0\x3b\x40" + bytes.fromhex("fd" + "00" * 15) * 2
    wrpcapng(str(tmp_path / "ip.pcapng"), [IPv6(packet)])
    arguments = [*PROGRAM, "--packet", str(tmp_path / "ip.pcapng")]
    assert "link type 229 (RAW: IP without Ethernet); --ethernet DST/SRC" in refused(*arguments)
    report = run_json(*arguments, "--ethernet", "02:00:00:00:00:01/02:00:00:00:00:02")
    assert report["hops"][0]["trace"]["events"][0]["bytes"] == 14 + len(packet)
    assert "is not two MAC addresses, DST/SRC" in refused(*arguments, "--ethernet", "02:00:00:00:00:01")
    assert "--ethernet needs a capture file" in refused(
        *PROGRAM, "--packet", "00" * 14, "--ethernet", "02:00:00:00:00:01/02:00:00:00:00:02"
    )


@pytest.mark.parametrize(
    ("packet", "says"),
    [
        ("123", "3 digits of hex"),
        ("zz", "'z' is not a digit of hex"),
        ("", "a frame of 0 bytes"),
        ("/nowhere/x.pcap", "/nowhere/x.pcap cannot be read"),
    ],
)
def test_packets_that_are_none(packet, says, refused):
    assert says in refused(*PROGRAM, "--packet", packet)


def test_a_capture_that_ends_too_early(tmp_path, refused):
    whole = pcap.header() + pcap.packet(0, bytes(60))
    for size in (10, 30, len(whole) - 1):
        (tmp_path / "cut.pcap").write_bytes(whole[:size])
        assert "cut.pcap" in refused(*PROGRAM, "--packet", str(tmp_path / "cut.pcap"))


def test_a_program_that_is_none_is_named(refused, tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text("{}")
    program = f"{BUILD}/fabric.p4info.txtpb,{empty}"
    error = refused("trace", "--program", program, "--packet", "00", "--port", "1")
    assert error == f"detour: {empty}: P4 program: the BMv2 JSON lacks 'header_types'\n"
