# SPDX-License-Identifier: Apache-2.0
"""Tasks of p4-utils' hosts: what each does by itself, some seconds after the network is up.

A line of a file is `HOST START DURATION EXE [ARGUMENT...] [--mod MODULE] [--KEY VALUE...]`, times in seconds. EXE is a
command, or a function: of p4-utils' `traffic_utils` (`send_udp_flow`, `recv_udp_flow`), or of a module that is named.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.quantities import rate_bps_of
from detour.fabric.labs.model import LabTask

TRAFFIC = "p4utils.utils.traffic_utils"
SENDS, RECEIVES = "send_udp_flow", "recv_udp_flow"
_SEND_USUAL = {
    "dst": "10.0.0.2", "sport": 5000, "dport": 5001, "tos": 0, "rate": "10M", "duration": 0, "packet_size": 1400,
}  # fmt: skip
_ENDLESS_S = 3600.0
"""of what a task does without an end"""


@dataclass
class P4UtilsTask:
    """The arguments of `NetworkAPI.addTask`. `module`: of a function; "": `exe` is a command."""

    node: str
    exe: str
    start: float = 0.0
    duration: float = 0.0
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    module: str = ""
    where: str = ""


def read_tasks(path: Path) -> list[P4UtilsTask]:
    """The tasks of a file. Raises DetourError: it cannot be read, or which line means nothing."""
    return [
        _read(line, f"{path}, line {number}")
        for number, line in enumerate(read_text(path).splitlines(), 1)
        if line.strip() and not line.startswith(("//", "#"))
    ]


def _read(line: str, where: str) -> P4UtilsTask:
    try:
        node, start, duration, exe, *words = shlex.split(line)
        task = P4UtilsTask(node, exe, float(start), float(duration), where=where)
    except ValueError:
        raise DetourError(f"{where}: expected HOST START DURATION EXE [ARGUMENT...] [--KEY VALUE...]") from None
    task.module = TRAFFIC if exe in (SENDS, RECEIVES) else ""
    while words:
        word = words.pop(0)
        if len(word) < 3 or not word.startswith("--"):
            task.args.append(word)
        elif not words:
            raise DetourError(f"{where}: {word} needs a value")
        elif word == "--mod":
            task.module = words.pop(0)
        else:
            task.kwargs[word[2:]] = words.pop(0)
    return task


def lab_task(task: P4UtilsTask, folder: Path) -> LabTask:
    """The task as a lab has it. `folder`: where a function's module lies. Raises DetourError: its values mean
    nothing."""
    if min(task.start, task.duration) < 0:
        raise DetourError(f"{task.where}: start and duration of a task are 0 or more seconds")
    workload, command = None, shlex.join([*shlex.split(task.exe), *map(str, task.args)])
    if not task.module:
        workload = _of_command(task, shlex.split(command))
    elif task.module == TRAFFIC and task.exe in (SENDS, RECEIVES):
        workload = "" if task.exe == RECEIVES else _of_sender(task)
    name = task.exe if task.module else command
    if task.module:
        call = f"{task.exe}(*{task.args!r}, **{task.kwargs!r})"
        code = f"import sys; sys.path.insert(0, {str(folder)!r}); from {task.module} import {task.exe}; {call}"
        command = f"exec python3 -c {shlex.quote(code)}"
    return LabTask(task.node, name, task.start, task.duration, command, workload, task.where)


def _of_sender(task: P4UtilsTask) -> str:
    """`send_udp_flow` in a workload's words. p4-utils makes packets of 13 bytes less than it says, and counts these."""
    values = {**_SEND_USUAL, **dict(zip(_SEND_USUAL, task.args, strict=False)), **task.kwargs}
    try:
        rate, size = rate_bps_of(str(values["rate"])), int(values["packet_size"]) - 13
        seconds = min((each for each in (float(values["duration"]), task.duration) if each > 0), default=_ENDLESS_S)
        ports = f"sport={int(values['sport'])},dport={int(values['dport'])},tos={int(values['tos'])}"
    except ValueError as error:
        raise DetourError(f"{task.where}: {task.exe}: {error}") from None
    except DetourError as error:
        raise DetourError(f"{task.where}: {task.exe}: rate: {error}") from None
    stream = f"udp:src={task.node},dst={values['dst']},rate={rate * size // (size + 13)},size={size}"
    return f"{stream},{ports},time={seconds}s,start={task.start}s"


def _of_command(task: P4UtilsTask, words: list[str]) -> str | None:
    """Return the built-in workload for a command: nothing for one that only waits for others; None: there is no such
    workload."""
    if words[:1] in (["iperf"], ["iperf3"]):
        if {"-s", "--server"} & set(words):
            return ""
        if task.duration and not {"-t", "-n"} & set(words):
            words = [*words, "-t", f"{task.duration:g}"]
    elif words[:1] == ["ping"]:
        if "-i" not in words:
            words = [*words[:1], "-i", "1", *words[1:]]
        if "-c" not in words:
            every = float(words[words.index("-i") + 1])
            words = [*words[:1], "-c", str(max(1, int((task.duration or _ENDLESS_S) / every))), *words[1:]]
    else:
        return "" if words[:1] in (["sleep"], ["true"], ["echo"]) else None
    return f"{task.node} {shlex.join(words)};start={task.start}s"
