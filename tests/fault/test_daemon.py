# SPDX-License-Identifier: Apache-2.0
"""However a fabric ends, nothing is left: no process, namespace, interface, socket or file."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import psutil
import pytest
from finsy.proto import p4r, p4r_grpc

from tests.fault.world import SMALL, TARGETS, World, without_progress
from tests.waiting import PATIENCE_S, until

PEM = Path(__file__).parents[1] / "unit" / "p4runtime" / "tls"


@pytest.mark.parametrize("target", TARGETS)
def test_a_life(world: World, target: str) -> None:
    up = world.json("up", "--detach", "--target", target, *SMALL)
    assert (up["target"], up["switches"]) == (target, 6)
    code, _, err = world.run("up", "--detach", *SMALL)
    assert (code, err.count("\n")) == (2, 1)
    assert "is already running" in err
    assert world.json("verify")["verified"] is True
    assert world.json("provision")["inserted"] == 0
    sent = world.json("send", "h0", "h5", "--bytes", "30000")
    assert sent["bytes_ok"] == 30000
    assert world.json("fail", "s0-s1")["failures"] == ["s0-s1"]
    assert world.json("heal")["failures"] == []
    assert world.json("status")["failures"] == []
    world.end()
    assert world.json("down") == {"down": False}
    code, _, err = world.run("status")
    assert (code, err) == (2, "detour: no fabric is up; `detour up --detach` starts one\n")


def test_two_labs_have_ports_of_their_own_and_say_what_they_are_not_asked(world: World) -> None:
    lab = str(Path(__file__).parents[2] / "docs" / "labs" / "firewall")
    commands = world.folder / "commands.txt"
    commands.write_text("counter_read outcome 1\n")
    ports = []
    for name in ("one", "two"):
        up = world.json("up", "--lab", lab, "--ports", "free", "--detach", "--name", name)
        (switch,) = up["switches"]
        assert world.json("status", "--name", name)["switches"] == [switch]
        ports.append(switch["thrift"])
        assert world.run("cli", "s1", str(commands), "--name", name)[1] == "outcome[1]= (0 bytes, 0 packets)\n"
    assert len(set(ports)) == 2
    for command in (("verify",), ("path", "h1", "h3"), ("counters",)):
        code, _, err = world.run(*command, "--name", "one")
        assert code == 2
        assert err.startswith(f"detour: the running fabric is a lab ({lab}), whose tables detour does not control")
    world.json("down", "--name", "one")
    world.json("down", "--name", "two")
    commands.unlink()
    world.assert_clean()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_fabric_in_the_foreground(world: World, target: str, number: signal.Signals) -> None:
    process = world.start("up", "--json", "--target", target, *SMALL)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["target"] == target
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (130, "")
    world.assert_clean()


@pytest.mark.parametrize("target", TARGETS)
def test_a_signal_ends_a_fabric_that_is_not_up_yet(world: World, target: str) -> None:
    process = world.start("up", "--target", target, *SMALL)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("detour: ")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    world.assert_clean()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_a_signal_ends_a_fabric_of_which_nothing_is_loaded_yet(
    world: World, number: signal.Signals, detach: tuple[str, ...]
) -> None:
    process = world.start("up", *detach, "--target", "engine", *SMALL)
    here = Path(f"/proc/{process.pid}")
    until(lambda: _catches_sigterm(here / "status"))
    assert "numpy" not in (here / "maps").read_text()
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, "", "")
    world.assert_clean()


def _catches_sigterm(status: Path) -> bool:
    caught = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_fabric_that_is_killed_takes_its_processes_with_it(world: World, target: str) -> None:
    world.json("up", "--detach", "--target", target, *SMALL)
    world.daemon().kill()
    world.assert_clean(files=False)
    code, _, err = world.run("verify")
    assert (code, err.count("\n")) == (2, 1)
    assert "has died" in err
    world.assert_clean()
    # And the next one is not disturbed.
    world.json("up", "--detach", "--target", target, *SMALL)
    assert world.json("verify")["verified"] is True
    world.end()


@pytest.mark.bmv2
def test_a_switch_that_dies_is_started_again(world: World) -> None:
    world.json("up", "--detach", "--target", "bmv2", *SMALL)
    pid = world.json("status")["processes"]["s3"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: world.json("status")["processes"]["s3"] != pid)
    assert world.json("status")["restarts"] == {"s3": 1}
    until(lambda: not world.json("status")["lost"])
    assert world.json("verify")["verified"] is True
    assert world.json("send", "h0", "h5", "--bytes", "20000")["bytes_ok"] == 20000
    world.end()


def test_the_client_may_go_away_while_it_waits(world: World) -> None:
    world.json("up", "--detach", "--target", "engine", *SMALL)
    sender = world.send_for_long()
    sender.send_signal(signal.SIGINT)
    _, err = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 130
    assert "Traceback" not in err
    assert world.json("send", "h0", "h5", "--bytes", "1000")["bytes_ok"] == 1000
    world.end()


def test_down_does_not_wait_for_a_message(world: World) -> None:
    world.json("up", "--detach", "--target", "engine", *SMALL)
    sender = world.send_for_long()
    world.json("down")
    _, err = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 2
    assert without_progress(err).count("\n") == 1
    world.assert_clean()


def test_an_address_that_is_taken(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = world.run("up", "--detach", "--target", "engine", "--grpc", address, *SMALL)
    assert (code, out) == (2, "")
    comm = Path("/proc/self/comm").read_text().strip()
    reason = f"Address already in use: process {os.getpid()} ({comm}) listens there: end it or choose another port"
    # At once, before anything is loaded.
    assert err.splitlines() == [f"detour: P4Runtime: cannot bind {address}: {reason}"]
    world.assert_clean()


STRANGER = """
import os, sys
import grpc
from finsy.proto import U128, p4r, p4r_grpc
address, election = sys.argv[1], int(sys.argv[2])
if os.geteuid() == 0:
    grpc.insecure_channel(address).close()
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with grpc.insecure_channel(address) as channel:
    update = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(election))
    requests = iter([p4r.StreamMessageRequest(arbitration=update)])
    def stay():
        yield from requests
        sys.stdin.read()
    try:
        for answer in p4r_grpc.P4RuntimeStub(channel).StreamChannel(stay()):
            print(answer.arbitration.status.code, flush=True)
    except grpc.RpcError as error:
        print(error.code().name, error.details(), flush=True)
"""
"""Another user who wants to be primary, until its standard input ends."""


def stranger(address: str, election: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STRANGER, address, str(election)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_other_users_do_not_reach_the_switches(world: World) -> None:
    up = world.json("up", "--detach", "--target", "engine", *SMALL)
    address = up["endpoints"]["s0"]["address"]
    assert address.startswith(f"unix:{world.runtime}/detour/")
    assert up["p4runtime"]["reach"].startswith("only ")
    # Even if all folders above let everybody pass, the state folder does not.
    for folder in (world.runtime, *world.runtime.parents[:-1]):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    assert not [c for c in world.daemon().net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    other = stranger(address, (1 << 128) - 1)
    out, _ = other.communicate(timeout=PATIENCE_S)
    assert "Permission denied" in out, out
    assert world.json("status")["displaced"] == {}
    world.end()


def test_a_port_is_everybodys_and_a_new_primary_is_seen(world: World) -> None:
    code, out, err = world.run("up", "--detach", "--target", "engine", "--grpc", "127.0.0.1:0", *SMALL)
    assert code == 0, err
    status = world.json("status")
    address = status["endpoints"]["s0"]["address"]
    assert address.startswith("127.0.0.1:")
    warning = f"every user of this machine can reach {address} and program the switches"
    assert f"detour: P4Runtime: {warning}\n" in err
    assert f"P4Runtime: {warning}\n" in out
    assert status["displaced"] == {}
    top = (1 << 128) - 1
    other = stranger(address, top)
    assert other.stdout is not None
    assert other.stdout.readline() == "0\n"  # it is primary
    until(lambda: world.json("status")["displaced"])
    (name, primary), *rest = world.json("status")["displaced"].items()
    assert (name, primary["election_id"], primary["primary_again"], rest) == ("s0", str(top), False, [])
    _, out, _ = world.run("status")
    assert f"s0: another controller (election id {top}) has displaced detour's" in out
    code, _, err = world.run("fail", "s0-s1")
    assert code == 2
    assert f"refuses writes: another controller is primary (election id {top})" in err
    other.communicate("", timeout=PATIENCE_S)
    until(lambda: world.json("status")["displaced"]["s0"]["primary_again"])
    _, out, _ = world.run("status")
    assert f"s0: another controller (election id {top}) was primary for a while; `detour provision`" in out
    world.json("provision")
    assert world.json("status")["displaced"] == {}
    world.end()


def test_certificates_for_a_port(world: World) -> None:
    files = ["--grpc-server-cert", str(PEM / "server.pem"), "--grpc-server-key", str(PEM / "server.key")]
    certified = ["--grpc-server-cacert", str(PEM / "ca.pem"), "--grpc-server-with-client-auth"]
    line = ["--target", "engine", "--grpc", "localhost:0", "--grpc-tls", *files, *certified]
    up = world.json("up", "--detach", *line, *SMALL)
    assert up["p4runtime"]["tls"]
    assert "with a certificate signed by" in up["p4runtime"]["reach"]
    assert world.json("verify")["verified"]  # detour's own controller needs no certificate
    address = up["endpoints"]["s0"]["address"]
    ca, key, certificate = ((PEM / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem"))
    for credentials, answers in (
        (grpc.ssl_channel_credentials(ca, key, certificate), True),
        (grpc.ssl_channel_credentials(ca), False),
    ):
        with grpc.secure_channel(address, credentials) as channel:
            call = p4r_grpc.P4RuntimeStub(channel).Capabilities
            if answers:
                assert call(p4r.CapabilitiesRequest(device_id=1), timeout=PATIENCE_S, wait_for_ready=True)
            else:
                with pytest.raises(grpc.RpcError):
                    call(p4r.CapabilitiesRequest(device_id=1), timeout=PATIENCE_S)
    world.end()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["--grpc-tls"], "--grpc-tls needs --grpc HOST:PORT"),
        (["--grpc", "127.0.0.1:0", "--grpc-tls"], "--grpc-tls needs --grpc-server-cert and --grpc-server-key"),
        (["--grpc", "127.0.0.1:0", "--grpc-server-cert", "x"], "certificates have no effect without --grpc-tls"),
        (["--grpc", "0.0.0.0:0"], "0.0.0.0:0 is not a loopback address"),
    ],
)
def test_what_up_refuses(world: World, line: list[str], words: str) -> None:
    code, out, err = world.run("up", "--detach", "--target", "engine", *line, *SMALL)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    world.assert_clean()


def test_a_demo_that_is_interrupted(world: World) -> None:
    process = world.start("demo", "--target", "engine", "--topo", "dragonfly:p=1,a=2,h=1")
    assert process.stderr is not None
    for line in process.stderr:
        if "traffic" in line:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    world.assert_clean()
