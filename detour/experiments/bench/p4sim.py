# SPDX-License-Identifier: Apache-2.0
"""p4sim and ns-3's bridge, where they are built: the example of p4sim that its section 5.1 was measured with.

The program is `p4-v1model-ipv4-forwarding` of p4sim (github.com/HapCommSys/p4sim), built inside ns-3 or against an
installed one, with optimisation. `DETOUR_P4SIM` names it, or it is on PATH by that name; `P4SIM_DIR` must say, as p4sim
itself wants it, where p4sim's sources are. Its option `--model=1` puts ns-3's bridge in the place of the P4 switch.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError

PROGRAM_NAME = "p4-v1model-ipv4-forwarding"
VARIABLE = "DETOUR_P4SIM"
P4SIM, BRIDGE = "p4sim", "ns-3 bridge"
_MODELS = {P4SIM: 0, BRIDGE: 1}
_CHANNELS = {P4SIM: "p2p", BRIDGE: "csma"}
"""the faster one where both are possible; ns-3's bridge knows CSMA only"""
_DELAY = "0.000001ms"
"""short, since a CSMA frame occupies its cable for as long as it travels: at 10 ns the bridge's sender, who backs off
for whole microseconds, loses a quarter of 10 Gb/s"""
_BEGIN_S = 3.0
"""when the example's host begins to send"""
_SPARE = 1.25
"""how much faster than the traffic p4sim's switch is: it takes an event for every packet that it could take"""


@dataclass(frozen=True)
class Ns3Run:
    """A run of another simulator. `seconds`: processor time of its process."""

    system: str
    packets: int
    seconds: float


def find() -> Path | None:
    """The program, if it is there. Raises `DetourError`: the variable names something else."""
    named = os.environ.get(VARIABLE)
    if not named:
        program = shutil.which(PROGRAM_NAME)
        return None if program is None else Path(program)
    path = Path(named)
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise DetourError(f"{VARIABLE}={named}: not an executable; expected p4sim's {PROGRAM_NAME}")
    return path


def run(program: Path, system: str, mbps: float, payload: int, seconds: float, link_bps: int) -> Ns3Run:
    """One host sends to the other, for so long, at that rate of payload. Raises `DetourError`: the program fails, or
    says nothing of what it sent."""
    packets_a_second = mbps * 1e6 / (8 * payload)
    arguments = {
        "model": _MODELS[system],
        "channelType": _CHANNELS[system],
        "linkDelay": _DELAY,
        "pktSize": payload,
        "appDataRate": f"{mbps:g}Mbps",
        "linkRate": f"{link_bps / 1e6:g}Mbps",
        "switchRate": max(1, round(packets_a_second * _SPARE)),
        "flowDuration": f"{seconds:g}",
        "simDuration": f"{_BEGIN_S + seconds + 1:g}",
        "pcap": "false",
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, *(f"--{name}={value}" for name, value in arguments.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    sent = re.search(r"^ +RX: ([0-9]+) bytes", done.stdout, re.MULTILINE)
    if done.returncode != 0 or sent is None:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DetourError(f"{program} ended with {done.returncode}: {last}")
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ns3Run(system, int(sent[1]) // payload, took)
