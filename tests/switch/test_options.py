# SPDX-License-Identifier: Apache-2.0
"""The command line of `detour switch`: what simple_switch_grpc takes, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.engine.switch import options
from detour.engine.switch.options import SwitchOptions, TlsFiles, parse


def parsed(line: str) -> SwitchOptions:
    result = parse(line.split())
    assert isinstance(result, SwitchOptions)
    return result


def refused(line: str) -> str:
    with pytest.raises(DetourError) as error:
        parse(line.split())
    return str(error.value)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.json"
    path.write_text("{}")
    return path


def test_the_defaults_are_those_of_simple_switch_grpc() -> None:
    assert parsed("--no-p4") == SwitchOptions()
    assert SwitchOptions().address == "0.0.0.0:9559"
    assert SwitchOptions().drop_port == 511


def test_the_line_that_the_tutorials_use(program: Path, tmp_path: Path) -> None:
    parsed_options = parsed(
        f"-i 2@s1-eth2 -i 1@s1-eth1 --pcap {tmp_path} --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 {program} "
        "--log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 510 --priority-queues 3"
    )
    assert parsed_options.interfaces == {1: "s1-eth1", 2: "s1-eth2"}
    assert parsed_options.config == program
    assert parsed_options.pcap == tmp_path
    assert parsed_options.log_console
    assert parsed_options.address == "0.0.0.0:50051"
    assert parsed_options.cpu_port == 510
    assert parsed_options.priorities == 3
    assert [notice.split()[0] for notice in parsed_options.notices] == ["--nanolog"]


def test_short_and_adjacent_forms() -> None:
    assert parsed("-i1@a --device-id=7 -L warn --no-p4").interfaces == {1: "a"}
    assert parsed("--interface 1@a@b --no-p4").interfaces == {1: "a@b"}
    assert parsed("--no-p4 --pcap").pcap == Path(".")
    assert parsed("--no-p4 --priority-queues 4").priorities == 4
    assert parsed("--no-p4 --use-files -3").use_files == 0


def test_a_program_beside_no_p4_is_ignored_and_said_so(program: Path) -> None:
    parsed_options = parsed(f"--no-p4 {program}")
    assert parsed_options.config is None
    assert str(program) in parsed_options.notices[0]


@pytest.mark.parametrize("name", [*options.REFUSED])
def test_options_that_cannot_be_honoured_are_refused_by_name(name: str) -> None:
    assert f"{name} is not supported" in refused(f"--no-p4 {name} x")


@pytest.mark.parametrize("name", [*options.REFUSED_TARGET])
def test_target_options_that_cannot_be_honoured_are_refused_by_name(name: str) -> None:
    assert f"{name} is not supported" in refused(f"--no-p4 -- {name} x")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "--no-p4"),
        ("/nowhere/program.json", "/nowhere/program.json is not a file"),
        ("--no-p4 --frobnicate=3", "unknown option --frobnicate"),
        ("--no-p4 --cpu-port 3", "--cpu-port before -- (it belongs after it)"),
        ("--no-p4 -- --device-id 3", "--device-id after -- (it belongs before it)"),
        ("a.json b.json", "'b.json' is an extra argument"),
        ("--no-p4 -i veth0", "'veth0' is not PORT@INTERFACE"),
        ("--no-p4 -i 512@veth0", "port 512 is beyond 511"),
        ("--no-p4 -i 1@a -i 1@b", "port 1 is given twice: a and b"),
        ("--no-p4 -i 5@a -- --cpu-port 5", "port 5 is the CPU port"),
        ("--no-p4 -- --cpu-port 0", "'0' is not a number from 1 to 511"),
        ("--no-p4 -- --cpu-port 511", "--cpu-port and --drop-port are both 511"),
        ("--no-p4 --device-id x", "'x' is not a number"),
        ("--no-p4 -L loud", "'loud'"),
        ("--no-p4 --pcap /nowhere", "/nowhere is not a folder"),
        ("--no-p4 --coverage /nowhere/file", "/nowhere/file cannot be written"),
        ("--no-p4 --log-console --log-file x", "exclude each other"),
        ("--no-p4 -- --grpc-server-ssl", "needs --grpc-server-cert"),
        ("--no-p4 -- --grpc-server-ssl --grpc-server-cert /dev/null", "needs --grpc-server-key"),
        ("--no-p4 -- --priority-queues 0", "'0' is not a number from 1 to 64"),
    ],
)
def test_what_is_wrong_is_named(line: str, words: str) -> None:
    assert words in refused(line)


def test_tls_files(tmp_path: Path) -> None:
    for name in ("c", "k", "a"):
        (tmp_path / name).write_text("pem")
    line = (
        f"--no-p4 -- --grpc-server-cert {tmp_path}/c --grpc-server-key {tmp_path}/k --grpc-server-cacert {tmp_path}/a"
    )
    assert parsed(line).tls is None
    assert "without --grpc-server-ssl" in parsed(line).notices[0]
    tls = parsed(f"{line} --grpc-server-ssl --grpc-server-with-client-auth").tls
    assert tls == TlsFiles(tmp_path / "c", tmp_path / "k", tmp_path / "a", require_client=True)


def test_help_and_versions_are_text() -> None:
    text = parse(["--help"])
    assert isinstance(text, str)
    assert all(name in text for name in ("PORT@IFACE", "--grpc-server-addr", "--drop-port"))
    assert not any(name in text for name in options.REFUSED)
    assert parse(["--version"]) == "1.15.5-detour\n"
    assert parse(["--json-version"]) == "2.24\n"
