# SPDX-License-Identifier: Apache-2.0
"""Weights and watch ports of group members, in groups and in one-shots alike."""

from __future__ import annotations

from collections.abc import Iterable

from finsy.proto import p4r

from detour.base.dataplane import HIGHEST_PORT
from detour.engine.p4runtime import schema
from detour.engine.p4runtime.bytestrings import encode
from detour.engine.p4runtime.errors import Code, Refused, invalid

# A weight takes as many slots of the group's list; the spec leaves the limit to the target.
MAX_GROUP_WEIGHT = 1 << 16


Member = p4r.ActionProfileGroup.Member | p4r.ActionProfileAction


def weight(profile: schema.Profile, message: Member) -> int:
    """The weight of a member (spec, "Group Programming")."""
    value, where = message.weight, f"action profile {profile.name}"
    if profile.weights_disallowed:
        if value:
            raise invalid(f"{where}: weights are not allowed, leave them out")
        return 1
    if value < 1:
        raise invalid(f"{where}: a weight of {value}; weights are 1 or more")
    if profile.sum_of_members and 0 < profile.max_member_weight < value:
        raise invalid(f"{where}: a weight of {value}, the largest is {profile.max_member_weight}")
    return value


def watch_port(profile: schema.Profile, message: Member) -> int | None:
    """The port whose state decides whether the member is used.

    Ports may be attached to a switch after it is programmed, so any number that a port can have is accepted.
    """
    kind = message.WhichOneof("watch_kind")
    if kind is None or (kind == "watch_port" and not message.watch_port):
        return None
    port = message.watch if kind == "watch" else int.from_bytes(message.watch_port, "big")
    if not 0 <= port <= HIGHEST_PORT:
        raise invalid(f"action profile {profile.name}: watch port {port} is not in 0..{HIGHEST_PORT}")
    return port


def show_watch_port(port: int | None, message: Member) -> None:
    """The port in a message read back."""
    if port is not None:
        message.watch_port = encode(port)


def group_size(profile: schema.Profile, weights: Iterable[int]) -> int:
    """Size of a group as P4Info means it: weights, or members."""
    every = list(weights)
    if sum(every) > MAX_GROUP_WEIGHT:
        raise Refused(
            Code.RESOURCE_EXHAUSTED,
            f"action profile {profile.name}: weights of {sum(every)} in all, a group takes {MAX_GROUP_WEIGHT}",
        )
    return len(every) if profile.sum_of_members else sum(every)
