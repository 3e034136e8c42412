# SPDX-License-Identifier: Apache-2.0
"""`standard`: ports and what they are attached to."""

from __future__ import annotations

from detour.base.errors import DetourError
from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.device import BmDevice
from detour.engine.bmv2api.queues import Queues
from detour.engine.bmv2api.types import DevMgrCode, InvalidDevMgrOperation, PortInfo


class PortCalls(CallPart):
    """See the module."""

    def __init__(self, device: BmDevice, queues: Queues) -> None:
        super().__init__(device)
        self._queues = queues

    def bm_dev_mgr_add_port(self, iface_name: str, port_num: int, pcap_path: str) -> None:
        """`pcap_path`: BMv2 then writes what passes; here nothing does, so it is refused."""
        if pcap_path:
            raise DetourError("port_add: a path for captures is not supported; start the switch with --pcap")
        try:
            self.device.network.attach_interface((self.device.switch, port_num), iface_name)
        except (DetourError, OSError) as error:
            raise InvalidDevMgrOperation(DevMgrCode.ERROR) from error
        self.device.interfaces[port_num] = iface_name
        self._queues.added(port_num)

    def bm_dev_mgr_remove_port(self, port_num: int) -> None:
        try:
            self.device.network.detach_interface((self.device.switch, port_num))
        except DetourError as error:
            raise InvalidDevMgrOperation(DevMgrCode.ERROR) from error
        self.device.interfaces.pop(port_num, None)

    def bm_dev_mgr_show_ports(self) -> list[PortInfo]:
        network, switch = self.device.network, self.device.switch
        stats = network.port_stats()
        up = {
            int(port): bool(is_up)
            for device, port, is_up in zip(stats["device_id"], stats["port"], stats["up"], strict=True)
            if device == switch
        }
        names = self.device.interfaces
        shown = (port for port in sorted(network.ports(switch)) if port in names)
        return [PortInfo(port, names[port], up.get(port, False)) for port in shown]
