# SPDX-License-Identifier: Apache-2.0
"""p4-utils: the same network from `p4app.json` and from a script; its numbering and strategies of addresses."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from forwarding_lab import IPS, MACS, write_app, write_tutorial

from detour.base.errors import DetourError
from detour.fabric.daemon.lab import with_ports
from detour.fabric.labs.controllers import ControllerTopology
from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab, LabEnd
from detour.fabric.labs.programs import contents_of, programs_of
from detour.fabric.labs.reading import read_lab
from detour.fabric.labs.workloads import SECOND_PS, EchoTrain, TcpFlow, UdpStream, task_activities

ReadLab = Callable[..., Lab]

NODES = """
from p4utils.mininetlib.network_API import NetworkAPI
net = NetworkAPI()
net.setLogLevel('info')
net.addP4Switch('s1')
net.addP4RuntimeSwitch('s2')
for name in ('h1', 'h2', 'h11'):
    net.addHost(name)
net.addLink('h1', 's1')
net.addLink('s1', 's2')
net.addLink('h2', 's2')
net.addLink('s2', 'h11')
"""


def app(**changes: Any) -> dict[str, Any]:
    topology = {
        "assignment_strategy": "mixed",
        "links": [["h1", "s1"], ["s1", "s2"], ["h2", "s2"], ["s2", "h11"]],
        "hosts": {"h1": {}, "h2": {}, "h11": {}},
        "switches": {"s1": {}, "s2": {"switch_node": {"object_name": "P4RuntimeSwitch"}}},
    }
    return {"cli": True, "topology": topology | changes}


def contents(lab: Lab) -> Any:
    """All that counts of a lab."""
    hosts = [(h.name, str(h.address), h.mac, h.gateway, dict(h.neighbours)) for h in lab.hosts]
    switches = [(s.name, s.device_id, s.grpc_port, s.thrift_port, s.cpu_port) for s in lab.switches]
    return hosts, switches, [(k.a, k.b, k.rate_bps, k.delay_ps, k.queue_packets, k.loss) for k in lab.links]


def test_both_formats_say_the_same(lab: ReadLab, tmp_path: Path) -> None:
    of_app = lab(p4app__json=app())
    of_script = lab(network__py=NODES + "net.mixed()\nnet.startNetwork()\nraise SystemExit('not reached')\n")
    assert (of_app.format, of_script.format) == ("p4app", "network.py")
    assert contents(of_app) == contents(of_script)
    assert json.loads(of_app.topology or "") == json.loads(of_script.topology or "")


def test_numbers_are_those_of_p4utils(lab: ReadLab) -> None:
    parsed = lab(p4app__json=app())
    assert [(s.name, s.device_id, s.grpc_port, s.thrift_port) for s in parsed.switches] == [
        ("s1", 1, None, 9090),
        ("s2", 2, 9559, 9091),
    ]
    # Ports over the links in natural order: h1-s1, h2-s2, s1-s2, s2-h11.
    assert parsed.attachment("h2")[1] == LabEnd("s2", 1)
    assert parsed.attachment("h11")[1] == LabEnd("s2", 3)
    assert next((k.a, k.b) for k in parsed.links if k.a.node == "s1") == (LabEnd("s1", 2), LabEnd("s2", 2))


@pytest.mark.parametrize(
    ("strategy", "addresses", "gateway"),
    [
        ("l2", ["10.0.0.1/16", "10.0.0.2/16", "10.0.0.11/16"], None),
        ("mixed", ["10.0.1.1/24", "10.0.2.2/24", "10.0.2.11/24"], "10.0.2.254"),
        ("l3", ["10.1.1.2/24", "10.2.2.2/24", "10.2.11.2/24"], "10.2.2.1"),
    ],
)
def test_strategies(lab: ReadLab, strategy: str, addresses: list[str], gateway: str | None) -> None:
    parsed = lab(p4app__json=app(assignment_strategy=strategy))
    assert [str(host.address) for host in parsed.hosts] == addresses
    h2 = parsed.host("h2")
    octets = [int(part) for part in str(h2.address.ip).split(".")]
    assert h2.mac == "00:00:" + ":".join(f"{octet:02x}" for octet in octets)
    assert h2.gateway == (None if gateway is None else ip_address(gateway))
    if gateway is not None:
        assert dict(h2.neighbours)[ip_address(gateway)] == "00:01:" + h2.mac[6:]
    near = {"l2": {"h1", "h11"}, "mixed": {"h11"}, "l3": set()}[strategy]
    assert {h.name for h in parsed.hosts if h.address.ip in dict(h2.neighbours)} == near


def test_arp_if_it_is_wanted(lab: ReadLab) -> None:
    parsed = lab(p4app__json=app(assignment_strategy="l2", default={"auto_arp_tables": False}))
    assert all(not host.neighbours for host in parsed.hosts)


def test_links_say_what_they_are_like(lab: ReadLab) -> None:
    default = {"bw": 10, "delay": "2ms", "loss": 5, "max_queue_size": 7}
    parsed = lab(p4app__json=app(default=default, links=[["h1", "s1", {"bw": 0.5}], ["h2", "s2"], ["h11", "s2"]]))
    first, second = parsed.links[0], next(k for k in parsed.links if k.a.node == "h2")
    assert (first.rate_bps, second.rate_bps, second.delay_ps) == (500_000, 10**7, 2 * 10**9)
    assert (second.queue_packets, second.loss) == (7, 0.05)


def test_a_cpu_port_is_a_port_like_others(lab: ReadLab) -> None:
    script = NODES + "net.enableCpuPortAll()\nnet.mixed()\nnet.startNetwork()\n"
    parsed = lab(network__py=script)
    assert [s.cpu_port for s in parsed.switches] == [3, 4]
    nodes = {node["id"]: node for node in json.loads(parsed.topology or "")["nodes"]}
    assert nodes["s1"]["cpu_port_num"] == 3
    assert all("sw-cpu" not in (k.a.node, k.b.node) for k in parsed.links)


def test_options_of_scripts(lab: ReadLab, tmp_path: Path) -> None:
    (tmp_path / "s1-commands.txt").write_text("")
    (tmp_path / "a.p4").write_text("")
    script = (
        NODES
        + """
net.setP4SourceAll('a.p4')
net.setP4CliInput('s1', 's1-commands.txt')
net.setPriorityQueueNum('s1', 8)
net.setThriftPort('s1', 9999)
net.setP4SwitchId('s2', 7)
net.setIntfPort('s1', 'h1', 9)
net.setBw('s1', 's2', 3)
net.setDelay('s2', 's1', 4)
net.setLoss('s1', 's2', 0.25)
net.setMaxQueueSize('s1', 's2', 11)
net.setIntfIp('h1', 's1', '10.9.9.9/24')
net.setIntfMac('h1', 's1', '00:00:00:00:09:09')
net.setDefaultRoute('h1', '10.9.9.1')
net.execScript('python controller.py', reboot=True)
assert net.hosts() == ['h1', 'h2', 'h11'] and net.isHost('h2') and not net.isSwitch('h2')
net.startNetwork()
"""
    )
    parsed = lab(network__py=script)
    s1, h1 = parsed.switch("s1"), parsed.host("h1")
    assert (s1.priorities, s1.thrift_port, s1.commands) == (8, 9999, tmp_path / "s1-commands.txt")
    assert s1.program is not None
    assert s1.program.source == tmp_path / "a.p4"
    assert parsed.switch("s2").device_id == 7
    assert (str(h1.address), h1.mac, str(h1.gateway)) == ("10.9.9.9/24", "00:00:00:00:09:09", "10.9.9.1")
    assert parsed.attachment("h1")[1].port == 9
    between = next(k for k in parsed.links if (k.a.node, k.b.node) == ("s1", "s2"))
    assert (between.rate_bps, between.delay_ps, between.loss, between.queue_packets) == (3_000_000, 4 * 10**9, 0.25, 11)
    assert parsed.scripts == ("python controller.py",)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("net.addLink('h1', 's9')", "line 13: there is no node 's9'; there is h1, h2, h11, s1, s2 so far"),
        ("net.addLink('h1', 's1', colour='red')", "line 13: addLink has no option 'colour'; allowed: weight, port1"),
        ("net.addRouter('r1')", "line 13: NetworkAPI.addRouter: detour has no FRR routers"),
        ("net.fly()", "line 13: AttributeError: NetworkAPI.fly: there is no such method"),
        ("net.setP4Source('h1', 'a.p4')", "line 13: there is no switch 'h1'; there is s1, s2 so far"),
        ("1 / 0", "line 13: ZeroDivisionError"),
        ("def :", "line 13: "),
        ("import sys; sys.exit(3)", "line 13: SystemExit: 3"),
        ("", "ends without startNetwork"),
    ],
)
def test_what_a_script_does_wrong(lab: ReadLab, script: str, text: str) -> None:
    with pytest.raises(DetourError, match=f"network.py.*{text}"):
        lab(network__py=NODES + script + "\n")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"assignment_strategy": "l4"}, "there is no assignment strategy 'l4'; allowed: l2, mixed, l3"),
        ({"links": [["h1", "s1"], ["h1", "s1"], ["h2", "s2"], ["h11", "s2"]]}, "permits one link between two nodes"),
        ({"links": [["h1", "s1"], ["h2", "s3"]]}, r"line \d+: there is no node 's3'"),
        ({"links": [["h1", "s1"], ["h2", "s2"]]}, "host h11 has 0 links"),
        ({"links": [["h1", "s1", {"speed": 1}]]}, "a link has no 'speed'; allowed: weight"),
        ({"switches": {"s1": {"cli_input": "none.txt"}}, "links": []}, r"line \d+: .*'none.txt' does not exist"),
        ({"switches": {"s1": {"p4_src": "none.p4"}, "s2": {}}}, "the program 'none.p4' is not there"),
        ({"default": {"bw": "fast"}}, "bw of a link is 'fast'; expected a number"),
    ],
)
def test_what_an_app_says_wrong(lab: ReadLab, changes: dict[str, Any], text: str) -> None:
    base = app()["topology"] | changes
    if changes.get("switches", {}).keys() == {"s1"}:
        base |= {"hosts": {}}
        base.pop("assignment_strategy")
    with pytest.raises(DetourError, match=text):
        lab(p4app__json={"topology": base})


def test_several_labs_in_a_folder_must_be_told_apart(lab: ReadLab) -> None:
    text = NODES + "net.l2()\nnet.startNetwork()\n"
    with pytest.raises(DetourError, match=r"has several labs; name one of network_a.py, network_b.py"):
        lab(network_a__py=text, network_b__py=text)


TASKS = """# who, when, how long, what
h1 1.5 3 send_udp_flow --dst 10.0.2.2 --sport 5000 --dport 5051 --rate 1M --packet_size 1013
h2 0 0 recv_udp_flow --dport 5051

h2 0.5 2 "ping -s 100 10.0.1.1"
h11 0 4 iperf -c h1
h11 0 4 iperf -s
"""
DONE = [
    UdpStream("h1", ip_address("10.0.2.2"), 987166, 5000, 5051, 1000, 3 * SECOND_PS, 3 * SECOND_PS // 2),
    EchoTrain("h2", ip_address("10.0.1.1"), 2, SECOND_PS, 100, SECOND_PS // 2),
    TcpFlow("h11", ip_address("10.0.1.1"), 0, 5201, None, 4 * SECOND_PS, 0),
]


def test_tasks_of_a_file_and_of_a_script_are_what_hosts_do(lab: ReadLab, tmp_path: Path) -> None:
    of_app = lab(p4app__json=app() | {"tasks_file": "tasks.txt"}, tasks__txt=TASKS)
    script = NODES + "net.mixed()\nnet.addTaskFile('tasks.txt')\nnet.enableSchedulerAll()\nnet.startNetwork()\n"
    of_script = lab(network__py=script)
    assert task_activities(of_app) == task_activities(of_script) == DONE
    assert [task.command for task in of_app.tasks][2:4] == ["ping -s 100 10.0.1.1", "iperf -c h1"]


def test_tasks_of_functions(lab: ReadLab, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def shout(word, times): pass\n")
    script = (
        "from p4utils.utils.traffic_utils import send_udp_flow\nfrom own import shout\n" + NODES + "net.mixed()\n"
        "net.addTask('h1', send_udp_flow, start=1, duration=2, args=('10.0.2.2', 7), kwargs={'rate': '2M'})\n"
        "net.addTask('h2', shout, args=('a',), kwargs={'times': 2})\nnet.startNetwork()\n"
    )
    with pytest.raises(
        DetourError, match=r"network.py, line 17: built-in hosts do not support the task 'shout'.*--linux h2"
    ):
        lab(network__py=script)
    parsed = read_lab(LabFolder.given(str(tmp_path)), linux="h2")
    (stream,) = task_activities(parsed, ["h2"])
    assert isinstance(stream, UdpStream)
    assert (stream.sport, stream.dport, stream.time_ps, stream.start_ps) == (7, 5001, 2 * SECOND_PS, SECOND_PS)
    code = shlex.split(parsed.tasks[1].command)
    assert code[:3] == ["exec", "python3", "-c"]
    assert subprocess.run([sys.executable, *code[2:]], check=False).returncode == 0


def test_tasks_of_neither_command_nor_function(lab: ReadLab) -> None:
    script = NODES + "net.addTask('h1', ['ping', '10.0.2.2'])\nnet.startNetwork()\n"
    with pytest.raises(DetourError, match=r"line \d+: addTask: the task of h1 is \['ping', '10.0.2.2'\]; expected"):
        lab(network__py=script)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("h1 0 0", "line 1: expected HOST START DURATION EXE"),
        ("h1 now 0 ping h2", "line 1: expected HOST START DURATION EXE"),
        ("h1 -1 0 'ping h2'", "line 1: start and duration of a task"),
        ("h9 0 0 'ping h2'", "line 1: there is no host 'h9' for this task; the lab has h1, h2, h11"),
        ("s1 0 0 'tcpdump'", "line 1: there is no host 's1' for this task"),
        ("h1 0 0 'tcpdump -i h1-eth0'", "line 1: built-in hosts do not support the task 'tcpdump -i h1-eth0'"),
        ("h1 0 0 'ping nobody'", "line 1: there is no host 'nobody'"),
        ("h1 0 0 send_udp_flow --rate fast", "line 1: send_udp_flow: rate"),
        ("h1 0 0 send_udp_flow --dport x", "line 1: send_udp_flow: invalid literal"),
        ("h1 0 0 send_udp_flow --dport", "line 1: --dport needs a value"),
    ],
)
def test_tasks_that_cannot_be(lab: ReadLab, line: str, reason: str) -> None:
    with pytest.raises(DetourError, match=reason):
        lab(p4app__json=app() | {"tasks_file": "tasks.txt"}, tasks__txt=line + "\n")


def test_a_manifest_of_another_tool(lab: ReadLab) -> None:
    with pytest.raises(DetourError, match=r"p4app\.json is a manifest of p4lang/p4app, another tool"):
        lab(p4app__json={"program": "a.p4", "language": "p4-16", "targets": {"multiswitch": {"links": []}}})


def test_a_script_gets_the_arguments_that_are_said(lab: ReadLab, tmp_path: Path) -> None:
    script = (
        "import sys\n"
        + NODES
        + "net.setLogLevel(sys.argv[1])\nnet.mixed()\nnet.setDelay('h1', 's1', int(sys.argv[2]))\n"
    )
    with pytest.raises(DetourError, match=r"line 14: IndexError: .*; the script takes arguments: --lab-args"):
        lab(network__py=script + "net.startNetwork()\n")
    parsed = read_lab(LabFolder.given(str(tmp_path), arguments="'a word' 7"))
    assert next(link.delay_ps for link in parsed.links if link.a.node == "h1") == 7 * 10**9
    (tmp_path / "network.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n" + script)
    with pytest.raises(DetourError, match="line 2: SystemExit: 2; the script takes arguments"):
        read_lab(LabFolder.given(str(tmp_path), arguments="--no"))
    (tmp_path / "network.py").unlink()
    (tmp_path / "p4app.json").write_text(json.dumps(app()))
    with pytest.raises(DetourError, match="--lab-args is for labs with a script"):
        read_lab(LabFolder.given(str(tmp_path), arguments="1"))


# -- the topology.json that p4-utils' controllers read -------------------------------------------------------


@pytest.fixture
def lab_of_app(tmp_path: Path) -> Path:
    return write_app(tmp_path / "lab", (9090, 9091), (9559, 9560))


def topology(folder: Path) -> ControllerTopology:
    lab = read_lab(LabFolder.given(str(folder)))
    return ControllerTopology(lab, contents_of(lab, programs_of(lab)))


def test_it_is_there_while_the_lab_is_up(lab_of_app: Path) -> None:
    warnings: list[str] = []
    file, written = lab_of_app / "topology.json", topology(lab_of_app)
    written.write(warnings.append)
    document = json.loads(file.read_text())
    nodes = {node["id"]: node for node in document["nodes"]}
    assert nodes["s1"]["json_path"] == str(lab_of_app / "build" / "table_exact.json")
    assert nodes["s1"]["p4rt_path"] == str(lab_of_app / "build" / "table_exact.p4info.txtpb")
    assert (nodes["s2"]["thrift_port"], nodes["s2"]["grpc_port"], nodes["s2"]["device_id"]) == (9091, 9560, 2)
    assert nodes["h1"]["ip"] == f"{IPS['h1']}/24"
    assert document["edges"] == document["links"]
    edge = next(each for each in document["edges"] if {each["node1"], each["node2"]} == {"h1", "s1"})
    assert (edge["addr1"], edge["port2"], edge["intfName2"]) == (MACS["h1"], 1, "s1-eth1")
    again = topology(lab_of_app)  # the file makes no other lab of the folder, and one that was left is written anew
    again.write(warnings.append)
    again.remove()
    again.remove()
    assert not file.exists()
    assert warnings == []


def test_what_has_been_changed_stays(lab_of_app: Path) -> None:
    written = topology(lab_of_app)
    written.write(lambda text: None)
    (lab_of_app / "topology.json").write_text("{}")
    written.remove()
    assert (lab_of_app / "topology.json").read_text() == "{}"


def test_a_file_of_somebody_else_stays(lab_of_app: Path) -> None:
    warnings: list[str] = []
    written = topology(lab_of_app)
    (lab_of_app / "topology.json").write_text('{"own": 1}')
    written.write(warnings.append)
    written.remove()
    assert (lab_of_app / "topology.json").read_text() == '{"own": 1}'
    assert len(warnings) == 1
    assert "is another lab's, and stays" in warnings[0]


def test_labs_of_other_formats_have_none(tmp_path: Path) -> None:
    folder = write_tutorial(tmp_path / "lab")
    before = (folder / "topology.json").read_text()
    topology(folder).write(lambda text: pytest.fail(text))
    assert (folder / "topology.json").read_text() == before


def test_ports_are_an_offset_away_or_free(tmp_path: Path) -> None:
    parsed = read_lab(LabFolder.given(str(write_app(tmp_path / "lab", (9090, 9091), (9559, 9560)))))
    moved = with_ports(parsed, "1000")
    assert [(each.thrift_port, each.grpc_port) for each in moved.switches] == [(10090, 10559), (10091, 10560)]
    assert moved.topology is not None
    nodes = [node for node in json.loads(moved.topology)["nodes"] if "thrift_port" in node]
    assert [(node["thrift_port"], node["grpc_port"]) for node in nodes] == [(10090, 10559), (10091, 10560)]
    free = with_ports(parsed, "free")
    assert len({port for each in free.switches for port in (each.thrift_port, each.grpc_port)}) == 4
    for text in ("some", "-1", "60000"):
        with pytest.raises(DetourError, match=f"--ports {text}: expected free, or a number .* 55975 at most"):
            with_ports(parsed, text)
