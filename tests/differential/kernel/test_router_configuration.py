# SPDX-License-Identifier: Apache-2.0
"""What `detour place --format` writes for Linux and for FRR, on the kernel's own seg6local: every packet takes the
placed path, and arrives."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from detour import cli
from detour.control.graph_files import open_topology
from detour.fabric.linux.netns import Namespace
from detour.topo import address, parse_topology
from tests.differential.kernel import router
from tests.differential.kernel.lab import Lab
from tests.waiting import until

pytestmark = pytest.mark.kernel

DRAGONFLY = "dragonfly:p=1,a=2,h=1"
LEAVES = "leaf-spine:leaves=2,spines=2,hosts=2"
FRR_FOLDERS = f"{os.environ.get('PATH', '')}:/usr/lib/frr:/usr/sbin"
DAEMONS = ("mgmtd", "zebra", "staticd")
WITH_UN, WITH_UA = (10, 3), (10, 4)
"""the first FRR that knows these static SIDs"""


@pytest.fixture(autouse=True)
def _seg6local() -> None:
    reason = router.missing()
    if reason is not None:
        pytest.skip(reason)


def placed(folder: Path, topology: str, style: str, *options: str, connections: int = 1) -> list[dict[str, Any]]:
    """Assignments of a ring, whose configuration is then in the folder."""
    jobs = folder.parent / "jobs.json"
    jobs.write_text(
        json.dumps([{"collective": "ring-all-reduce", "hosts": "all", "shuffle": 2, "connections": connections}])
    )
    command = ["place", str(jobs), "--topo", topology, "--seeds", "1", *options]
    assert cli.main([*command, "--format", style, "--out", str(folder)]) == 0
    assert cli.main([*command, "--format", "json", "--out", str(folder)]) == 0
    return json.loads((folder / "placement.json").read_text())["assignments"]


def scripts(lab: Lab, folder: Path) -> None:
    for name in lab.spaces:
        if (file := folder / f"{name}.sh").exists():
            lab.run(name, ["sh", str(file)])


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    under_test = Lab(parse_topology(request.param))
    yield under_test
    under_test.close()


def check_paths(lab: Lab, flows: list[dict[str, Any]]) -> None:
    """Each packet comes in at the switches of its path, with one uSID less at each, and then at the host. A packet
    socket may show it before or after the kernel took the switch's own uSID off."""
    for flow in flows:
        source, target, path = flow["source"], flow["target"], flow["path"]
        assert lab.delivered(source, target)
        if len(path) > 1:
            usids = [int(usid, 16) for usid in flow["usids"]]
            lists = [address.ipv6_text(address.usid_address(usids[place:])) for place in range(len(usids))]
            seen = lab.seen(source, target, list(lab.hops(path, target)))
            shown = zip(seen, lists, [*lists[1:], lists[-1]], strict=True)
            assert all(hop_list in either for hop_list, *either in shown), (seen, lists)


@pytest.mark.parametrize(
    ("lab", "options"),
    [(LEAVES, ()), (LEAVES, ("--fail", "s0-s2")), (DRAGONFLY, ("--detours",))],
    indirect=["lab"], ids=["leaf-spine", "failed link", "detours"],
)  # fmt: skip
def test_packets_take_the_placed_paths_through_linux_routers(lab, options, tmp_path):
    flows = placed(tmp_path / "lab", lab.topology.spec, "linux", *options)
    scripts(lab, tmp_path / "lab")
    lab.settle()
    check_paths(lab, flows)


@pytest.mark.parametrize("lab", [LEAVES], indirect=True)
def test_flows_of_a_pair_are_spread_and_links_can_be_named(lab, tmp_path):
    flows = placed(tmp_path / "lab", LEAVES, "linux", connections=2)
    scripts(lab, tmp_path / "lab")
    lab.settle()
    source, target = next((flow["source"], flow["target"]) for flow in flows if len(flow["path"]) > 1)
    lists = {":".join(flow["usids"]) for flow in flows if (flow["source"], flow["target"]) == (source, target)}
    here, other = lab.topology.host(source).switch, lab.topology.host(target).switch
    assert len(lists) == 2
    assert None not in lab.seen(source, target, [("s2", here + 1), ("s3", here + 1)], range(40000, 40050))
    # uAs, alone and behind their node's uSID: out of port 4 of the leaf to s3, and from there to the other leaf.
    node, host = 3 + 1, lab.topology.host(target)
    hops = [("s3", here + 1), (f"s{other}", 4), (target, 1)]
    for usids in ([0xE004, 0xE001 + other], [here + 1, 0xE004, node, 0xE001 + other]):
        segments = f"encap seg6 mode encap.red segs {address.ipv6_text(address.usid_address([*usids, host.node_id]))}"
        line = f"ip -6 route replace {address.ipv6_text(host.address)}/128 {segments} dev eth1"
        lab.run(source, [*line.split(), "src", address.ipv6_text(lab.topology.host(source).address)])
        assert lab.delivered(source, target)
        assert None not in lab.seen(source, target, hops)


def test_each_of_parallel_links_is_named(tmp_path):
    """Two flows over two cables: each comes in at the port that its uA leads to."""
    (tmp_path / "net.csv").write_text("a,b\ns0,s1\ns1,s0\ns0,h0\ns0,h1\ns1,h2\ns1,h3\n")
    topology = open_topology(f"{tmp_path}/net.csv")
    (tmp_path / "jobs.yaml").write_text("jobs: [{collective: point-to-point, pairs: [[h0, h2], [h1, h3]]}]")
    command = ["place", f"{tmp_path}/jobs.yaml", "--topo", f"{tmp_path}/net.csv", "--seeds", "1"]
    assert cli.main([*command, "--format", "linux", "--out", f"{tmp_path}/lab"]) == 0
    assert cli.main([*command, "--format", "json", "--out", f"{tmp_path}/lab"]) == 0
    flows = json.loads((tmp_path / "lab" / "placement.json").read_text())["assignments"]
    with closing(Lab(topology)) as lab:
        scripts(lab, tmp_path / "lab")
        lab.settle()
        ports = [int(flow["usids"][0], 16) - address.FIRST_FUNCTION for flow in flows]  # the same at both ends
        assert sorted(ports) == [3, 4]
        for flow, port in zip(flows, ports, strict=True):
            assert lab.delivered(flow["source"], flow["target"])
            assert None not in lab.seen(flow["source"], flow["target"], [("s1", port), (flow["target"], 1)])


def frr(name: str) -> str | None:
    return shutil.which(name, path=FRR_FOLDERS)


def frr_version() -> tuple[int, ...]:
    text = subprocess.run([frr("zebra") or "", "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"version (\d+)\.(\d+)", text)
    assert match is not None, text
    return int(match[1]), int(match[2])


needs_frr = pytest.mark.skipif(not all(map(frr, ("zebra", "staticd", "vtysh"))), reason="FRR is not here (package frr)")


@needs_frr
def test_frr_understands_every_line(tmp_path):
    placed(tmp_path / "lab", LEAVES, "frr")
    text = (tmp_path / "lab" / "s0.conf").read_text()
    version = frr_version()
    if version < WITH_UA:  # Debian 13 has 10.3
        text = re.sub(r"   sid .* behavior uA .*\n", "", text)
    if version < WITH_UN:  # Debian 12 has 8.4
        text = re.sub(r"segment-routing\n( .*\n)*exit\n", "", text)
    (tmp_path / "s0.conf").write_text(text)
    done = subprocess.run(
        [frr("vtysh") or "", "-C", "-f", tmp_path / "s0.conf"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


class FrrLab:
    """A folder for `containerlab deploy`, in namespaces; `with` ends it."""

    def __init__(self, topology: str, folder: Path) -> None:
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._folders: list[str] = []
        document = yaml.safe_load((folder / "fabric.clab.yml").read_text())["topology"]
        self.lab = Lab(parse_topology(topology), document["kinds"]["linux"]["sysctls"])
        for name, node in document["nodes"].items():
            space = self.lab.spaces[name]
            binds = {inside: str(folder / file) for file, inside in (bind.split(":") for bind in node["binds"])}
            for command in node["exec"]:
                self.lab.run(name, [binds.get(word, word) for word in shlex.split(command)])
            if (configuration := binds.get("/etc/frr/frr.conf")) is not None:
                self._route(space, f"detour-{os.getpid()}-{name}", configuration)

    def _route(self, space: Namespace, name: str, configuration: str) -> None:
        """Daemons whose sockets are in a folder of that name below /run/frr."""
        vtysh = [frr("vtysh") or "", "-N", name]
        self._folders.append(f"/run/frr/{name}")
        for daemon in DAEMONS:
            command = space.command([frr(daemon) or "", "-N", name])
            process = subprocess.Popen(command, pass_fds=[space.fd], stderr=subprocess.PIPE)
            self._daemons.append(process)
            asked = [*vtysh, "-d", daemon, "-c", "show version"]
            until(
                lambda p=process, a=asked: (
                    p.poll() is not None or not subprocess.run(a, capture_output=True, check=False).returncode
                )
            )
            assert process.poll() is None, process.communicate()[1]
        # An older FRR leaves out what it does not know.
        subprocess.run([*vtysh, "-f", configuration], capture_output=True, check=False)

    def __enter__(self) -> Lab:
        return self.lab

    def __exit__(self, *_: object) -> None:
        for process in self._daemons:
            process.terminate()
            process.communicate()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self.lab.close()


@needs_frr
def test_packets_take_the_placed_paths_through_frr(tmp_path):
    """Its daemons put into the kernel what their configuration says."""
    if (version := frr_version()) < WITH_UN:
        pytest.skip(f"FRR {version[0]}.{version[1]} has no static-sids; 10.3 has")
    flows = placed(tmp_path / "lab", LEAVES, "frr")
    with FrrLab(LEAVES, tmp_path / "lab") as lab:
        lab.settle()
        sids = ["fcbb:bb00:1::/48"] + ["fcbb:bb00:1:e004::/64"] * (version >= WITH_UA)
        until(lambda: all(f"{sid} nhid" in lab.run("s0", ["ip", "-6", "route"]) for sid in sids))
        until(lambda: all("seg6local" in lab.run(s.name, ["ip", "-6", "route"]) for s in lab.topology.switches))
        check_paths(lab, flows)
