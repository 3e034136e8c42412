# SPDX-License-Identifier: Apache-2.0
"""`simple_pre_lag`: multicast groups, their nodes, and LAGs."""

from __future__ import annotations

from detour.engine.bmv2api.calls.part import CallPart
from detour.engine.bmv2api.replication import ReplicaNode, Replicas
from detour.engine.bmv2api.types import InvalidMcOperation, McCode
from detour.engine.pre import MAX_GROUP

_MAP_SIZE = 512
_MAX_LAG = 256
_MAX_RID = (1 << 16) - 1


class MulticastCalls(CallPart):
    """See the module."""

    def bm_mc_mgrp_create(self, mgrp: int) -> int:
        replicas = self.replicas
        if mgrp > MAX_GROUP:  # no packet can name it, and greater numbers stand for clone sessions
            raise InvalidMcOperation(McCode.INVALID_MGID)
        if mgrp not in replicas.groups:
            replicas.groups[mgrp] = []
            replicas.write(mgrp)
        return mgrp

    def bm_mc_mgrp_destroy(self, mgrp_handle: int) -> None:
        self.replicas.remove_group(mgrp_handle)

    def bm_mc_node_create(self, rid: int, port_map: str, lag_map: str) -> int:
        if not 0 <= rid <= _MAX_RID:
            raise InvalidMcOperation(McCode.ERROR)
        return self.replicas.add_node(ReplicaNode(rid, _members(port_map), _members(lag_map)))

    def bm_mc_node_update(self, l1_handle: int, port_map: str, lag_map: str) -> None:
        replicas, node = self._node(l1_handle)
        node.ports, node.lags = _members(port_map), _members(lag_map)
        if node.group is not None:
            replicas.write(node.group)

    def bm_mc_node_associate(self, mgrp_handle: int, l1_handle: int) -> None:
        replicas, node = self._node(l1_handle, mgrp_handle)
        if node.group is not None:
            raise InvalidMcOperation(McCode.ERROR)
        node.group = mgrp_handle
        replicas.groups[mgrp_handle].append(l1_handle)
        replicas.write(mgrp_handle)

    def bm_mc_node_dissociate(self, mgrp_handle: int, l1_handle: int) -> None:
        replicas, node = self._node(l1_handle, mgrp_handle)
        if node.group != mgrp_handle:
            raise InvalidMcOperation(McCode.ERROR)
        node.group = None
        replicas.groups[mgrp_handle].remove(l1_handle)
        replicas.write(mgrp_handle)

    def bm_mc_node_destroy(self, l1_handle: int) -> None:
        replicas, _ = self._node(l1_handle)
        replicas.remove_node(l1_handle)

    def bm_mc_set_lag_membership(self, lag_index: int, port_map: str) -> None:
        if not 0 <= lag_index <= _MAX_LAG:
            raise InvalidMcOperation(McCode.ERROR)
        self.replicas.set_lag(lag_index, _members(port_map))

    def bm_mc_get_entries(self) -> str:
        return self.replicas.as_json()

    def _node(self, handle: int, group: int | None = None) -> tuple[Replicas, ReplicaNode]:
        """A node, and a group that must exist as well."""
        replicas = self.replicas
        if handle not in replicas.nodes:
            raise InvalidMcOperation(McCode.INVALID_L1_HANDLE)
        if group is not None and group not in replicas.groups:
            raise InvalidMcOperation(McCode.INVALID_MGRP_HANDLE)
        return replicas, replicas.nodes[handle]


def _members(bits: str) -> tuple[int, ...]:
    """The numbers whose bits are set; the last character is number 0."""
    if len(bits) > _MAP_SIZE or bits.strip("01"):
        raise InvalidMcOperation(McCode.ERROR)
    return tuple(number for number, bit in enumerate(reversed(bits)) if bit == "1")
