# SPDX-License-Identifier: Apache-2.0
"""GOAL schedules as tasks: the text that LogGOPSim's `txt2bin` reads, and ATLAHS writes, and what it makes of it.

    num_ranks 2
    rank 0 {
    l1: calc 100
    l2: send 1024b to 1 tag 3
    l2 requires l1
    }
    rank 1 {
    l1: recv 1024b from 0 tag 3
    l2: calc 500 cpu 1
    l2 irequires l1
    }

Rank k is host k. A send is a message; a receive is a point in time: when its message is there and all that it requires
has happened. The k-th send to a rank with a tag belongs to the k-th receive from it with that tag, in the order of the
file (MPI's rule for messages of one sender, if what is to come first is written first). `calc` takes nanoseconds. What
requires a send waits until it is acknowledged (LogGOPSim: until the sender's processor is done with it); what irequires
waits for its beginning. A send of no bytes is one of a byte. Calculations of one rank and `cpu`
follow each other, those of different ones overlap; `nic` is read and means nothing here: a host has one.

Hoefler, Schneider and Lumsdaine, "LogGOPSim - Simulating Large-Scale Applications in the LogGOPS Model", 2010.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import numpy as np

from detour.base.errors import DetourError
from detour.base.times import NS
from detour.fabric.workloads.tasks import MAX_MESSAGE, TaskGraph, TaskList

_LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_HEAD = re.compile(r"num_ranks\s+(\d+)", re.ASCII)
_RANK = re.compile(r"rank\s+(\d+)\s*\{", re.ASCII)
_MESSAGE = re.compile(
    rf"(?:({_LABEL})\s*:\s*)?(send|recv)\s+(\d+)\s*b\s+(to|from)\s+(-1|\d+)"
    r"(?:\s+tag\s+(-1|\d+))?(?:\s+cpu\s+\d+)?(?:\s+nic\s+\d+)?",
    re.ASCII,
)
_CALC = re.compile(rf"(?:({_LABEL})\s*:\s*)?calc\s+(\d+)(?:\s+cpu\s+(\d+))?", re.ASCII)
_REQUIRES = re.compile(rf"({_LABEL})\s+(i?requires)\s+({_LABEL})", re.ASCII)
_SYNTAX = (
    "expected `[label:] send 8b to 1 [tag 2] [cpu 0] [nic 0]`, `[label:] recv 8b from 1 ...`, `[label:] calc 100 "
    "[cpu 0]`, `label requires label`, `label irequires label` or `}`"
)
_LONGEST_NS = 1 << 50

COOKIE = 4223
"""at the beginning of a binary schedule (LogGOPSim's Parser.hpp)"""
HEAD = struct.Struct("<IBB")
"""behind it: ranks, the highest processor and network interface; then where each rank's section begins and ends"""
SEND, RECV, CALC = 1, 2, 3
NODE = np.dtype([
    ("waits", "<u4"), ("kind", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"), ("cpu", "u1"), ("nic", "u1"),
    ("done_count", "<u4"), ("done_first", "<u4"), ("start_count", "<u4"), ("start_first", "<u4"),
])  # fmt: skip
"""an operation: for how many it waits, what it is, and where those are listed that wait for its end and beginning"""
_ANY = (1 << 32) - 1


@dataclass(frozen=True)
class _Message:
    """A send or a receive, by its line; which of them belong together is known when all of the file is."""

    task: int
    line: int
    size: int


@dataclass
class _Schedule:
    """The part of the file read so far. `sends`, `receives`: by source, destination and tag, in order."""

    file: Path
    ranks: int
    tasks: TaskList
    sends: dict[tuple[int, int, int], list[_Message]] = field(default_factory=dict)
    receives: dict[tuple[int, int, int], list[_Message]] = field(default_factory=dict)
    rank: int = -1
    labels: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[int, str, str, bool]] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def error(self, line: int, text: str) -> DetourError:
        return DetourError(f"GOAL schedule {self.file}, line {line}: {text}")

    def name(self, line: int, label: str | None) -> str:
        """Return a task's name for errors."""
        what = f" ({label})" if label else ""
        return f"{self.file}, line {line}{what}"


def read_goal(file: Path, hosts: int) -> TaskGraph:
    """The tasks of a schedule, on a fabric with so many hosts. Raises DetourError with the file, the line and the rule
    that is broken; also for receives from any source or with any tag, and messages that nobody receives or sends."""
    try:
        data = file.read_bytes()
        text = "\n".join(_lines_of(data)) if is_binary_goal(data) else data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is neither text nor a binary schedule"
        raise DetourError(f"GOAL schedule {file}: {reason}") from None
    except (struct.error, ValueError, IndexError):
        raise DetourError(f"GOAL schedule {file}: it is truncated or damaged") from None
    schedule: _Schedule | None = None
    for number, line in _statements(text):
        if schedule is None:
            schedule = _head(file, number, line, hosts)
        elif schedule.rank < 0:
            _begin_rank(schedule, number, line)
        else:
            _statement(schedule, number, line)
    if schedule is None:
        raise DetourError(f"GOAL schedule {file}: it is empty")
    if schedule.rank >= 0:
        raise DetourError(f"GOAL schedule {file}: the braces of rank {schedule.rank} are not closed")
    _match(schedule)
    return schedule.tasks.graph()


def is_goal(text: str) -> bool:
    """Return whether a text begins like a schedule."""
    first = next((line for _, line in _statements(text)), "")
    return _HEAD.fullmatch(first) is not None


def is_binary_goal(data: bytes) -> bool:
    """Return whether a file begins like a binary schedule."""
    return data[:8] == struct.pack("<Q", COOKIE)


def _lines_of(data: bytes) -> Iterator[str]:
    """The text of a binary schedule, a line an operation; errors name these. Raises struct.error, ValueError or
    IndexError if something is not there."""
    data = data[8:]
    ranks, _, _ = HEAD.unpack_from(data)
    yield f"num_ranks {ranks}"
    for rank in range(ranks):
        begin, end = struct.unpack_from("<QQ", data, HEAD.size + 16 * rank)
        count, roots = struct.unpack_from("<II", data, begin)
        at = begin + 8 + 4 * roots
        nodes = np.frombuffer(data, NODE, count, at)
        at += NODE.itemsize * count
        later = np.frombuffer(data[at:end], "<u4")
        if int(nodes["done_count"].sum() + nodes["start_count"].sum()) != len(later):
            raise ValueError
        yield f"rank {rank} {{"
        yield from map(_line_of, range(count), nodes.tolist())
        for name, word in (("done", "requires"), ("start", "irequires")):
            for number in np.flatnonzero(nodes[f"{name}_count"]).tolist():
                first = int(nodes[f"{name}_first"][number])
                some = later[first : first + int(nodes[f"{name}_count"][number])]
                yield from (f"l{then} {word} l{number}" for then in some.tolist())
        yield "}"


def _line_of(number: int, node: tuple[int, ...]) -> str:
    _, kind, peer, size, tag, cpu, nic, *_ = node
    if kind == CALC:
        return f"l{number}: calc {size} cpu {cpu}"
    name, way = {SEND: ("send", "to"), RECV: ("recv", "from")}.get(kind, ("operation", str(kind)))
    peer, tag = (-1 if value == _ANY else value for value in (peer, tag))
    return f"l{number}: {name} {size}b {way} {peer} tag {tag} cpu {cpu} nic {nic}"


def _statements(text: str) -> list[tuple[int, str]]:
    """Lines that say something, with their numbers, without comments; braces end a line."""
    # A comment keeps its line ends, so that lines keep their numbers.
    plain = re.sub(r"/\*.*?\*/", lambda statements: "\n" * statements[0].count("\n"), text, flags=re.DOTALL)
    statements: list[tuple[int, str]] = []
    for number, line in enumerate(plain.split("\n"), start=1):
        rest = line.split("//")[0]
        for part in re.split(r"(?<=\{)|(?=\})|(?<=\})", rest):
            if part.strip():
                statements.append((number, part.strip()))
    return statements


def _head(file: Path, number: int, line: str, hosts: int) -> _Schedule:
    match = _HEAD.fullmatch(line)
    if match is None:
        raise DetourError(f"GOAL schedule {file}, line {number}: it does not begin with `num_ranks` and a number")
    ranks = int(match[1][:10])
    if not 1 <= ranks <= hosts:
        raise DetourError(f"GOAL schedule {file}, line {number}: {ranks} ranks; the topology has {hosts} hosts")
    return _Schedule(file, ranks, TaskList(hosts))


def _begin_rank(schedule: _Schedule, number: int, line: str) -> None:
    match = _RANK.fullmatch(line)
    if match is None:
        raise schedule.error(number, f"{line!r:.60}; expected `rank 0 {{`")
    rank = int(match[1][:10])
    if rank >= schedule.ranks:
        raise schedule.error(number, f"rank {rank}; there are {schedule.ranks}, from 0 on")
    if rank in schedule.seen:
        raise schedule.error(number, f"rank {rank} appears twice")
    schedule.rank = rank
    schedule.seen.add(rank)
    schedule.labels.clear()


def _statement(schedule: _Schedule, number: int, line: str) -> None:
    if line == "}":
        _end_rank(schedule)
    elif (match := _MESSAGE.fullmatch(line)) is not None:
        _message(schedule, number, match)
    elif (match := _CALC.fullmatch(line)) is not None:
        time = int(match[2][:18])
        if time > _LONGEST_NS:
            raise schedule.error(number, f"calc {match[2]:.30}; expected at most 2**50 ns")
        name, cpu = schedule.name(number, match[1]), int((match[3] or "0")[:10])
        task = schedule.tasks.compute(schedule.rank, time * NS, unit=cpu, label=name)
        _define(schedule, number, match[1], task)
    elif (match := _REQUIRES.fullmatch(line)) is not None:
        # Labels may be used before they are defined.
        schedule.waiting.append((number, match[1], match[3], match[2] == "irequires"))
    else:
        raise schedule.error(number, f"{line!r:.60}; {_SYNTAX}")


def _define(schedule: _Schedule, number: int, label: str | None, task: int) -> None:
    if label is None:
        return
    if label in schedule.labels:
        raise schedule.error(number, f"label {label} appears twice in rank {schedule.rank}")
    schedule.labels[label] = task


def _message(schedule: _Schedule, number: int, match: re.Match[str]) -> None:
    label, kind, size, way, other, tag = match.groups()
    rank, sends = schedule.rank, kind == "send"
    if sends != (way == "to"):
        raise schedule.error(number, f"{kind} ... {way}; a send goes `to`, a recv comes `from` a rank")
    if other == "-1" or tag == "-1":
        what = "source" if other == "-1" else "tag"
        raise schedule.error(number, f"any {what} (-1): wildcard receives are not supported")
    peer, bytes_ = int(other[:10]), int(size[:20])
    if peer >= schedule.ranks:
        raise schedule.error(number, f"rank {peer}; there are {schedule.ranks}, from 0 on")
    if peer == rank:
        raise schedule.error(number, f"rank {rank} would send to itself")
    if bytes_ > MAX_MESSAGE:
        raise schedule.error(number, f"a message of {size:.30} bytes; expected at most 2**40")
    name, tasks = schedule.name(number, label), schedule.tasks
    if sends:
        task = tasks.message(rank, peer, max(bytes_, 1), label=name)
        schedule.sends.setdefault((rank, peer, int(tag or 0)), []).append(_Message(task, number, bytes_))
    else:
        task = tasks.compute(rank, 0, label=name)
        schedule.receives.setdefault((peer, rank, int(tag or 0)), []).append(_Message(task, number, bytes_))
    _define(schedule, number, label, task)


def _end_rank(schedule: _Schedule) -> None:
    for number, later, earlier, on_start in schedule.waiting:
        for label in (later, earlier):
            if label not in schedule.labels:
                raise schedule.error(number, f"label {label} is not defined in rank {schedule.rank}")
        schedule.tasks.wait(schedule.labels[later], schedule.labels[earlier], on_start=on_start)
    schedule.waiting.clear()
    schedule.rank = -1


def _match(schedule: _Schedule) -> None:
    """Receive wait for their messages."""
    for key in dict.fromkeys([*schedule.sends, *schedule.receives]):
        source, to, tag = key
        for send, receive in zip_longest(schedule.sends.get(key, ()), schedule.receives.get(key, ())):
            if receive is None:
                raise schedule.error(send.line, f"rank {to} has no recv from {source} with tag {tag} for this send")
            if send is None:
                raise schedule.error(receive.line, f"rank {source} has no send to {to} with tag {tag} for this recv")
            if send.size != receive.size:
                text = f"recv of {receive.size} bytes, but line {send.line} sends it {send.size}"
                raise schedule.error(receive.line, text)
            schedule.tasks.wait(receive.task, send.task)
