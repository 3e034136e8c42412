# SPDX-License-Identifier: Apache-2.0
"""CPU ports of p4-utils' switches as interfaces, on which its controllers sniff and send: `s1-cpu-eth1`.

They are TAP devices in the namespace of who boots the lab, and end with that process. P4Runtime's packet-ins are
another thing: p4-utils' switches have none at these ports.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from detour.base.errors import DetourError
from detour.fabric.labs.boot import BootedLab
from detour.fabric.labs.model import Lab
from detour.fabric.linux.opening import kind


def cpu_interface(switch: str) -> str:
    """What the controllers' end of a switch's CPU port is called."""
    return f"{switch}-cpu-eth1"


def has_cpu_interfaces(lab: Lab) -> bool:
    """Whether a lab expects such interfaces and this user can have them: root, with /dev/net/tun."""
    return lab.topology is not None and os.geteuid() == 0 and kind() == "tap"


def attach_cpu_interfaces(booted: BootedLab) -> None:
    """Makes them.

    Raises:
        DetourError: an interface of that name is there already, or the kernel does not allow it.
    """
    for switch in booted.lab.switches:
        if switch.cpu_port is None:
            continue
        name = cpu_interface(switch.name)
        with suppress(OSError):
            socket.if_nametoindex(name)
            raise DetourError(
                f"{switch.where}: there is an interface {name} already; the CPU port of {switch.name} needs it"
            )
        booted.network.attach_interface((switch.device_id, switch.cpu_port), name)
        with suppress(OSError):  # a kernel without IPv6 sends nothing by itself
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
