# SPDX-License-Identifier: Apache-2.0
"""p4lang's tutorial exercises: what to type at Mininet's prompt, and what must come out.

`DETOUR_TUTORIALS` names a checkout of github.com/p4lang/tutorials; nothing of it is part of this project. An
exercise runs in a copy of its folder, over which the published solution is laid, by the exercise's own Makefile.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/local/sbin"
TOOLS = ("make", "mn", "mnexec", "ping", "iperf", "ethtool")
MODULES = ("mininet", "p4.v1", "p4.tmp.p4config_pb2", "grpc", "psutil", "scapy")


@dataclass(frozen=True)
class Outcome:
    """What an exercise printed: Mininet's own output, and the files that its commands wrote."""

    output: str
    folder: Path

    def file(self, name: str) -> str:
        return (self.folder / name).read_text(errors="replace")


@dataclass(frozen=True)
class Exercise:
    """Commands for Mininet's prompt and checks of the outcome: each a description and a predicate."""

    name: str
    commands: tuple[str, ...]
    checks: dict[str, Callable[[Outcome], bool]]
    seconds: int = 60
    runtime: str = ""
    """Folder of the exercise into which the solution's *-runtime.json belong."""
    modules: tuple[str, ...] = ()
    """Python modules of /usr/bin/python3 that only this exercise needs."""


def count(outcome: Outcome, name: str, pattern: str) -> int:
    return len(re.findall(pattern, outcome.file(name)))


def received(outcome: Outcome, name: str) -> int:
    return count(outcome, name, "got a packet")


LISTEN = "./receive.py > {0}.log 2>&1 &"


def listening(*hosts: str) -> tuple[str, ...]:
    """Starts the exercise's receiver on hosts and gives it time to open its socket."""
    return (*(f"{host} {LISTEN.format(host)}" for host in hosts), "sh sleep 3")


EXERCISES = (
    Exercise(
        "basic", ("pingall",), {"every host reaches every other": lambda o: "0% dropped (12/12 received)" in o.output}
    ),
    Exercise(
        "basic_tunnel",
        (
            *listening("h2", "h3"),
            'h1 ./send.py 10.0.2.2 "by address"',
            'h1 ./send.py 10.0.3.3 "by tunnel" --dst_id 2',
            "sh sleep 2",
        ),
        {
            "h2 gets the plain packet": lambda o: "by address" in o.file("h2.log"),
            "h2 gets the tunnelled one although its address is h3's": lambda o: "by tunnel" in o.file("h2.log"),
            "h3 gets nothing": lambda o: received(o, "h3.log") == 0,
        },
    ),
    Exercise(
        "calc",
        ("h1 printf '3 + 5\\n9 - 2\\n12 & 10\\n12 | 3\\n6 ^ 3\\nquit\\n' | python3 calc.py",),
        {"the switch computes": lambda o: re.findall(r"^(\d+)\s*$", o.output, re.M) == ["8", "7", "8", "15", "5"]},
    ),
    Exercise(
        "ecn",
        (*listening("h2"), 'h1 ./send.py 10.0.2.2 "P4 is cool" 3', "sh sleep 1"),
        {"ECT packets arrive": lambda o: count(o, "h2.log", r"tos\s*= 0x[13]") >= 3},
    ),
    Exercise(
        "firewall",
        (
            "h1 iperf -s > h1.log 2>&1 &",
            "h3 iperf -s > h3.log 2>&1 &",
            "sh sleep 1",
            "h1 timeout --foreground -s KILL 8 iperf -c 10.0.3.3 -t 2",
            "h3 timeout --foreground -s KILL 6 iperf -c 10.0.1.1 -t 2",
            "h1 kill %1",
            "h3 kill %1",
        ),
        {
            "a connection from inside passes": lambda o: "bits/sec" in o.file("h3.log"),
            "a connection from outside does not": lambda o: "bits/sec" not in o.file("h1.log"),
        },
    ),
    Exercise(
        "flowcache",
        (
            "sh timeout -k 2 -s INT 16 python3 -u ./mycontroller.py > controller.log 2>&1 &",
            "sh sleep 6",
            "h1 ping -c 6 -W 2 10.0.2.2",
            "sh sleep 8",
        ),
        {"the controller's flow entries carry the ping": lambda o: bool(re.search(r"[3-6] received", o.output))},
        modules=("p4runtime_sh",),
    ),
    Exercise(
        "link_monitor",
        ("h1 ./send.py > send.log 2>&1 &", "h1 timeout -s INT 6 python3 -u ./receive.py > receive.log 2>&1"),
        {
            f"the probe reports switch {switch}": lambda o, s=switch: count(o, "receive.log", f"Switch {s} - Port") > 1
            for switch in (1, 2, 3, 4)
        },
    ),
    Exercise(
        "load_balance",
        (*listening("h2", "h3"), *('h1 ./send.py 10.0.0.1 "P4 is cool"' for _ in range(12)), "sh sleep 2"),
        {
            "every packet arrives once": lambda o: received(o, "h2.log") + received(o, "h3.log") == 12,
            "both servers get some": lambda o: min(received(o, "h2.log"), received(o, "h3.log")) > 0,
        },
    ),
    Exercise(
        "mri",
        (*listening("h2"), 'h1 ./send.py 10.0.2.2 "P4 is cool" 3', "sh sleep 1"),
        {
            "both switches leave a trace": lambda o: (
                count(o, "h2.log", r"swid\s*= 1\b") >= 3 and count(o, "h2.log", r"swid\s*= 2\b") >= 3
            )
        },
    ),
    Exercise(
        "multicast",
        ("h1 ping -c 2 -W 2 h2", "pingall"),
        {"flooding and learning-free forwarding reach every host": lambda o: "0% dropped (12/12" in o.output},
        runtime="sig-topo",
    ),
    Exercise(
        "p4runtime",
        (
            "sh timeout -k 2 -s INT 12 python3 -u ./mycontroller.py > controller.log 2>&1 &",
            "sh sleep 5",
            "h1 ping -c 4 -W 2 10.0.2.2",
            "sh sleep 7",
        ),
        {
            "the tunnels carry the ping": lambda o: " 4 received" in o.output,
            "the counters count it": lambda o: count(o, "controller.log", r"egressTunnelCounter \d+: [4-9]") > 0,
        },
    ),
    Exercise(
        "qos",
        (*listening("h2"), "h1 ./send.py --p=UDP --des=10.0.2.2 --m=cool --dur=3", "sh sleep 1"),
        {"UDP gets its code point": lambda o: count(o, "h2.log", r"tos\s*= 0xb9") >= 3},
    ),
    Exercise(
        "source_routing",
        (*listening("h2"), "h1 printf '2 3 2 2 1\\n2 1\\nq\\n' | ./send.py 10.0.2.2", "sh sleep 2"),
        {
            "five hops": lambda o: count(o, "h2.log", r"ttl\s*= 59") == 1,
            "two hops": lambda o: count(o, "h2.log", r"ttl\s*= 62") == 1,
        },
    ),
)


def missing(exercise: Exercise) -> list[str]:
    """Tools and Python modules that an exercise needs and this machine lacks."""
    lacking = [tool for tool in TOOLS if shutil.which(tool, path=SYSTEM_PATH) is None]
    for module in (*MODULES, *exercise.modules):
        if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode:
            lacking.append(f"/usr/bin/python3 module {module}")
    return lacking


def prepare(checkout: Path, exercise: Exercise, folder: Path) -> Path:
    """Copies what the exercise needs into `folder`, the solution over the starter; returns where to run it."""
    shutil.copytree(checkout / "utils", folder / "utils", symlinks=True)
    work = folder / "exercises" / exercise.name
    shutil.copytree(checkout / "exercises" / exercise.name, work, symlinks=True)
    shutil.copytree(work / "solution", work, dirs_exist_ok=True)
    for entries in (work / "solution").glob("*-runtime.json"):
        shutil.copy(entries, work / exercise.runtime)
    return work


def tools(folder: Path, switch: Path) -> Path:
    """A folder for PATH: the switch under its name, our compiler under p4c's, and `sudo` where there is none (the test
    runs as root)."""
    folder.mkdir()
    (folder / switch.name).symlink_to(switch)
    (folder / "p4c-bm2-ss").symlink_to(Path(sys.executable).parent / "detour-p4c")
    if shutil.which("sudo", path=SYSTEM_PATH) is None:
        sudo = folder / "sudo"
        sudo.write_text('#!/bin/sh\nexec env "$@"\n')
        sudo.chmod(0o755)
    return folder


def run(exercise: Exercise, checkout: Path, switch: Path, folder: Path) -> Outcome:
    """Runs an exercise with `switch` (an executable whose name contains `grpc`) and returns what came out."""
    work = prepare(checkout, exercise, folder)
    path = f"{tools(folder / 'bin', switch)}:{SYSTEM_PATH}"
    environment = {"PATH": path, "HOME": os.environ.get("HOME", "/root"), "LANG": "C.UTF-8"}
    if cache := os.environ.get("XDG_CACHE_HOME"):
        environment["XDG_CACHE_HOME"] = cache
    command = ["make", "run", f"BMV2_SWITCH_EXE={switch.name}"]
    typed = "\n".join((*exercise.commands, "exit", ""))
    with subprocess.Popen(
        command,
        cwd=work,
        env=environment,
        text=True,
        errors="replace",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            output, _ = process.communicate(typed, timeout=exercise.seconds + 60)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            output, _ = process.communicate()
            output += "\n(timed out)"
    return Outcome(output, work)


def kill_tree(root: int) -> None:
    """Kills a process and all its descendants: Mininet's shells, what they run, the switches."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    family = [root]
    for member in family:
        family += parents.get(member, [])
    for member in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
