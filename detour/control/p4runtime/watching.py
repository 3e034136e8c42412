# SPDX-License-Identifier: Apache-2.0
"""The flows that switches watch (detour/p4src/include/flows.p4), and their counters.

A watched flow has a label, which its sender writes into the flow label of every packet, and at each switch that watches
it a slot, the index of its counters there. Pure bookkeeping: entries out, numbers in; the caller talks to switches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from detour.base.arrays import Int64Array
from detour.base.dataplane import MAX_FLOW_LABEL
from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import Action, Entity, TableEntry

Cell = tuple[str, int]  # a counter's name, and an index

CELLS = 2 + schema.DELAY_CLASSES  # counters of a flow at a switch


@lru_cache(maxsize=schema.MAX_WATCHED)
def slot_cells(slot: int) -> tuple[Cell, ...]:
    """The `CELLS` cells of a slot: what passed unmarked, what the switch marked, and the classes of delay."""
    first = slot * schema.DELAY_CLASSES
    waited = [(schema.FLOW_WAITED, index) for index in range(first, first + schema.DELAY_CLASSES)]
    return ((schema.FLOW_PASSED, 2 * slot), (schema.FLOW_PASSED, 2 * slot + 1), *waited)


def _class_bounds() -> Int64Array:
    octaves = np.arange(schema.DELAY_SHIFT, schema.DELAY_SHIFT + (schema.DELAY_CLASSES - 2) // 2)
    lower = np.stack([1 << octaves, 3 << (octaves - 1)], axis=1).ravel()
    return np.concatenate([[0], lower, [1 << int(octaves[-1] + 1)]])


CLASS_BOUNDS = _class_bounds()
"""(classes,) the least delay of every class, in ticks: 0, 16, 24, 32, 48 ... 2**19; two classes an octave"""


def _class_means() -> Int64Array:
    between = (CLASS_BOUNDS[:-1] + CLASS_BOUNDS[1:]) // 2
    between[0] = 0  # nearly all of these did not wait at all
    return np.append(between, CLASS_BOUNDS[-1])


CLASS_MEANS = _class_means()
"""(classes,) ticks that a packet of a class counts for: the middle, at most a fifth off (the last: its least)"""


@dataclass
class Watched:
    """A flow that is watched. `devices`: the switches that it passes; `slots`: device id -> slot, of these and of those
    that it passed before its last move, where some of its packets may still be."""

    name: str
    label: int
    source: int
    devices: tuple[int, ...]
    slots: dict[int, int] = field(default_factory=dict)


class WatchList:
    """The watched flows of a fabric. Not for several threads at once."""

    def __init__(self, name_of: Callable[[int], str]) -> None:
        """`name_of`: a switch by its device id."""
        self._name_of = name_of
        self._flows: dict[str, Watched] = {}
        self._labels: set[int] = set()
        self._slots: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._flows)

    def __contains__(self, name: str) -> bool:
        return name in self._flows

    def __iter__(self) -> Iterator[Watched]:
        return iter(self._flows.values())

    def __getitem__(self, name: str) -> Watched:
        return self._flows[name]

    def add(self, name: str, source: int, devices: Iterable[int]) -> Watched:
        """Watch the flow from the address `source` at these switches. Raises `DetourError`: no label, or at one of
        the switches no slot, is free; nothing has changed."""
        label = _free(self._labels, 1, MAX_FLOW_LABEL + 1)
        if label is None:
            raise DetourError(f"{len(self._labels)} flows are watched already; no flow label is left for {name}")
        flow = Watched(name, label, source, tuple(devices))
        self._take(flow, flow.devices)
        self._flows[name] = flow
        self._labels.add(label)
        return flow

    def move(self, name: str, devices: Iterable[int]) -> Watched:
        """The flow passes these switches from now on. Raises `DetourError`: as `add`."""
        flow, devices = self._flows[name], tuple(devices)
        self._take(flow, [device for device in devices if device not in flow.slots])
        for device in flow.slots.keys() - {*devices, *flow.devices}:
            self._slots[device].discard(flow.slots.pop(device))
        flow.devices = devices
        return flow

    def _take(self, flow: Watched, devices: Iterable[int]) -> None:
        slots: dict[int, int] = {}
        for device in devices:
            slot = _free(self._slots.get(device, set()), 0, schema.MAX_WATCHED)
            if slot is None:
                raise DetourError(
                    f"{self._name_of(device)} watches {schema.MAX_WATCHED} flows, the maximum: {flow.name} does not fit"
                )
            slots[device] = slot
        for device, slot in slots.items():
            self._slots.setdefault(device, set()).add(slot)
        flow.slots |= slots

    def remove(self, name: str) -> Watched:
        """Watch the flow no longer."""
        flow = self._flows.pop(name)
        self._labels.discard(flow.label)
        for device, slot in flow.slots.items():
            self._slots[device].discard(slot)
        return flow

    def plan(self) -> dict[int, list[Entity]]:
        """device id -> its entries."""
        entries: dict[int, list[Entity]] = {}
        for flow in self:
            for device, slot in flow.slots.items():
                match = {schema.SRC_ADDR: flow.source, schema.FLOW_LABEL: flow.label}
                entry = TableEntry.of(schema.WATCHED, match, Action.of(schema.WATCH, slot=slot))
                entries.setdefault(device, []).append(entry)
        return entries


def _free(taken: set[int], first: int, end: int) -> int | None:
    return next((number for number in range(first, end) if number not in taken), None)


def counts(cells: Int64Array) -> Int64Array:
    """(5,) packets, bytes, marked packets, ticks in the queue, and packets whose ticks are known, from (`CELLS`, 2)
    packets and bytes of the cells of a slot."""
    waited = cells[2:, 0]
    packets, octets = cells[:2].sum(axis=0)
    return np.array([packets, octets, cells[1, 0], waited @ CLASS_MEANS, waited.sum()], np.int64)
