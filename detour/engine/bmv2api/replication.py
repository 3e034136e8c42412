# SPDX-License-Identifier: Apache-2.0
"""Multicast groups and mirroring sessions as BMv2 has them, kept in step with the engine's and with P4Runtime's.

BMv2's groups are made of nodes (a replication id with ports and LAGs), which have handles; the engine's and P4Runtime's
are lists of replicas. What is done here is written to both. What was done there is found before anything else is done
(`follow`): such a group has a node for each replication id, as PI programs it in BMv2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from detour.engine.bmv2api.device import BmDevice
from detour.engine.pre import MAX_GROUP, MAX_SESSION, PortInstance
from detour.engine.tables.rows import Handles

if TYPE_CHECKING:
    from finsy.proto import p4r

FIRST_SESSION_GROUP = MAX_GROUP + 1
"""what stands for the replicas of clone session 0; PI takes groups from 32768 on, which packets can name as well"""
_LAG_HASH = 0xFF
"""by which simple_switch picks a member of a LAG"""


@dataclass
class ReplicaNode:
    """A replication id with what gets a copy; `group` None: it belongs to none."""

    rid: int
    ports: tuple[int, ...]
    lags: tuple[int, ...] = ()
    group: int | None = None


@dataclass(frozen=True)
class MirroringSession:
    """A mirroring session: a port, a group, or both."""

    port: int | None
    group: int | None


@dataclass
class Replicas:
    """See the module. Only while the switch stands."""

    device: BmDevice
    groups: dict[int, list[int]] = field(default_factory=dict)
    """the handles of their nodes"""
    nodes: dict[int, ReplicaNode] = field(default_factory=dict)
    lags: dict[int, tuple[int, ...]] = field(default_factory=dict)
    sessions: dict[int, MirroringSession] = field(default_factory=dict)
    _handles: Handles = field(default_factory=Handles)
    _written: dict[int, tuple[PortInstance, ...]] = field(default_factory=dict)
    _written_sessions: dict[int, tuple[PortInstance, ...]] = field(default_factory=dict)

    # -- what others have done

    def follow(self) -> None:
        """Take over what was changed elsewhere."""
        groups, sessions = self.device.network.replication(self.device.switch)
        for group in groups.keys() | self._written.keys():
            if groups.get(group) != self._written.get(group):
                self._take_group(group, groups.get(group))
        for session in sessions.keys() | self._written_sessions.keys():
            if sessions.get(session) != self._written_sessions.get(session):
                self._take_session(session, sessions.get(session))

    def _take_group(self, group: int, replicas: tuple[PortInstance, ...] | None) -> None:
        for handle in self.groups.pop(group, []):
            self._drop(handle)
        self._written.pop(group, None)
        if replicas is None:
            return
        self.groups[group], self._written[group] = [], replicas
        for rid in dict.fromkeys(rid for _, rid in replicas):
            ports = tuple(sorted(port for port, each in replicas if each == rid))
            self.groups[group].append(self.add_node(ReplicaNode(rid, ports, group=group)))

    def _take_session(self, session: int, replicas: tuple[PortInstance, ...] | None) -> None:
        self.sessions.pop(session, None)
        self._written_sessions.pop(session, None)
        if replicas is None:
            return
        self._written_sessions[session] = replicas
        group = FIRST_SESSION_GROUP + session
        self.sessions[session] = (
            MirroringSession(replicas[0][0], None) if len(replicas) == 1 else MirroringSession(None, group)
        )

    # -- groups and nodes

    def add_node(self, node: ReplicaNode) -> int:
        """Add a node and return its handle: the lowest free one."""
        handle = self._handles.take()
        self.nodes[handle] = node
        return handle

    def remove_node(self, handle: int) -> None:
        """Also from its group."""
        group = self.nodes[handle].group
        self._drop(handle)
        if group is not None:
            self.groups[group].remove(handle)
            self.write(group)

    def _drop(self, handle: int) -> None:
        del self.nodes[handle]
        self._handles.release(handle)

    def remove_group(self, group: int) -> None:
        """Remove a group; its nodes stay, without a group."""
        for handle in self.groups.pop(group, []):
            self.nodes[handle].group = None
        self.write(group)

    def set_lag(self, lag: int, ports: tuple[int, ...]) -> None:
        """Set the ports of a LAG; copies to it go out of one of them."""
        self.lags[lag] = ports
        for group, handles in self.groups.items():
            if any(lag in self.nodes[handle].lags for handle in handles):
                self.write(group)

    def clear(self) -> None:
        """No groups, nodes and LAGs any more."""
        for group in list(self.groups):
            self.remove_group(group)
        self.nodes.clear()
        self.lags.clear()
        self._handles = Handles()

    def replicas(self, group: int) -> list[PortInstance]:
        """Return where copies for a group go, in this order."""
        places: list[PortInstance] = []
        for handle in self.groups.get(group, ()):
            node = self.nodes[handle]
            places.extend((port, node.rid) for port in node.ports)
            for lag in node.lags:
                if members := self.lags.get(lag):
                    places.append((members[_LAG_HASH % len(members)], node.rid))
        return places

    def write(self, group: int) -> None:
        """Hand a group, and the sessions that mirror to it, to the engine and to P4Runtime."""
        replicas = self.replicas(group) if group in self.groups else None
        if 1 <= group <= MAX_GROUP:  # no packet can have another one
            self.device.target.set_group(group, replicas)
            _remember(self._written, group, replicas)
            store = self.device.store
            if store is not None:
                from finsy.proto import p4r

                message = p4r.MulticastGroupEntry(multicast_group_id=group, replicas=_messages(replicas or ()))
                _remember(store.groups, group, None if replicas is None else message)
        for session, config in self.sessions.items():
            if config.group == group and session in self._written_sessions:
                self.write_session(session)

    # -- mirroring

    def write_session(self, session: int) -> None:
        """Hand a mirroring session to the engine and to P4Runtime, which has no session 0."""
        config = self.sessions.get(session)
        replicas: list[PortInstance] | None = None
        if config is not None:
            replicas = [] if config.group is None else self.replicas(config.group)
            replicas += [] if config.port is None else [(config.port, 0)]
        self.device.target.set_session(session, replicas)
        _remember(self._written_sessions, session, replicas)
        store = self.device.store
        if store is not None and 1 <= session <= MAX_SESSION:
            from finsy.proto import p4r

            message = p4r.CloneSessionEntry(session_id=session, replicas=_messages(replicas or ()))
            _remember(store.sessions, session, None if replicas is None else message)

    # -- as BMv2 shows it

    def as_json(self) -> str:
        """All of it; a node's second handle, of its list of ports, is the same as its first here."""
        nodes = sorted(self.nodes.items())
        state = {
            "l1_handles": [{"handle": h, "l2_handle": h, "rid": node.rid} for h, node in nodes],
            "l2_handles": [{"handle": h, "lags": node.lags, "ports": node.ports} for h, node in nodes],
            "lags": [{"id": lag, "ports": ports} for lag, ports in sorted(self.lags.items())],
            "mgrps": [{"id": group, "l1_handles": handles} for group, handles in sorted(self.groups.items())],
        }
        return json.dumps(state, indent=4)


def _remember(entries: dict, number: int, value: object | None) -> None:
    if value is None:
        entries.pop(number, None)
    else:
        entries[number] = tuple(value) if isinstance(value, list) else value


def _messages(replicas: Iterable[PortInstance]) -> list[p4r.Replica]:
    from finsy.proto import p4r

    return [p4r.Replica(egress_port=port, instance=rid) for port, rid in replicas]
