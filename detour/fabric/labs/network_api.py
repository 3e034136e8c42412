# SPDX-License-Identifier: Apache-2.0
"""The module that scripts written for p4-utils import as `p4utils.mininetlib.network_API`: the same names, which put a
network together and start nothing.

Names are those of nsg-ethz/p4-utils; what has no counterpart here is refused by name, what only matters to Mininet
(logs, captures, its prompt) does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from detour.base.errors import DetourError
from detour.fabric.labs.model import natural
from detour.fabric.labs.p4app import ADD_LINK_OPTIONS, link_options
from detour.fabric.labs.p4utils_network import CPU_NODE, P4UtilsNetwork, P4UtilsNode, assign
from detour.fabric.labs.p4utils_tasks import TRAFFIC, P4UtilsTask, read_tasks

_WITHOUT_EFFECT = frozenset((
    "setLogLevel", "setCompiler", "setNet", "setSwitchClient", "describeP4Nodes", "printPortMapping",
    "setTopologyFile", "enableCli", "disableCli", "enableDebugger", "disableDebugger", "enableDebuggerAll",
    "disableDebuggerAll", "enableLog", "disableLog", "enableLogAll", "disableLogAll", "enablePcapDump",
    "disablePcapDump", "enablePcapDumpAll", "disablePcapDumpAll", "stopNetwork", "start_net_cli", "setIntfName",
    "enableScheduler", "disableScheduler", "enableSchedulerAll", "disableSchedulerAll",
))  # fmt: skip
_REFUSED = {
    "addSwitch": "switches that run no P4",
    "addRouter": "FRR routers",
    "addTofino": "Tofino's model",
    "enableDhcp": "DHCP",
    "enableDhcpAll": "DHCP",
}


def _setter(name: str, value: bool) -> Callable[[NetworkAPI], None]:
    return lambda self: setattr(self.network, name, value)


def _strategy(name: str) -> Callable[[NetworkAPI], None]:
    return lambda self: assign(self.network, name)


class NetworkStarted(BaseException):
    """The script has said all: what follows is for a network that runs."""


class NetworkAPI:
    script = ""
    """the script's path, for the lines of errors"""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.network = P4UtilsNetwork()
        self.modules: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name in _WITHOUT_EFFECT:
            return lambda *_, **__: None
        if name in _REFUSED:
            raise DetourError(f"NetworkAPI.{name}: detour has no {_REFUSED[name]}")
        raise AttributeError(f"NetworkAPI.{name}: there is no such method, or detour does not support it")

    def startNetwork(self) -> None:
        raise NetworkStarted(self.network)

    def _where(self) -> str:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self.script:
            frame = frame.f_back
        return f"{self.script}, line {frame.f_lineno if frame is not None else 1}"

    # -- the network as a whole -------------------------------------------------------------------------

    def execScript(self, cmd: str, out_file: str | None = None, reboot: bool = True) -> None:
        self.network.scripts.append(cmd)

    def addTaskFile(self, filepath: str, def_mod: str = TRAFFIC) -> None:
        self.network.tasks += read_tasks(Path(filepath))

    def addTask(
        self,
        name: str,
        exe: Any,
        start: float = 0,
        duration: float = 0,
        enableScheduler: bool = True,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(exe, str | FunctionType):  # as p4-utils' scheduler
            raise DetourError(f"addTask: the task of {name} is {exe!r}; expected a command (one string) or a function")
        module, name_of_exe = ("", exe) if isinstance(exe, str) else (exe.__module__, exe.__name__)
        if module == "__main__":
            raise DetourError(f"addTask: {name_of_exe} is a function of the script; move it to a module")
        task = P4UtilsTask(name, name_of_exe, start, duration, list(args), dict(kwargs or {}), module, self._where())
        self.network.tasks.append(task)

    enableArpTables, disableArpTables = (_setter("arp_tables", value) for value in (True, False))
    enableGwArp, disableGwArp = (_setter("gateway_arp", value) for value in (True, False))
    l2, mixed, l3 = (_strategy(name) for name in ("l2", "mixed", "l3"))

    # -- nodes ------------------------------------------------------------------------------------------

    def addHost(self, name: str, **opts: Any) -> str:
        self.network.add_node(name, "host", dict(opts), self._where())
        return name

    def addP4Switch(self, name: str, **opts: Any) -> str:
        options = dict(opts)
        cpu = options.pop("cpu_port", False)
        self.network.add_node(name, "switch", options, self._where())
        if cpu:
            self.enableCpuPort(name)
        return name

    def addP4RuntimeSwitch(self, name: str, **opts: Any) -> str:
        return self.addP4Switch(name, p4runtime=True, **opts)

    def setDefaultRoute(self, name: str, default_route: str) -> None:
        self.network.node(name).options["defaultRoute"] = f"via {default_route}"

    def setP4Source(self, name: str, p4_src: str) -> None:
        self.network.node(name, "switch").options["p4_src"] = p4_src

    def setP4SourceAll(self, p4_src: str) -> None:
        for switch in self.network.of_kind("switch"):
            switch.options["p4_src"] = p4_src

    def setP4CliInput(self, name: str, cli_input: str) -> None:
        self.network.node(name, "switch").options["cli_input"] = cli_input

    def setP4SwitchId(self, name: str, id: int) -> None:
        self.network.node(name, "switch").options["device_id"] = id

    def setThriftPort(self, name: str, port: int) -> None:
        self.network.node(name, "switch").options["thrift_port"] = port

    def setGrpcPort(self, name: str, port: int) -> None:
        self.network.node(name, "switch").options["grpc_port"] = port

    def setPriorityQueueNum(self, name: str, queue_num: int) -> None:
        self.network.node(name, "switch").options["priority_queues_num"] = queue_num

    def enableCpuPort(self, name: str) -> None:
        self.network.enable_cpu_port(name)

    def disableCpuPort(self, name: str) -> None:
        self.network.disable_cpu_port(name)

    def enableCpuPortAll(self) -> None:
        for switch in self.network.of_kind("switch"):
            self.network.enable_cpu_port(switch.name)

    def disableCpuPortAll(self) -> None:
        for switch in self.network.of_kind("switch"):
            self.network.disable_cpu_port(switch.name)

    # -- links ------------------------------------------------------------------------------------------

    def addLink(
        self, node1: str, node2: str, port1: int | None = None, port2: int | None = None, key: Any = None, **opts: Any
    ) -> int:
        wrong = next((name for name in opts if name not in ADD_LINK_OPTIONS), None)
        if wrong is not None:
            raise DetourError(f"addLink has no option {wrong!r}; allowed: {', '.join(ADD_LINK_OPTIONS)}")
        options = link_options(opts) | {"port1": port1, "port2": port2}
        self.network.add_link(node1, node2, {k: v for k, v in options.items() if v is not None}, self._where())
        return 0

    def _set(self, node1: str, node2: str, **options: Any) -> None:
        self.network.link(node1, node2).options.update(options)

    def _set_all(self, **options: Any) -> None:
        for link in self.network.links:
            link.options.update(options)

    def _set_end(self, node1: str, node2: str, name: str, value: Any) -> None:
        link = self.network.link(node1, node2)
        link.options[f"{name}{link.side(node1)}"] = value

    def setBw(self, node1: str, node2: str, bw: float, key: Any = None) -> None:
        self._set(node1, node2, bw=bw)

    def setDelay(self, node1: str, node2: str, delay: int, key: Any = None) -> None:
        self._set(node1, node2, delay=f"{delay}ms")

    def setLoss(self, node1: str, node2: str, loss: float, key: Any = None) -> None:
        self._set(node1, node2, loss=_percent(loss))

    def setMaxQueueSize(self, node1: str, node2: str, max_queue_size: int, key: Any = None) -> None:
        self._set(node1, node2, max_queue_size=max_queue_size)

    def setIntfPort(self, node1: str, node2: str, port: int, key: Any = None) -> None:
        if port in self.network.ports(node1):
            raise DetourError(f"port {port} of {node1} already has a link")
        self._set_end(node1, node2, "port", port)

    def setIntfIp(self, node1: str, node2: str, ip: str, key: Any = None) -> None:
        self._set_end(node1, node2, "ip", ip)

    def setIntfMac(self, node1: str, node2: str, mac: str, key: Any = None) -> None:
        self._set_end(node1, node2, "addr", mac)

    def setBwAll(self, bw: float) -> None:
        self._set_all(bw=bw)

    def setDelayAll(self, delay: int) -> None:
        self._set_all(delay=f"{delay}ms")

    def setLossAll(self, loss: float) -> None:
        self._set_all(loss=_percent(loss))

    def setMaxQueueSizeAll(self, max_queue_size: int) -> None:
        self._set_all(max_queue_size=max_queue_size)

    # -- questions --------------------------------------------------------------------------------------

    def nodes(self, sort: bool = True, withInfo: bool = False) -> list[Any]:
        return _listed(sorted(self.network.nodes.values(), key=lambda node: natural(node.name)), withInfo)

    def hosts(self, sort: bool = True, withInfo: bool = False) -> list[Any]:
        return _listed(self.network.of_kind("host"), withInfo)

    def switches(self, sort: bool = True, withInfo: bool = False) -> list[Any]:
        return _listed(self.network.of_kind("switch"), withInfo)

    p4switches = switches

    def links(self, sort: bool = False, withKeys: bool = False, withInfo: bool = False) -> list[Any]:
        listed = self.network.sorted_links() if sort else self.network.links
        shown = (link for link in listed if CPU_NODE not in (link.node1, link.node2))
        return [
            (link.node1, link.node2, *((0,) if withKeys else ()), *((link.options,) if withInfo else ()))
            for link in shown
        ]

    def isNode(self, name: str) -> bool:
        return name in self.network.nodes

    def isHost(self, name: str) -> bool:
        return name in self.network.nodes and self.network.nodes[name].kind == "host"

    def isSwitch(self, name: str) -> bool:
        return name in self.network.nodes and self.network.nodes[name].kind == "switch"

    isP4Switch = isSwitch


def _listed(nodes: Iterable[P4UtilsNode], with_info: bool) -> list[Any]:
    return [(node.name, node.options) if with_info else node.name for node in nodes]


def _percent(loss: float) -> float:
    """Convert a fraction, as `NetworkAPI.setLoss` takes it, to per cent."""
    if isinstance(loss, bool) or not isinstance(loss, int | float) or not 0 <= loss <= 1:
        raise DetourError(f"a loss of {loss!r}; expected a fraction from 0 to 1")
    return loss * 100
