# SPDX-License-Identifier: Apache-2.0
"""PSA and PNA beside BMv2's psa_switch and pna_nic: the same files of packets in, the same packets out by each port.

Left out: resubmission, after which psa_switch has lost the ingress port, and what is drawn at random.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from detour.engine.switch import pcap
from tests.psa_hashes import psa_hash_program
from tests.waiting import PATIENCE_S, until

PORTABLE = Path(__file__).resolve().parents[1] / "programs" / "portable"
PORTS = range(1, 8)
PACKETS = 60
"""as many as wait in a queue of psa_switch"""
OURS = (sys.executable, "-m", "detour.cli.switch")
_RESUBMIT = 3
_RECORD = 16
"""bytes before each packet of a file"""
_DRAWN = 31
"""the byte of psa_externs that is random"""


@dataclass(frozen=True)
class PortableCase:
    """A program, BMv2's target for it, and what is sent to a port."""

    name: str
    target: str
    frame: Callable[[random.Random], bytes]
    outputs: int
    """packets that leave"""
    masked: int | None = None
    """a byte that does not count"""
    program: Callable[[], Any] | None = None
    """makes its BMv2 JSON, if it is not among the files"""


def _order(rng: random.Random) -> bytes:
    what = rng.choice([n for n in range(10) if n != _RESUBMIT])
    frame = bytes((what, rng.randrange(4), 0, rng.randrange(3), *rng.randbytes(2), 0, rng.choice(PORTS)))
    return (frame + rng.randbytes(rng.randrange(60)))[: rng.choice((None, None, None, 5))]


def _ip(rng: random.Random) -> bytes:
    return b"\x45\0" + rng.randbytes(8) + rng.choice((b"\0\0", rng.randbytes(2))) + rng.randbytes(8 + rng.randrange(40))


CASES = [
    PortableCase("psa_paths", "psa_switch", _order, 28),
    PortableCase("psa_externs", "psa_switch", _ip, 60, _DRAWN),
    PortableCase("psa_hashes", "psa_switch", _ip, 60, _DRAWN, psa_hash_program),
    PortableCase("pna_ports", "pna_nic", _order, 9),
]


def _outputs(
    folder: Path, command: Sequence[str], case: PortableCase, frames: dict[int, list[bytes]]
) -> dict[int, list[bytes]]:
    """What leaves by each port, in order of bytes, once as many have left as are to."""
    folder.mkdir()
    program = PORTABLE / f"{case.name}.json"
    if case.program is not None:
        program = folder / "program.json"
        program.write_text(json.dumps(case.program()))
    line = [*command, "--use-files", "0", str(program)]
    for port in PORTS:
        packets = [pcap.packet(number, frame) for number, frame in enumerate(frames[port])]
        (folder / f"p{port}_in.pcap").write_bytes(pcap.header() + b"".join(packets))
        line += ["-i", f"{port}@p{port}"]
    if command == OURS:
        line += ["--", "--grpc-server-addr", f"unix:{folder}/p4runtime"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(line, cwd=folder, stdout=log, stderr=log)
        try:
            until(
                lambda: process.poll() is not None or sum(map(_count, folder.glob("*_out.pcap"))) >= case.outputs,
                f"fewer than {case.outputs} packets have left",
            )
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
    return {port: _frames(folder / f"p{port}_out.pcap") for port in PORTS}


def _frames(path: Path) -> list[bytes]:
    data = path.read_bytes()
    path.write_bytes(pcap.header() + data[len(pcap.header()) :])  # BMv2 says link type 0
    return sorted(frame.data for frame in pcap.read(path))


def _count(path: Path) -> int:
    """Packets in a file that is being written."""
    data = path.read_bytes()
    at, count = len(pcap.header()), 0
    while at + _RECORD <= len(data):
        at += _RECORD + int.from_bytes(data[at + 8 : at + 12], "little")
        count += at <= len(data)
    return count


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_same_packets(case: PortableCase, tmp_path: Path) -> None:
    target = shutil.which(case.target)
    if target is None:
        pytest.skip(f"{case.target} is not on PATH")
    rng = random.Random(case.name)
    # One packet after the other by one port: registers see both switches' packets in the same order.
    frames = {port: [case.frame(rng) for _ in range(PACKETS if port == PORTS[0] else 0)] for port in PORTS}
    theirs = _outputs(tmp_path / "theirs", (target, "--log-file", "x", "-L", "off"), case, frames)
    ours = _outputs(tmp_path / "ours", OURS, case, frames)

    def masked(frame: bytes) -> bytes:
        at = case.masked
        return frame if at is None else frame[:at] + frame[at + 1 :]

    assert sum(map(len, theirs.values())) == case.outputs
    for port in PORTS:
        assert sorted(map(masked, ours[port])) == sorted(map(masked, theirs[port])), f"port {port}"
