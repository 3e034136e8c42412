# SPDX-License-Identifier: Apache-2.0
"""What hosts of a lab do in virtual time, in words: `ping`, `udp:src=h1,dst=h2,rate=10M`, `tcp:src=h1,dst=h2,bytes=1M`.

Several at once are separated by `;`. `dst` is a host, or an address that the program knows (a balancer's). What people
type at Mininet's prompt is understood as well (`typed`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import TypeVar

from detour.base.errors import DetourError
from detour.base.quantities import bytes_of, rate_bps_of, time_ps_of, whole_number_of
from detour.base.times import MS
from detour.fabric.labs.model import IpAddress, Lab
from detour.fabric.labs.typed import typed
from detour.fabric.tracing.frames import ethernet_of, read_capture
from detour.topo.keyvalues import check_keys, split_spec

T = TypeVar("T")

SECOND_PS = 1_000 * MS
MODELS = ("constant", "poisson", "onoff")
_MOST_FLOWS = 4_096
_PORT = 65_535
FIRST_SOURCE_PORT, _IPERF_PORT = 40_000, 5_201
"""of flows of which nobody says the source port, which are numbered when they begin"""
KINDS = ("ping", "udp", "tcp", "iperf", "frames")
_OPTIONAL = {
    "ping": ("src", "dst", "count", "interval", "size", "start"),
    "udp": ("size", "time", "start", "sport", "dport", "flows", "model", "ecn", "tos"),
    "tcp": ("bytes", "time", "start", "sport", "dport", "flows", "cc"),
    "iperf": ("bytes", "time", "start", "sport", "dport", "flows", "cc"),
    "frames": ("interval", "count", "start", "ethernet"),
}


@dataclass(frozen=True)
class EchoTrain:
    """Echo requests. `size`: bytes of data in each."""

    src: str
    dst: IpAddress
    count: int = 3
    interval_ps: int = 10 * MS
    size: int = 56
    start_ps: int = 0


@dataclass(frozen=True)
class UdpStream:
    """`size`: bytes of payload in each packet, `rate_bps`: of payload. `tos`: DSCP and ECN. `sport` 0: any."""

    src: str
    dst: IpAddress
    rate_bps: int
    sport: int
    dport: int
    size: int = 1_000
    time_ps: int = SECOND_PS
    start_ps: int = 0
    model: str = "constant"
    tos: int = 0


@dataclass(frozen=True)
class TcpFlow:
    """So many bytes, or as many as go in a time. `sport` 0: any."""

    src: str
    dst: IpAddress
    sport: int
    dport: int
    bytes: int | None
    time_ps: int | None
    start_ps: int = 0
    control: str = "cubic"


@dataclass(frozen=True)
class FrameTrain:
    """Frames as they are, one every `interval_ps`; all of them `count` times."""

    src: str
    frames: tuple[bytes, ...]
    interval_ps: int = 10 * MS
    count: int = 1
    start_ps: int = 0


Activity = EchoTrain | UdpStream | TcpFlow | FrameTrain


def activities_of(lab: Lab, text: str) -> list[Activity]:
    """What a workload means in a lab.

    Raises:
        DetourError: which part of it means nothing, and what is allowed.
    """
    found: list[Activity] = []
    for said_part in text.split(";"):
        part = typed(lab, said_part.strip())
        name, values = split_spec(part)
        if name not in KINDS:
            raise DetourError(f"there is no workload {name!r} for labs; there is {', '.join(KINDS)}")
        required = _REQUIRED.get(name, ("src", "dst"))
        check_keys(part, values, required, _OPTIONAL[name])
        said = _Said(lab, part, values)
        found += _MEANINGS.get(name, _flows)(said, name)
    if not found:
        raise DetourError(f"{text!r}: nobody does anything; the lab has {len(lab.hosts)} host")
    return found


def task_activities(lab: Lab, without: Container[str] = ()) -> list[Activity]:
    """What built-in hosts do by themselves. `without`: hosts that are not built in.

    Raises:
        DetourError: which task means nothing.
    """
    found: list[Activity] = []
    for task in lab.tasks:
        if task.host in without or not task.workload:
            continue
        said, _, start = task.workload.partition(";")
        try:
            found += activities_of(lab, f"{typed(lab, said)},{start}" if start else said)
        except DetourError as error:
            raise DetourError(f"{task.where}: {error}") from None
    return found


def check_tasks(lab: Lab, with_shell: Container[str] = ()) -> None:
    """Sees that every host can do its tasks.

    Raises:
        DetourError: a built-in host is to do what it cannot, or a task means nothing.
    """
    for task in lab.tasks:
        if task.workload is None and task.host not in with_shell:
            raise DetourError(
                f"{task.where}: built-in hosts cannot do the task {task.name!r} (they know ping, iperf and "
                f"p4-utils' UDP flows); with `detour up --linux {task.host}` a shell of Linux does it"
            )
    task_activities(lab, with_shell)


@dataclass(frozen=True)
class _Said:
    """A part of a workload and its values."""

    lab: Lab
    text: str
    values: dict[str, str]

    def get(self, key: str, read: Callable[[str], T], default: T) -> T:
        """A value, or what it is by default."""
        if key not in self.values:
            return default
        try:
            return read(self.values[key])
        except DetourError as error:
            raise DetourError(f"{self.text!r}: {key}: {error}") from None

    def number(self, key: str, most: int, default: int) -> int:
        """A whole number from 1 on."""
        return self.get(key, lambda text: whole_number_of(text, most), default)

    def host(self, key: str) -> str:
        """The name of a host."""
        return self.lab.host(self.values[key]).name

    def address(self, key: str) -> IpAddress:
        """That of a host, or as it is said."""
        text = self.values[key]
        try:
            return ipaddress.ip_address(text)
        except ValueError:
            return self.lab.host(text).address.ip


def _pings(said: _Said, _: str) -> Iterator[EchoTrain]:
    names = [host.name for host in said.lab.hosts]
    sources = [said.host("src")] if "src" in said.values else names
    if "dst" in said.values:
        to = said.address("dst")
        pairs = [(source, to) for source in sources if said.lab.host(source).address.ip != to]
    else:
        every = permutations(names, 2)
        pairs = [(a, said.lab.host(b).address.ip) for a, b in every if a in sources]
    for source, to in pairs:
        yield EchoTrain(
            source,
            to,
            said.number("count", 10**6, 3),
            said.get("interval", _some_time, 10 * MS),
            said.number("size", 1_400, 56),
            said.get("start", time_ps_of, 0),
        )


def _streams(said: _Said, _: str) -> Iterator[UdpStream]:
    count = said.number("flows", _MOST_FLOWS, 1)
    rate = said.get("rate", rate_bps_of, 0)
    for number in range(count):
        yield UdpStream(
            said.host("src"),
            said.address("dst"),
            max(rate // count, 1),
            _source_port(said, number),
            said.number("dport", _PORT, _IPERF_PORT),
            said.number("size", 1_472, 1_000),
            said.get("time", _some_time, SECOND_PS),
            said.get("start", time_ps_of, 0),
            said.get("model", _model, "constant"),
            said.get("tos", _tos, 0) | said.get("ecn", _ecn, 0),
        )


def _frames(said: _Said, _: str) -> Iterator[FrameTrain]:
    mac = said.lab.host(said.host("src")).mac
    ethernet = said.get("ethernet", lambda text: ethernet_of(text, mac), None)
    yield FrameTrain(
        said.host("src"),
        tuple(said.get("file", lambda text: read_capture(Path(text), ethernet), [])),
        said.get("interval", _some_time, 10 * MS),
        said.number("count", 10**6, 1),
        said.get("start", time_ps_of, 0),
    )


def _flows(said: _Said, name: str) -> Iterator[TcpFlow]:
    if {"bytes", "time"} <= said.values.keys():
        raise DetourError(f"{said.text!r}: bytes and time do not go together")
    size = said.get("bytes", bytes_of, None)
    if size is None and "time" not in said.values and name == "tcp":
        size = 10**6
    for number in range(said.number("flows", _MOST_FLOWS, 1)):
        yield TcpFlow(
            said.host("src"),
            said.address("dst"),
            _source_port(said, number),
            said.number("dport", _PORT, _IPERF_PORT),
            size,
            said.get("time", _some_time, SECOND_PS) if size is None else None,
            said.get("start", time_ps_of, 0),
            said.values.get("cc", "cubic"),
        )


_REQUIRED = {"ping": (), "udp": ("src", "dst", "rate"), "frames": ("src", "file")}
_MEANINGS = {"ping": _pings, "udp": _streams, "frames": _frames}


def _source_port(said: _Said, number: int) -> int:
    """Another one for each flow, if it is said; else 0."""
    first = said.number("sport", _PORT, 0)
    if first and first + number > _PORT:
        raise DetourError(f"{said.text!r}: port {first + number} is beyond {_PORT}")
    return first + number if first else 0


def _some_time(text: str) -> int:
    found = time_ps_of(text)
    if not found:
        raise DetourError(f"{text!r} is no time above 0")
    return found


def _model(text: str) -> str:
    if text not in MODELS:
        raise DetourError(f"there is no {text!r}; there is {', '.join(MODELS)}")
    return text


def _ecn(text: str) -> int:
    if text not in ("0", "1", "2"):
        raise DetourError(f"{text!r}: 0 (not capable), 1 and 2 (capable) are possible")
    return int(text)


def _tos(text: str) -> int:
    try:
        found = int(text, 0)
    except ValueError:
        found = -1
    if not 0 <= found <= 255:
        raise DetourError(f"{text!r} is not a number from 0 to 255")
    return found
