# SPDX-License-Identifier: Apache-2.0
"""Networks as InfraGraph describes them (https://infragraph.dev, schema 3): devices of components, instances of
devices, and edges between instances, as YAML or JSON.

A device with an XPU or a NIC, in itself or in a device that it has as a component, is a machine; others are switches.
Each cable at a machine is a host, as each NIC of a machine is, called by the component that it is plugged into:
`dgx.0.nic.3`; a second cable there is `dgx.0.nic.3+1`. Cables between ports of two switches are links of their own.
What is inside devices (NVLink, PCIe) is left out. `physical.bandwidth` and `physical.latency` of an edge's link are its
rate and delay.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from detour.base.errors import DetourError
from detour.topo.listed import ListedEdge, ListedNetwork, ListedNode

_MACHINE = ("xpu", "nic")
_GBPS = {"gigabits_per_second": 1.0, "gigabytes_per_second": 8.0}
_NS = {"ms": 1e6, "us": 1e3, "ns": 1.0}
_ELEMENT = re.compile(r"([^\[\].]+)(?:\[([^\]]*)\])?")


def is_infragraph(document: Any) -> bool:
    """Return whether a parsed file is of this form."""
    return isinstance(document, dict) and {"devices", "instances"} <= document.keys()


def network_of_infragraph(path: Path, document: dict[str, Any]) -> ListedNetwork:
    """The network of a parsed file. Raises `DetourError`: what is wrong, with element."""
    return _Reader(path, document).network()


class _End(NamedTuple):
    """A component of an instance, at which a cable is: the instance, and all of its name."""

    instance: str
    machine: bool
    name: str


class _Reader:
    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path = path
        self._devices = self._named(document, "devices")
        self._instances = self._named(document, "instances")
        self._links = self._named(document, "links")
        self._edges = self._rows("edges", document.get("edges"))
        self._components = {
            name: self._named(device, "components", f"devices.{name}.") for name, device in self._devices.items()
        }

    def network(self) -> ListedNetwork:
        """Return all switches, and machines' ends of cables."""
        nodes: dict[str, ListedNode] = {}
        for name, instance in self._instances.items():
            device, where = self._device(name), f"instances.{name}"
            if not self._is_machine(device):
                for number in range(self._count(where, instance)):
                    nodes[f"{name}.{number}"] = ListedNode(f"{name}.{number}", {"kind": "switch"}, where)
        edges: list[ListedEdge] = []
        cables: Counter[str] = Counter()
        seen: set[tuple[str, str]] = set()
        for number, edge in enumerate(self._edges):
            where = f"edges[{number}]"
            terms = self._terms(where, edge.get("link"))
            for first, second in self._pairs(where, edge):
                if first == second or {(first.name, second.name), (second.name, first.name)} & seen:
                    continue
                seen.add((first.name, second.name))
                joined = []
                for end in (first, second):
                    plug = f"{end.name}+{cables[end.name]}" if cables[end.name] else end.name
                    cables[end.name] += 1
                    joined.append(plug if end.machine else end.instance)
                    if end.machine:
                        nodes[plug] = ListedNode(plug, {"kind": "host"}, where)
                edges.append(ListedEdge(joined[0], joined[1], terms, where))
        if not edges:
            raise DetourError(f"{self._path}: it has no edges between instances")
        return ListedNetwork(str(self._path), list(nodes.values()), edges)

    # -- devices ----------------------------------------------------------------------------------------

    def _device(self, instance: str) -> str:
        device = self._instances[instance].get("device")
        if device not in self._devices:
            self._refuse(f"instances.{instance}", f"there is no device {device!r}")
        return device

    def _is_machine(self, device: str, above: tuple[str, ...] = ()) -> bool:
        if device in above:
            self._refuse(f"devices.{device}", "the device is a component of itself")
        for name, component in self._components.get(device, {}).items():
            kind = component.get("choice")
            if kind in _MACHINE or (kind == "device" and self._is_machine(name, (*above, device))):
                return True
        return False

    # -- edges ------------------------------------------------------------------------------------------

    def _pairs(self, where: str, edge: dict[str, Any]) -> list[tuple[_End, _End]]:
        first, second = (self._ends(f"{where}.{end}", edge.get(end)) for end in ("ep1", "ep2"))
        match edge.get("scheme", "one2one"):
            case "one2one":
                return list(zip(first, second, strict=False))  # as InfraGraph's own service has it
            case "many2many":
                return list(product(first, second))
            case scheme:
                self._refuse(where, f"the scheme is {scheme!r}; expected one2one or many2many")

    def _ends(self, where: str, end: Any) -> list[_End]:
        """Components that an end stands for, instance by instance."""
        instance, component = (end.get(key) if isinstance(end, dict) else None for key in ("instance", "component"))
        if not isinstance(instance, str) or not isinstance(component, str):
            self._refuse(where, f"an end is like {{instance: dgx[0], component: nic[0:8]}}, not {end!r:.60}")
        name = instance.split("[")[0]
        if name not in self._instances:
            self._refuse(where, f"there is no instance {name!r}")
        device = self._device(name)
        machine = self._is_machine(device)
        ways = [self._indices(where, instance, self._count(f"instances.{name}", self._instances[name]))]
        for element in component.split("."):
            part = element.split("[")[0]
            if part not in self._components.get(device, {}):
                self._refuse(where, f"device {device} has no component {part!r}")
            ways.append(self._indices(where, element, self._count(where, self._components[device][part])))
            device = part
        return [_End(names[0], machine, ".".join(names)) for names in product(*ways)]

    def _indices(self, where: str, element: str, count: int) -> list[str]:
        """`nic[0:2]` as nic.0 and nic.1: Python's slices, or all without one."""
        match = _ELEMENT.fullmatch(element)
        try:
            if match is None:
                raise ValueError
            numbers = [int(part) if part else None for part in (match[2] or ":").split(":")]
            some = range(count)[slice(*numbers)] if len(numbers) > 1 else [range(count)[int(match[2])]]
        except (ValueError, TypeError, IndexError):
            self._refuse(where, f"{element!r} is not a name with an index below {count}, or a slice, like nic[0:2]")
        return [f"{match[1]}.{number}" for number in some]

    def _terms(self, where: str, link: Any) -> dict[str, float]:
        """Rate and delay of the link of an edge; one that is not described says nothing."""
        physical = self._links.get(str(link), {}).get("physical") or {}
        terms: dict[str, float] = {}
        for name, key, units in (("bandwidth", "gbps", _GBPS), ("latency", "delay_ns", _NS)):
            value = physical.get(name) or {}
            unit = value.get("choice", next(iter(value), None))
            if unit is None:
                continue
            if unit not in units or type(value.get(unit)) not in (int, float):
                self._refuse(
                    where, f"{name} of link {link} is {value!r:.60}; expected a number of {' or '.join(units)}"
                )
            terms[key] = value[unit] * units[unit]
        return terms

    # -- parts of a file --------------------------------------------------------------------------------

    def _named(self, owner: dict[str, Any], key: str, before: str = "") -> dict[str, dict[str, Any]]:
        rows = self._rows(f"{before}{key}", owner.get(key))
        for number, row in enumerate(rows):
            if not isinstance(row.get("name"), str):
                self._refuse(f"{before}{key}[{number}]", f"it has no name: {row!r:.60}")
        return {row["name"]: row for row in rows}

    def _rows(self, where: str, rows: Any) -> list[dict[str, Any]]:
        rows = rows or []
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self._refuse(where, f"it is a list of mappings, not {rows!r:.60}")
        return rows

    def _count(self, where: str, row: dict[str, Any]) -> int:
        count = row.get("count", 1)
        if type(count) is not int or not 0 <= count <= 1_000_000:
            self._refuse(where, f"the count of {row['name']} is {count!r}")
        return count

    def _refuse(self, where: str, rule: str) -> NoReturn:
        raise DetourError(f"{self._path}, {where}: {rule}")
