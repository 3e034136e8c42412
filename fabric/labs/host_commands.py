# SPDX-License-Identifier: Apache-2.0
"""What a lab tells its hosts to do at first, as far as hosts without a shell can: routes and neighbours."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Sequence
from dataclasses import replace

from detour.base.errors import DetourError
from detour.fabric.labs.model import IpAddress, LabHost, mac_of

_WITHOUT_EFFECT = ("ethtool", "sysctl", "echo", "true", "sleep")
_UNDERSTOOD = (
    "`route add default gw IP`, `ip route add default via IP`, `ip route add NET dev DEV`, `arp -s IP MAC`, "
    "`ip neigh add IP lladdr MAC`, and without effect " + ", ".join(_WITHOUT_EFFECT)
)


def configured(host: LabHost) -> LabHost:
    """The host with what its commands say.

    Raises:
        DetourError: one of them is not understood, and which are.
    """
    for command in host.commands:
        words = [word for word in _words(command, host.where) if word != "sudo"]
        where = f"{host.where}: the command {command!r}"
        done = _route(host, words, where) or _neighbour(host, words, where)
        if done is None and words and words[0] not in _WITHOUT_EFFECT:
            raise DetourError(f"{where} is not understood by built-in hosts, which know {_UNDERSTOOD}")
        host = done or host
    return host


def _words(command: str, where: str) -> list[str]:
    try:
        return shlex.split(command)
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
            if direct != host.address.network:
                raise DetourError(f"{where}: built-in hosts have one network, {host.address.network}")
            return host
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
    known = {**dict(host.neighbours), _address(address, where): mac_of(mac, where)}
    return replace(host, neighbours=tuple(known.items()))


def _address(text: str, where: str) -> IpAddress:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise DetourError(f"{where}: {text!r} is not an IP address") from None
