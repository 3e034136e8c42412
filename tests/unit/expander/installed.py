# SPDX-License-Identifier: Apache-2.0
"""What packets may do by the entries of switches, followed one step at a time: slow, and nothing of the verifier's own
arrays, which it is to be compared with."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import networkx as nx

from detour.control import schema
from detour.control.entries import DefaultAction, Entity, TableEntry, Ternary
from detour.control.verifier.forwarding import SwitchTables
from detour.topo.topology import Topology

Buffer = tuple[int, int, int]
"""switch, port out, priority"""


class Fabric:
    """Follows packets; `waits` gathers which buffer behind a link waits for which other one."""

    def __init__(self, topology: Topology, state: Mapping[int, Sequence[Entity]], lossless: int) -> None:
        self.topology, self.lossless = topology, lossless
        self.state = state
        self.tables = {device: SwitchTables(entities) for device, entities in state.items()}
        self.waits: dict[Buffer, set[Buffer]] = {}
        self._class_of = cache(self._classed)  # packets meet the same entries again and again

    def _classed(self, device: int, dscp: int, into: int, out: int) -> tuple[int, int]:
        """(DSCP, priority) in which a packet goes on."""
        priority = 0
        for entity in self.state[device]:
            if isinstance(entity, DefaultAction) and entity.table == schema.DSCP:
                priority = entity.action["priority"]
        for entity in self.state[device]:
            match entity:
                case TableEntry(schema.DSCP) if entity.field(schema.DSCP_FIELD) == dscp:
                    priority = entity.members()[0]["priority"]
        for entity in self.state[device]:
            if isinstance(entity, TableEntry) and entity.table == schema.CHANNEL:
                fields = ((schema.IN_PORT, into), (schema.EGRESS_SPEC_FIELD, out))
                ports = all(_hits(entity.field(name), port) for name, port in fields)
                if ports and entity.field(schema.DSCP_FIELD) == dscp:
                    return entity.members()[0]["dscp"], entity.members()[0]["priority"]
        return dscp, priority

    def follow(self, source: int, target: int, named: Sequence[int] = (), dscp: int = 0) -> set[int]:
        """A packet from a host of a switch to one of another one, by way of the switches named (a uSID list) and of all
        choices in between; returns the priorities that it may have been in."""
        topology, seen = self.topology, set()
        host = topology.hosts_of[target][0]
        first = topology.hosts_of[source][0].port
        todo: list[tuple[int, int, int, int, Buffer | None]] = [(source, first, dscp, 0, None)]
        while todo:
            at, into, dscp, done, before = todo.pop()
            while done < len(named) and named[done] == at:
                done += 1
            if (at, into, dscp, done, before) in seen:
                continue
            seen.add((at, into, dscp, done, before))
            if done == len(named) and at == target:
                continue
            address = host.address if done == len(named) else topology.hosts_of[named[done]][0].address
            entry = self.tables[at + 1].route.lookup(address)
            for action in entry.members() if entry else ():
                out = action.get("port")
                assert out is not None
                peer = topology.switches[at].peer(out)
                assert peer is not None
                assert peer.kind != "host"
                then, priority = self._class_of(at + 1, dscp, into, out)
                here = (at, out, priority)
                if before is not None and self.lossless >> before[2] & 1 and self.lossless >> priority & 1:
                    self.waits.setdefault(before, set()).add(here)
                todo.append((peer.index, peer.port, then, done, here))
        return {step[4][2] for step in seen if step[4] is not None}

    def follow_all(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Plain packets with every DSCP that any entry names, and one that none does."""
        for source, target in pairs:
            for dscp in (0, 1, 2, 3, 63):
                self.follow(source, target, dscp=dscp)


def _hits(field: object, port: int) -> bool:
    return not isinstance(field, Ternary) or port & field.mask == field.value


def has_cycle(waits: Mapping[Buffer, set[Buffer]]) -> bool:
    """Whether some buffer waits for itself."""
    return not nx.is_directed_acyclic_graph(nx.DiGraph([(a, b) for a, others in waits.items() for b in others]))
