# SPDX-License-Identifier: Apache-2.0
"""Initial commands of a lab to its hosts: routes and neighbours, which every host can have, and commands that need a
shell."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Container, Sequence
from dataclasses import replace

from detour.base.errors import DetourError
from detour.fabric.labs.model import IpAddress, Lab, LabHost, mac_of

_WITHOUT_EFFECT = ("ethtool", "sysctl", "echo", "true", "sleep")
_UNDERSTOOD = (
    "`route add default gw IP`, `ip route add default via IP`, `ip route add NET dev DEV`, `arp -s IP MAC`, "
    "`ip neigh add IP lladdr MAC`, and without effect " + ", ".join(_WITHOUT_EFFECT)
)


def configured(host: LabHost) -> LabHost:
    """The host with what its commands say of routes and neighbours; the others are its `shell`. Raises DetourError: one
    of them cannot be read, or names what is not an address."""
    shell: list[str] = []
    for command in host.commands:
        words = _without_sudo(command, host.where)
        where = f"{host.where}: the command {command!r}"
        done = _route(host, words, where) or _neighbour(host, words, where)
        if done is None:
            shell.append(command)
        host = done or host
    return replace(host, shell=tuple(shell))


def check_commands(lab: Lab, with_shell: Container[str] = ()) -> None:
    """See that every host can do what the lab tells it to.

    Args:
        with_shell: names of hosts that have one.

    Raises DetourError if a built-in host is told what it does not understand; it says what it would.
    """
    for host in lab.hosts:
        for command in () if host.name in with_shell else host.shell:
            words = _without_sudo(command, host.where)
            if words and words[0] not in _WITHOUT_EFFECT:
                raise DetourError(
                    f"{host.where}: the command {command!r} is not supported by built-in hosts (only "
                    f"{_UNDERSTOOD}); `detour up --linux {host.name}` runs it in a Linux shell"
                )


def for_shell(host: LabHost) -> list[str]:
    """Return the commands that need a shell. Offloads are off at Linux hosts anyhow."""
    return [each for each in host.shell if _without_sudo(each, host.where)[:1] != ["ethtool"]]


def _without_sudo(command: str, where: str) -> list[str]:
    try:
        return [word for word in shlex.split(command) if word != "sudo"]
    except ValueError as error:
        raise DetourError(f"{where}: the command {command!r}: {error}") from None


def _route(host: LabHost, words: Sequence[str], where: str) -> LabHost | None:
    """With a default route; a route to the link itself is there already."""
    match words:
        case ["route", "add", "default", "gw", address, *_]:
            return replace(host, gateway=_address(address, where))
        case ["ip", "route", "add" | "replace", "default", "via", address, *_]:
            return replace(host, gateway=_address(address, where))
        case ["ip", "route", "add" | "replace", network, "dev", *_]:
            try:
                direct = ipaddress.ip_network(network, strict=False)
            except ValueError:
                raise DetourError(f"{where}: {network!r} is not a network, like 10.0.1.0/24") from None
            return host if direct == host.address.network else None
    return None


def _neighbour(host: LabHost, words: Sequence[str], where: str) -> LabHost | None:
    match words:
        case ["arp", *options, "-s", address, mac] | ["arp", "-s", address, mac, *options]:
            if options and options[0] != "-i":
                return None
        case ["ip", "neigh" | "neighbor", "add" | "replace", address, "lladdr", mac, *_]:
            pass
        case _:
            return None
    neighbours = {**dict(host.neighbours), _address(address, where): mac_of(mac, where)}
    return replace(host, neighbours=tuple(neighbours.items()))


def _address(text: str, where: str) -> IpAddress:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise DetourError(f"{where}: {text!r} is not an IP address") from None
