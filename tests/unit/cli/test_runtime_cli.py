# SPDX-License-Identifier: Apache-2.0
"""`detour cli`: which switch, what it prints, exit codes, and what its prompt offers."""

import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from detour.base.addresses import TcpAddress, UnixAddress
from detour.cli import main, runtime_cli
from detour.cli.runtime_completion import RuntimeCompleter
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import CommandScope
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.runtime import BmRuntime
from detour.engine.bmv2api.server import ThriftServer
from detour.engine.clock import Virtual
from detour.engine.network import Network

EVERYTHING = Path(__file__).resolve().parents[2] / "programs" / "p4runtime" / "everything.json"
GOOD = "table_add exact_two forward 1 1 => 3\ntable_num_entries exact_two\n"


@pytest.fixture
def api() -> Iterator[BmRuntime]:
    with Network(Virtual(), packets=64) as network:
        network.add_switch(1, "s1")
        device = BmDevice(network, 1)
        device.load(EVERYTHING.read_bytes())
        yield BmRuntime(device)


@pytest.fixture
def port(api: BmRuntime) -> Iterator[str]:
    with ThriftServer(TcpAddress("localhost", 0)) as server:
        server.serve({"": api})
        yield str(server.port)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s1-commands.txt"
    path.write_text(GOOD)
    return path


def test_a_file(port, file, capsys):
    assert main(["cli", "--thrift-port", port, str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["Entry has been added with handle 0", "1"]
    assert main(["cli", "--thrift-port", port, str(file)]) == 2
    assert capsys.readouterr().err == f"detour: {file}:1: Invalid table operation (DUPLICATE_ENTRY)\n"


def test_a_file_as_json(port, file, run_json):
    commands = run_json("cli", "--thrift-port", port, str(file))["commands"]
    assert commands[1] == {"line": 2, "command": "table_num_entries exact_two", "output": ["1"]}
    assert len(commands) == 2


def test_standard_input_is_read_to_its_end(port, capsys, run_json, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{GOOD}nonsense\n\ntable_num_entries exact_two\n"))
    assert main(["cli", "--thrift-port", port]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Control utility for runtime P4 table manipulation"
    assert lines[1] == "RuntimeCmd: Adding entry to exact match table exact_two"
    replies = ["RuntimeCmd: 1", "RuntimeCmd: Error: there is no command nonsense", "RuntimeCmd: RuntimeCmd: 1"]
    assert lines[6:] == [*replies, "RuntimeCmd: "]
    monkeypatch.setattr("sys.stdin", io.StringIO("show_pvs\nEOF\nnonsense\n"))
    ((only,),) = [run_json("cli", "--thrift-port", port, "-")["commands"]]
    assert only["error"] is None


def test_help_is_a_command_of_files_too(port, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("help show_pvs\nhelp nothing\nhelp\n"))
    assert main(["cli", "--thrift-port", port]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == [
        "RuntimeCmd: show_pvs: list parser value sets", "RuntimeCmd: Error: there is no command nothing",
    ]  # fmt: skip
    assert len(lines) > 50
    (tmp_path / "help.txt").write_text("help show_pvs\n")
    assert main(["cli", "--thrift-port", port, str(tmp_path / "help.txt")]) == 0
    assert capsys.readouterr().out == "show_pvs: list parser value sets\n"


def test_a_switch_of_the_fabric(tmp_path, api, file, capsys, refused, monkeypatch):
    address = UnixAddress(tmp_path / "bmv2.sock")
    status = SimpleNamespace(endpoints={"s0": 0, "s1": 1}, p4runtime=SimpleNamespace(thrift=str(address)))
    monkeypatch.setattr(runtime_cli, "running", lambda: SimpleNamespace(status=lambda: status))
    with ThriftServer(address) as server:
        server.serve({"s1": api})
        assert main(["cli", "s1", str(file)]) == 0
        capsys.readouterr()
        assert main(["cli", "s9", str(file)]) == 2
        assert capsys.readouterr().err == "detour: there is no switch 's9'; the fabric has s0 to s1\n"
    status.p4runtime = None
    assert "this fabric's BMv2 switches" in refused("cli", "s1", str(file))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["cli"], "name a switch of the running fabric, like s0, or give --thrift-port"),
        (["cli", "s1", "f", "--thrift-port", "9090"], "give a switch (s1) or --thrift-port, not both"),
        (["cli", "--thrift-port", "0"], "--thrift-port 0 is not 1 to 65535"),
        (["cli", "--thrift-port", "x"], "argument --thrift-port: 'x' is not a TCP port"),
    ],
)
def test_what_is_wrong_with_the_command_line(arguments, why, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"detour: {why}")


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("mc_node_d", {"mc_node_destroy", "mc_node_dissociate"}),
        ("table_add MyIngress.ex", {"MyIngress.exact_two"}), ("table_add lpm", {"MyIngress.lpm_route"}),
        ("table_add exact_two to", {"MyIngress.to_cpu"}), ("table_add nothing ", set()),
        ("act_prof_create_member ecmp set", set()), ("act_prof_create_member ecmp forw", {"MyIngress.forward"}),
        ("register_read MyIngress.o", {"MyIngress.octets"}), ("pvs_get ", {"TheParser.ipv6_types"}),
        ("meter_get_rates ra", {"MyIngress.rate"}), ("counter_read port", {"MyIngress.port_counter"}),
        ("help mirroring_g", {"mirroring_get"}), ("nonsense ", set()), ("load_new_config_file ", set()),
        ("table_add", {"table_add"}), ("table_indirect_create_member indirect forw", {"MyIngress.forward"}),
    ],
)  # fmt: skip
def test_what_the_prompt_offers(text, offered):
    completer = RuntimeCompleter(CommandScope(ProgramNames(EVERYTHING.read_text())))
    completions = completer.get_completions(Document(text), CompleteEvent())
    assert {each.text for each in completions} == offered
