# SPDX-License-Identifier: Apache-2.0
"""Placements as configuration of other people's routers: what is written, and that the formats say the same.

That Linux and FRR take it, and that packets then take the placed paths: tests/differential/kernel."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from finsy.proto import p4r
from google.protobuf import text_format

from detour import cli
from detour.control.p4runtime.codec import Codec
from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info
from detour.control.planner import plan
from detour.topo import parse_topology
from detour.topo.failures import parse_failure

LEAVES = "leaf-spine:leaves=2,spines=2,hosts=1"

FRR = """\
hostname s0
!
interface eth1
 ipv6 address fd01::1/64
exit
!
interface eth2
 ipv6 address fd01:0:2::1/64
exit
!
interface eth3
 ipv6 address fd01:0:3::1/64
exit
!
segment-routing
 srv6
  locators
   locator MAIN
    prefix fcbb:bb00:1::/48 block-len 32 node-len 16 func-bits 16
    behavior usid
   exit
  exit
  static-sids
   sid fcbb:bb00:1::/48 locator MAIN behavior uN
   sid fcbb:bb00:1:e001::/64 locator MAIN behavior uA interface eth1 nexthop fd01::2
   sid fcbb:bb00:1:e002::/64 locator MAIN behavior uA interface eth2 nexthop fd01:0:2::2
   sid fcbb:bb00:1:e003::/64 locator MAIN behavior uA interface eth3 nexthop fd01:0:3::2
  exit
 exit
exit
!
ipv6 route fd00::/64 fd01::2 eth1
ipv6 route fcbb:bb00:8000::/48 fd01::2 eth1
ipv6 route fd00:0:1::/48 fd01:0:2::2 eth2
ipv6 route fd00:0:1::/48 fd01:0:3::2 eth3
ipv6 route fcbb:bb00:2::/48 fd01:0:2::2 eth2
ipv6 route fcbb:bb00:2::/48 fd01:0:3::2 eth3
ipv6 route fcbb:bb00:3::/48 fd01:0:2::2 eth2
ipv6 route fcbb:bb00:4::/48 fd01:0:3::2 eth3
ipv6 route fcbb:bb00::/32 blackhole
"""

HOST = """\
#!/bin/sh
set -e
sysctl -q -w net.ipv6.fib_multipath_hash_policy=1 net.ipv6.conf.all.seg6_enabled=1 net.ipv6.conf.eth1.seg6_enabled=1
ip -6 -batch - <<'END'
link set eth1 up
addr replace fd01::2/64 dev eth1 nodad
addr replace fd00::1/128 dev eth1 nodad
route replace fd00::/16 via fd01::1 dev eth1 src fd00::1
route replace fcbb:bb00::/32 via fd01::1 dev eth1
route replace fcbb:bb00:8000::/48 encap seg6local action End.DT6 table 255 dev eth1
route replace fd00:0:1::1/128 src fd00::1 encap seg6 mode encap.red segs fcbb:bb00:4:2:8001:: via fd01::1 dev eth1
END
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    (tmp_path / "jobs.json").write_text('[{"collective": "point-to-point", "pairs": [["h0", "h1"]]}]')
    return tmp_path / "jobs.json"


def written(jobs: Path, style: str, *options: str, topology: str = LEAVES) -> dict[str, str]:
    """Texts by the names of their files."""
    folder = jobs.parent / "out"
    command = [
        "place",
        str(jobs),
        "--topo",
        topology,
        "--seeds",
        "1",
        *options,
        "--format",
        style,
        "--out",
        str(folder),
    ]
    assert cli.main(command) == 0
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_frr_routers_in_a_containerlab_lab(jobs):
    pinned = json.loads(jobs.read_text())
    pinned[0]["pairs"] = [{"from": "h0", "to": "h1", "path": ["s0", "s3", "s1"]}]
    jobs.write_text(json.dumps(pinned))
    files = written(jobs, "frr")
    assert sorted(files) == ["daemons", "fabric.clab.yml", "h0.sh", "h1.sh", *(f"s{i}.conf" for i in range(4))]
    assert files["s0.conf"] == FRR
    assert files["h0.sh"] == HOST
    lab = yaml.safe_load(files["fabric.clab.yml"])["topology"]
    assert lab["nodes"]["s0"]["binds"][0] == "s0.conf:/etc/frr/frr.conf"
    assert {"endpoints": ["s0:eth2", "s2:eth1"]} in lab["links"]
    binds = [bind.split(":")[0] for node in lab["nodes"].values() for bind in node["binds"]]
    assert set(binds) | {"fabric.clab.yml"} == set(files)


def test_config_db_of_sonic(jobs):
    tables = json.loads(written(jobs, "sonic")["s0.json"])
    lengths = {"block_len": "32", "node_len": "16", "func_len": "16", "arg_len": "0"}
    assert tables["SRV6_MY_LOCATORS"] == {"MAIN": {"prefix": "fcbb:bb00:1::", **lengths}}
    assert tables["SRV6_MY_SIDS"] == {
        "MAIN|fcbb:bb00:1::/48": {"action": "uN", "decap_dscp_mode": "pipe"},
        **{
            f"MAIN|fcbb:bb00:1:e00{port}::/64": {
                "action": "uA", "decap_dscp_mode": "pipe", "interface": interface, "adj": neighbour,
            }
            for port, interface, neighbour in (
                (1, "Ethernet0", "fd01::2"), (2, "Ethernet4", "fd01:0:2::2"), (3, "Ethernet8", "fd01:0:3::2"),
            )
        },
    }  # fmt: skip
    both = {"nexthop": "fd01:0:2::2,fd01:0:3::2", "ifname": "Ethernet4,Ethernet8"}
    assert tables["STATIC_ROUTE"]["default|fcbb:bb00:2::/48"] == both
    assert tables["STATIC_ROUTE"]["default|fcbb:bb00::/32"] == {"blackhole": "true"}
    assert tables["INTERFACE"]["Ethernet4|fd01:0:2::1/64"] == {}


def test_linux_routers_have_the_local_sids_of_the_data_plane(jobs):
    script = written(jobs, "linux")["s0.sh"]
    flavour = "flavors next-csid lblen 32 nflen"
    for line in (
        f"route replace fcbb:bb00:1::/48 encap seg6local action End {flavour} 16 dev sr0",
        f"route replace fcbb:bb00:e002::/48 encap seg6local action End.X nh6 fd01:0:2::2 {flavour} 16 dev eth2",
        f"route replace fcbb:bb00:1:e002::/64 encap seg6local action End.X nh6 fd01:0:2::2 {flavour} 32 dev eth2",
        "route replace fcbb:bb00:2::/48 nexthop via fd01:0:2::2 dev eth2 nexthop via fd01:0:3::2 dev eth3",
    ):
        assert line in script.splitlines()


@pytest.mark.parametrize("failed", [None, "s0-s2", "s2"])
def test_p4runtime_has_the_entries_that_the_controller_writes(jobs, failed):
    topology = parse_topology(LEAVES)
    failures = frozenset({parse_failure(topology, failed)} if failed else ())
    files = written(jobs, "p4runtime", *(("--fail", failed) if failed else ()))
    codec = Codec(read_p4info(PipelineConfig.fabric().p4info))
    entries = {}
    for name, text in files.items():
        if name.endswith(".txtpb"):
            request = text_format.Parse(text, p4r.WriteRequest())
            entries[request.device_id] = [codec.decode(update.entity) for update in request.updates]
            assert name == f"{topology.switch_name(request.device_id)}.txtpb"
    assert entries == plan(topology, None, failures)


def test_tables_of_assignments_say_the_same(jobs):
    rows = list(csv.DictReader(written(jobs, "csv")["placement.csv"].splitlines()))
    document = json.loads(written(jobs, "json")["placement.json"])
    assert document["topology"] == LEAVES
    assert [{key: row[key] for key in ("job", "source", "target")} for row in rows] == [
        {key: row[key] for key in ("job", "source", "target")} for row in document["assignments"]
    ]
    assert [row["path"].split() for row in rows] == [row["path"] for row in document["assignments"]]
    assert rows[0]["address"] == f"fcbb:bb00:{':'.join(document['assignments'][0]['usids'])}::"
    file = jobs.parent / "paths.json"
    assert cli.main(["place", str(jobs), "--topo", LEAVES, "--seeds", "1", "--out", str(file)]) == 0
    assert json.loads(file.read_text()) == document


def test_what_failed_is_no_part_of_a_lab(jobs):
    files = written(jobs, "frr", "--fail", "s2,s0-s3", topology="leaf-spine:leaves=2,spines=3,hosts=1")
    lab: dict[str, Any] = yaml.safe_load(files["fabric.clab.yml"])["topology"]
    assert "s2.conf" not in files
    assert "s2" not in lab["nodes"]
    assert not [link for link in lab["links"] if any(end.startswith("s2:") for end in link["endpoints"])]
    assert "ipv6 route fcbb:bb00:2::/48 fd01:0:4::2 eth4" in files["s0.conf"].splitlines()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--format", "frr"], "--format needs a folder to write to: --out DIR"),
        (["--format", "junos", "--out", "x"], "invalid choice: 'junos'"),
        (["--format", "frr", "--out", "JOBS"], "is a file; --format writes several files"),
        (["--format", "frr", "--out", "nothere/x"], "argument --out: there is no folder"),
        (["--out", "FOLDER"], "is a folder; expected a file"),
        (["--apply", "--format", "frr"], "--format is for --topo, not for --apply"),
    ],
)
def test_wrong_options_are_one_line(jobs, options, reason, capsys):
    options = [option.replace("JOBS", str(jobs)).replace("FOLDER", str(jobs.parent)) for option in options]
    topology = [] if "--apply" in options else ["--topo", LEAVES]
    assert cli.main(["place", str(jobs), *topology, *options]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
