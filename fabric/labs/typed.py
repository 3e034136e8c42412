# SPDX-License-Identifier: Apache-2.0
"""What people type at Mininet's prompt, as a workload: `h1 ping -c 3 h2`, `h1 iperf -c h2 -t 5`, `pingall`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from detour.base.errors import DetourError
from detour.fabric.labs.model import Lab

_IPERF_RATE = "1M"
"""iperf's own, of UDP"""
_PROGRAMS = "ping [-c N] [-i S] [-s BYTES] HOST; iperf or iperf3 -c HOST [-t S] [-n BYTES] [-u [-b RATE]] [-l BYTES] " \
    "[-p PORT] [-P FLOWS] [-C CC] [-S TOS]"  # fmt: skip
_PING = {"-c": "count", "-i": "interval", "-s": "size"}
_IPERF = {"-c": "dst", "-t": "time", "-n": "bytes", "-b": "rate", "-l": "size", "-p": "dport", "-P": "flows",
          "-C": "cc", "-Z": "cc", "-S": "tos"}  # fmt: skip
_SECONDS = ("interval", "time")


def typed(lab: Lab, text: str) -> str:
    """A part of a workload in its own words; what is in them already stays.

    Raises:
        DetourError: a host is to run what built-in hosts have not, or with an option that they do not know.
    """
    words = text.split()
    if words == ["pingall"]:
        return "ping:count=1"
    if len(words) < 2 or words[0] not in {host.name for host in lab.hosts}:
        return text
    meaning = _MEANINGS.get(words[1])
    if meaning is None:
        raise DetourError(f"{text!r}: built-in hosts have no {words[1]}; they have {_PROGRAMS}")
    values = meaning(words[2:], text)
    return (
        f"{_kind(words[1], values)}:{','.join(f'{key}={value}' for key, value in {'src': words[0], **values}.items())}"
    )


def _kind(program: str, values: dict[str, str]) -> str:
    if program == "ping":
        return "ping"
    return "udp" if "rate" in values else "iperf"


def _ping(words: Sequence[str], text: str) -> dict[str, str]:
    values, rest = _options(words, _PING, (), text)
    if len(rest) != 1:
        raise DetourError(f"{text!r}: wanted is one host to ping; {_PROGRAMS}")
    return values | {"dst": rest[0]}


def _iperf(words: Sequence[str], text: str) -> dict[str, str]:
    values, rest = _options(words, _IPERF, ("-u",), text)
    udp = "-u" in rest
    if "dst" not in values or rest not in ([], ["-u"]):
        raise DetourError(f"{text!r}: servers are there by themselves; {_PROGRAMS}")
    if udp:
        values.setdefault("rate", _IPERF_RATE)
    elif "rate" in values or "size" in values or "tos" in values:
        raise DetourError(f"{text!r}: -b, -l and -S are for -u")
    return values


_MEANINGS: dict[str, Callable[[Sequence[str], str], dict[str, str]]] = {
    "ping": _ping,
    "iperf": _iperf,
    "iperf3": _iperf,
}


def _options(
    words: Sequence[str], known: dict[str, str], flags: Sequence[str], text: str
) -> tuple[dict[str, str], list[str]]:
    """(values of options by our names, what is left)."""
    values: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word in known:
            if not left:
                raise DetourError(f"{text!r}: {word} wants a value; {_PROGRAMS}")
            value, key = left.pop(0), known[word]
            values[key] = f"{value}s" if key in _SECONDS and value[-1:].isdigit() else value
        elif word.startswith("-") and word not in flags:
            raise DetourError(f"{text!r}: there is no option {word}; {_PROGRAMS}")
        else:
            rest.append(word)
    return values, rest
