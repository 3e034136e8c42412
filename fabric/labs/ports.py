# SPDX-License-Identifier: Apache-2.0
"""Other P4Runtime and Thrift ports than those that a lab names, so that several labs can be up at a time."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from detour.base.errors import DetourError
from detour.fabric.labs.model import Lab

_FREE = "free"
_KEYS = ("grpc_port", "thrift_port")
_LAST = 65_535


def with_ports(lab: Lab, text: str) -> Lab:
    """The lab with ports that are larger by a number, or with `free` ones. Raises DetourError: it is neither, or a port
    would be out of range."""
    named = [port for switch in lab.switches for key in _KEYS if (port := getattr(switch, key)) is not None]
    if text == _FREE:
        with _free_ports(len(named)) as free:
            ports = dict(zip(named, free, strict=True))
    elif text.isdecimal() and max(named, default=0) + int(text) <= _LAST:
        ports = {port: port + int(text) for port in named}
    else:
        most = _LAST - max(named, default=0)
        raise DetourError(f"--ports {text}: wanted is {_FREE}, or a number to add to the lab's ports, {most} at most")
    switches = [replace(each, **{key: ports.get(getattr(each, key)) for key in _KEYS}) for each in lab.switches]
    topology = None if lab.topology is None else json.loads(lab.topology)
    for node in [] if topology is None else topology["nodes"]:
        node.update({key: ports[node[key]] for key in _KEYS if node.get(key) in ports})
    return replace(lab, switches=tuple(switches), topology=topology and json.dumps(topology))


@contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    """Ports of loopback that nobody has, kept while it lasts."""
    with ExitStack() as kept:
        sockets = [kept.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
