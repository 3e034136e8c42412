# SPDX-License-Identifier: Apache-2.0
"""Workloads of lab hosts, in words: `ping`, `udp:src=h1,dst=h2,rate=10M`, `tcp:src=h1,dst=h2,bytes=1M`.

Several at once are separated by `;`. `dst` is a host, or an address that the program knows (a balancer's). What people
type at Mininet's prompt is understood as well: `h1 ping -c 3 h2`, `h1 iperf -c h2 -t 5`, `pingall`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError, told_of
from detour.base.quantities import bytes_of, rate_bps_of, time_ps_of, whole_number_of
from detour.base.times import MS
from detour.fabric.labs.model import IpAddress, Lab
from detour.fabric.tracing.frames import ethernet_of, read_capture
from detour.topo.spec import check_keys, split_spec

SECOND_PS = 1_000 * MS
FIRST_SOURCE_PORT, _IPERF_PORT = 40_000, 5_201
"""of flows of which nobody says the source port, which are numbered when they begin"""
_MODELS = ("constant", "poisson", "onoff")
_MOST_PORT = 65_535


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
    dport: int = _IPERF_PORT
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
    """Parse a workload for a lab. Raises DetourError: the part that is wrong, and what is allowed."""
    activities: list[Activity] = []
    for part in text.split(";"):
        spec = _typed(lab, part.strip())
        kind, values = split_spec(spec)
        if kind not in _KEYS:
            raise DetourError(f"there is no workload {kind!r} for labs; there is {', '.join(_KEYS)}")
        check_keys(spec, values, *_KEYS[kind])
        activities += _MEANINGS[kind](_Part(lab, spec, kind, values))
    if not activities:
        raise DetourError(f"{text!r}: there is no traffic; the lab has {len(lab.hosts)} host")
    return activities


def task_activities(lab: Lab, without: Container[str] = ()) -> list[Activity]:
    """Return the built-in hosts' own tasks. `without`: hosts that are not built in. Raises DetourError: the task that
    is wrong."""
    activities: list[Activity] = []
    for task in lab.tasks:
        if task.host in without or not task.workload:
            continue
        workload, _, start = task.workload.partition(";")
        with told_of(task.where):
            activities += activities_of(lab, f"{_typed(lab, workload)},{start}" if start else workload)
    return activities


def check_tasks(lab: Lab, with_shell: Container[str] = ()) -> None:
    """See that every host can do its tasks. Raises DetourError: a built-in host is to do what it cannot, or a task
    means nothing."""
    for task in lab.tasks:
        if task.workload is None and task.host not in with_shell:
            raise DetourError(
                f"{task.where}: built-in hosts do not support the task {task.name!r} (only ping, iperf and "
                f"p4-utils' UDP flows); `detour up --linux {task.host}` runs it in a Linux shell"
            )
    task_activities(lab, with_shell)


# -- parts ----------------------------------------------------------------------------------------------------


_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ping": ((), ("src", "dst", "count", "interval", "size", "start")),
    "udp": (("src", "dst", "rate"), ("size", "time", "start", "sport", "dport", "flows", "model", "ecn", "tos")),
    "tcp": (("src", "dst"), ("bytes", "time", "start", "sport", "dport", "flows", "cc")),
    "iperf": (("src", "dst"), ("bytes", "time", "start", "sport", "dport", "flows", "cc")),
    "frames": (("src", "file"), ("interval", "count", "start", "ethernet")),
}
"""by kind: what must be said, and what may be"""
_FIELDS = {"interval": "interval_ps", "time": "time_ps", "start": "start_ps", "cc": "control"}
"""keys whose field of an activity is called otherwise"""
_MOST_SIZE = {"ping": 1_400, "udp": 1_472}


@dataclass(frozen=True)
class _Part:
    """A part of a workload and its values as they are written."""

    lab: Lab
    text: str
    kind: str
    values: Mapping[str, str]

    def get(self, key: str, default: Any = None) -> Any:
        """A value, or what it is by default."""
        read = (lambda text: whole_number_of(text, _MOST_SIZE[self.kind])) if key == "size" else _READERS[key]
        return self.read(key, read) if key in self.values else default

    def read(self, key: str, read: Callable[[str], Any]) -> Any:
        """A value that is given."""
        with told_of(f"{self.text!r}: {key}"):
            return read(self.values[key])

    def fields(self, *keys: str) -> dict[str, Any]:
        """Return the given fields of an activity."""
        return {_FIELDS.get(key, key): self.get(key) for key in keys if key in self.values}

    @property
    def source(self) -> str:
        """The name of the host that sends."""
        return self.lab.host(self.values["src"]).name

    @property
    def target(self) -> IpAddress:
        """The address of the host that gets it, or another one as it is said."""
        text = self.values["dst"]
        try:
            return ipaddress.ip_address(text)
        except ValueError:
            return self.lab.host(text).address.ip

    def source_ports(self) -> Iterator[int]:
        """Yield the source port of each flow: consecutive ports if the first is given, else 0."""
        first = self.get("sport", 0)
        for number in range(self.get("flows", 1)):
            if first and first + number > _MOST_PORT:
                raise DetourError(f"{self.text!r}: port {first + number} is beyond {_MOST_PORT}")
            yield first + number if first else 0


def _pings(part: _Part) -> Iterator[EchoTrain]:
    names = [host.name for host in part.lab.hosts]
    sources = [part.source] if "src" in part.values else names
    if "dst" in part.values:
        pairs = [(source, part.target) for source in sources]
    else:
        pairs = [(a, part.lab.host(b).address.ip) for a, b in permutations(names, 2) if a in sources]
    for source, to in pairs:
        if part.lab.host(source).address.ip != to:
            yield EchoTrain(source, to, **part.fields("count", "interval", "size", "start"))


def _streams(part: _Part) -> Iterator[UdpStream]:
    rate = max(part.get("rate") // part.get("flows", 1), 1)
    tos = part.get("tos", 0) | part.get("ecn", 0)
    given = part.fields("dport", "size", "time", "start", "model")
    for port in part.source_ports():
        yield UdpStream(part.source, part.target, rate, port, tos=tos, **given)


def _flows(part: _Part) -> Iterator[TcpFlow]:
    if {"bytes", "time"} <= part.values.keys():
        raise DetourError(f"{part.text!r}: bytes and time do not go together")
    size = part.get("bytes")
    if size is None and "time" not in part.values and part.kind == "tcp":
        size = 10**6
    time_ps = part.get("time", SECOND_PS) if size is None else None
    for port in part.source_ports():
        to, dport = part.target, part.get("dport", _IPERF_PORT)
        yield TcpFlow(part.source, to, port, dport, size, time_ps, **part.fields("start", "cc"))


def _frames(part: _Part) -> Iterator[FrameTrain]:
    mac, ethernet = part.lab.host(part.source).mac, None
    if "ethernet" in part.values:
        ethernet = part.read("ethernet", lambda text: ethernet_of(text, mac))
    frames = part.read("file", lambda text: read_capture(Path(text), ethernet))
    yield FrameTrain(part.source, tuple(frames), **part.fields("interval", "count", "start"))


_MEANINGS: dict[str, Callable[[_Part], Iterator[Activity]]] = {
    "ping": _pings, "udp": _streams, "tcp": _flows, "iperf": _flows, "frames": _frames,
}  # fmt: skip


def _up_to(most: int, least: int = 1) -> Callable[[str], int]:
    return lambda text: whole_number_of(text, most, least)


def _some_time(text: str) -> int:
    time_ps = time_ps_of(text)
    if not time_ps:
        raise DetourError(f"{text!r} is not a time above 0")
    return time_ps


def _model(text: str) -> str:
    if text not in _MODELS:
        raise DetourError(f"there is no {text!r}; there is {', '.join(_MODELS)}")
    return text


_READERS: dict[str, Callable[[str], Any]] = {
    "count": _up_to(10**6), "flows": _up_to(4_096), "sport": _up_to(_MOST_PORT), "dport": _up_to(_MOST_PORT),
    "interval": _some_time, "time": _some_time, "start": time_ps_of, "rate": rate_bps_of, "bytes": bytes_of,
    "model": _model, "ecn": _up_to(2, 0), "tos": _up_to(255, 0), "cc": str,
}  # fmt: skip


# -- what people type at Mininet's prompt -----------------------------------------------------------------------


_IPERF_RATE = "1M"
"""iperf's own, of UDP"""
_PROGRAMS = "ping [-c N] [-i S] [-s BYTES] HOST; iperf or iperf3 -c HOST [-t S] [-n BYTES] [-u [-b RATE]] [-l BYTES] " \
    "[-p PORT] [-P FLOWS] [-C CC] [-S TOS]"  # fmt: skip
_PING = {"-c": "count", "-i": "interval", "-s": "size"}
_IPERF = {"-c": "dst", "-t": "time", "-n": "bytes", "-b": "rate", "-l": "size", "-p": "dport", "-P": "flows",
          "-C": "cc", "-Z": "cc", "-S": "tos"}  # fmt: skip
_SECONDS = ("interval", "time")


def _typed(lab: Lab, text: str) -> str:
    """A part of a workload in its own words; what is in them already stays. Raises DetourError: a host is to run what
    built-in hosts have not, or with an option that they do not know."""
    words = text.split()
    if words == ["pingall"]:
        return "ping:count=1"
    if len(words) < 2 or words[0] not in {host.name for host in lab.hosts}:
        return text
    source, program, *rest = words
    if program == "ping":
        kind, values = "ping", _ping(rest, text)
    elif program in ("iperf", "iperf3"):
        values = _iperf(rest, text)
        kind = "udp" if "rate" in values else "iperf"
    else:
        raise DetourError(f"{text!r}: built-in hosts have no {program}; they have {_PROGRAMS}")
    return f"{kind}:{','.join(f'{key}={value}' for key, value in {'src': source, **values}.items())}"


def _ping(words: Sequence[str], text: str) -> dict[str, str]:
    values, rest = _options(words, _PING, (), text)
    if len(rest) != 1:
        raise DetourError(f"{text!r}: expected one host to ping; {_PROGRAMS}")
    return values | {"dst": rest[0]}


def _iperf(words: Sequence[str], text: str) -> dict[str, str]:
    values, rest = _options(words, _IPERF, ("-u",), text)
    if "dst" not in values or rest not in ([], ["-u"]):
        raise DetourError(f"{text!r}: servers start automatically; {_PROGRAMS}")
    if rest:
        values.setdefault("rate", _IPERF_RATE)
    elif {"rate", "size", "tos"} & values.keys():
        raise DetourError(f"{text!r}: -b, -l and -S are for -u")
    return values


def _options(
    words: Sequence[str], names: dict[str, str], flags: Sequence[str], text: str
) -> tuple[dict[str, str], list[str]]:
    """(values of options by our names, what is left)."""
    values: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word in names:
            value, key = next(left, None), names[word]
            if value is None:
                raise DetourError(f"{text!r}: {word} needs a value; {_PROGRAMS}")
            values[key] = f"{value}s" if key in _SECONDS and value[-1:].isdigit() else value
        elif word.startswith("-") and word not in flags:
            raise DetourError(f"{text!r}: there is no option {word}; {_PROGRAMS}")
        else:
            rest.append(word)
    return values, rest
