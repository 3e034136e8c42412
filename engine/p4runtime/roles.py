# SPDX-License-Identifier: Apache-2.0
"""Roles (spec, "Role Config"). The scheme of `role.config` is left to agreement; ours is Stratum's P4RoleConfig.

It comes with finsy: P4Info ids that the role may write, alone or shared, whether and which packet-ins it gets, and
whether it may push pipelines. A role without config may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from finsy.proto import p4r, stratum

from detour.engine.p4runtime.errors import invalid
from detour.engine.p4runtime.limits import Limits


@dataclass(frozen=True)
class RoleConfig:
    """What a role may do. `ids` None: everything."""

    exclusive: frozenset[int] = frozenset()
    ids: frozenset[int] | None = None
    receives_packet_ins: bool = True
    packet_in_filter: tuple[int, int] | None = None  # metadata id, value
    can_push_pipeline: bool = True

    def sees(self, id_: int) -> bool:
        """Whether the role gets notifications of that object."""
        return self.ids is None or id_ in self.ids

    def wants(self, packet: p4r.PacketIn) -> bool:
        """Whether the role gets that packet-in."""
        if not self.receives_packet_ins:
            return False
        if self.packet_in_filter is None:
            return True
        id_, value = self.packet_in_filter
        return any(m.metadata_id == id_ and int.from_bytes(m.value, "big") == value for m in packet.metadata)


FULL_ACCESS = RoleConfig()
_ROLE_BYTES = 2048
_EXPANSION = 32  # an id takes a few bytes in a message and some 60 in a set, and there are three copies


def role_name(role: p4r.Role) -> str:
    """The name of a role; clients of versions before 1.4 number theirs."""
    return role.name or (str(role.id) if role.id else "")


def check_size(role: p4r.Role, limits: Limits) -> int:
    """About the bytes that a role takes while somebody holds it; INVALID_ARGUMENT if it is too long."""
    name, config = len(role.name.encode()), role.config.ByteSize()
    if name > limits.role_name:
        raise invalid(f"the name of a role has {name} bytes, it may have {limits.role_name}")
    if config > limits.role_config:
        raise invalid(f"role '{role_name(role)}': its config has {config} bytes, it may have {limits.role_config}")
    return _ROLE_BYTES + name + _EXPANSION * config


def parse(role: p4r.Role, others: Iterable[RoleConfig]) -> RoleConfig:
    """The configuration in an arbitration update; INVALID_ARGUMENT if it is not of the scheme."""
    if not role.HasField("config"):
        return FULL_ACCESS
    message = stratum.P4RoleConfig()
    try:
        is_ours = role.config.Unpack(message)
    except Exception as e:  # whatever protobuf says to bytes that are none
        raise invalid(f"role '{role_name(role)}': its config cannot be read: {e}") from e
    if not is_ours:
        raise invalid(f"role '{role_name(role)}': its config is {role.config.type_url}, not stratum.P4RoleConfig")
    exclusive = frozenset(message.exclusive_p4_ids)
    ids = exclusive | frozenset(message.shared_p4_ids)
    for other in others:
        if exclusive & (other.ids or frozenset()) or other.exclusive & ids:
            raise invalid(f"role '{role_name(role)}' and another role claim an object, one of them for itself alone")
    only = None
    if message.HasField("packet_in_filter"):
        only = message.packet_in_filter.metadata_id, int.from_bytes(message.packet_in_filter.value, "big")
    return RoleConfig(exclusive, ids, message.receives_packet_ins, only, message.can_push_pipeline)
