# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell 0.0.6, in an environment of its own because it needs an older protobuf, against the server."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.control.p4runtime.shell import environment
from detour.engine.p4runtime import P4RuntimeServer
from tests.unit.p4runtime.harness import PROGRAMS, WAIT_S, FakeNetwork

SESSION = Path(__file__).with_name("p4rt_shell_session.py")
STEPS = ["tables", "one_shots", "profiles", "arrays", "replication", "digests", "packets"]


@pytest.fixture(scope="module")
def python() -> Path:
    """The Python that has the shell; skips where it cannot be installed."""
    try:
        return environment()
    except DetourError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize("address", ["127.0.0.1:0", "unix:{tmp}/s"])
def test_a_session(python: Path, network: FakeNetwork, address: str, tmp_path: Path) -> None:
    with P4RuntimeServer(network, address.format(tmp=tmp_path)) as server:
        server.add_device(1)
        _session(python, server, network)


def _session(python: Path, server: P4RuntimeServer, network: FakeNetwork) -> None:
    program = [str(PROGRAMS / "everything.p4info.txtpb"), str(PROGRAMS / "everything.json")]
    command = [str(python), str(SESSION), server.target, *program]
    outs: list[tuple[int, bytes]] = []
    threading.Thread(target=_answer, args=(network, outs), daemon=True).start()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.split() == STEPS
    ((switch, frame),) = outs
    assert (switch, frame[-14:]) == (1, b"from the shell")
    assert network.groups[1] == {}
    assert network.sessions[1] == {5: ([(2, 1)], 0)}


def _answer(network: FakeNetwork, outs: list[tuple[int, bytes]]) -> None:
    """A packet comes out: one goes in."""
    outs.append(network.packets_out.get(timeout=WAIT_S))
    network.packet_in[1](bytes(6) + b"for the shell", 0)
