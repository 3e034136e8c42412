# SPDX-License-Identifier: Apache-2.0
"""Arbitration: the primary, and the controllers that are notified (sections 5 and 16.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finsy.proto import p4r

from detour.conformance.link import RpcAnswer
from detour.conformance.session import QUIET_S, number_of
from detour.conformance.steps import *

_ROLE = "detour conformance"
_BACKUP, _NOBODY = EXISTS, NOT_FOUND
_HIGHER = "higher"
"""an election id above all that were used"""
_UNSET = "unset"
_Election = int | str
"""what is added to the highest election id, `_HIGHER` or `_UNSET`"""


def _election(session: CheckSession, election: _Election) -> int | None:
    if isinstance(election, int):
        return session.election + election
    return session.next_election() if election == _HIGHER else None


def joins(election: _Election, role: str | None = None) -> CheckStep:
    """Another controller arbitrates and is answered."""
    return lambda session: session.controller(_election(session, election), role=role)


def asks(election: _Election, device_id: int | None = None) -> CheckStep:
    """Another controller arbitrates, whatever comes of it."""
    return lambda s: s.arbitrate(s.converse(), _election(s, election), device_id=device_id)


@step
def again(session: CheckSession, who: int | None, election: _Election, **fields: Any) -> None:
    """A further update of a stream."""
    session.disturb()
    session.arbitrate(session.stream(who), _election(session, election), **fields)


_OURS, _FIRST, _LAST = None, 0, -1
"""streams: the session's own, and those of other controllers in the order in which they came"""
_ASPECTS: dict[str, Callable[[Any], Any]] = {
    "status": lambda update: update.status.code,
    "election id": lambda update: number_of(update.election_id),
    "role": lambda update: update.role.name,
    "ids": lambda update: (update.device_id, number_of(update.election_id)),
    "status and id": lambda update: (update.status.code, number_of(update.election_id)),
}


def got(aspect: str, expected: Any) -> CheckStep:
    """Check an aspect of the answer that the last controller got."""
    return lambda s: s.same(_ASPECTS[aspect](s.update), expected(s) if callable(expected) else expected, aspect)


def hears(who: int | None, aspect: str = "", expected: Any = None) -> CheckStep:
    """An update must come, and be like that if an aspect of it is named."""
    return comes("arbitration", aspect, expected, _ASPECTS.get(aspect, bool), who)


@step
def displaced(session: CheckSession, aspect: str, expected: Any) -> None:
    """The latest update of our stream: servers that promote backups may have sent one about the check before."""
    session.update = session.receive(session.stream(), "arbitration")
    while (message := session.stream().next(QUIET_S)) is not None:
        session.note(message)
        if isinstance(message, p4r.StreamMessageResponse):
            session.update = message.arbitration
    got(aspect, expected)(session)


def ends(code: int) -> CheckStep:
    return lambda session: session.ends(session.stream(_LAST), code)


def _no_stream_error(session: CheckSession) -> None:
    message = session.stream(_LAST).next(session.wait_s)
    session.note(message)
    session.expect(isinstance(message, RpcAnswer), "the end of the stream and nothing before it")


def _far_ids(session: CheckSession) -> None:
    """In a role of its own, so that the default role's ids stay low."""
    session.controller((1 << 100) + session.next_election(), role=f"{_ROLE} 128")
    session.controller((1 << 64) - 1, role=f"{_ROLE} 128")


def _role_of_no_scheme(session: CheckSession) -> None:
    update = p4r.MasterArbitrationUpdate(device_id=session.device_id)
    update.election_id.low = session.next_election()
    update.role.name = f"{_ROLE} config"
    update.role.config.type_url, update.role.config.value = "type.googleapis.com/nobody.has.This", b"\1\2\3"
    session.send(session.converse(), arbitration=update)


def _top(session: CheckSession) -> int:
    return session.election


@step
def second(session: CheckSession, election: _Election) -> None:
    """Another controller becomes primary of another device."""
    if session.server.second_device is None:
        raise MissingObject("no second device was named (--second-device)")
    session.controller(_election(session, election), device_id=session.server.second_device)


def _many(session: CheckSession) -> None:
    for n in range(32):
        session.arbitrate(session.converse(), session.election - 1 - n)
        message = session.stream(_LAST).next(session.wait_s)
        session.note(message)
        if isinstance(message, RpcAnswer):
            session.same(message.code, FULL, "the stream ends with")
            return
        session.expect(message is not None and message.arbitration.status.code == _BACKUP, "ALREADY_EXISTS")


_ENTRY, _KEY = sample.entry("exact"), sample.key("exact")
_GONE = (joins(-1), leaves(), hears(_FIRST))
_RAISED = (again(_OURS, _HIGHER), hears(_OURS))
checks = [
    *rows(
        "arbitration",
        # The first update of a stream.
        ("unknown_device", "5.3", "an update for a device that the server does not have ends with NOT_FOUND",
         asks(_HIGHER, NO_DEVICE), ends(NOT_FOUND)),
        ("device_0", "5.1", "device_id 0 is no device: the stream ends with NOT_FOUND",
         asks(_HIGHER, 0), ends(NOT_FOUND)),
        ("used_id", "5.3", "an election id that another live controller has ends with INVALID_ARGUMENT",
         asks(0), ends(INVALID_ARGUMENT)),
        ("used_backup_id", "5.3", "an election id that a backup has ends with INVALID_ARGUMENT",
         joins(-1), asks(-1), ends(INVALID_ARGUMENT)),
        ("no_stream_error", "16.6", "errors of arbitration end the stream; there is no StreamError",
         asks(_HIGHER, NO_DEVICE), _no_stream_error),
        ("refused_keeps", "5.3", "a stream that was refused does not change who is primary",
         asks(0), ends(INVALID_ARGUMENT), writes(0)),
        ("primary", "5.4", "who has the highest election id becomes primary, with status OK",
         joins(_HIGHER), got("status", 0)),
        ("echo", "5.4", "the notification has the device and the primary's election id",
         joins(_HIGHER), got("ids", lambda session: (session.device_id, session.election))),
        ("default_role", "5.4", "the notification of the default role names no role", joins(_HIGHER), got("role", "")),
        ("displaced", "5.4", "the old primary hears that there is another one: ALREADY_EXISTS",
         joins(_HIGHER), displaced("status", _BACKUP)),
        ("displaced_id", "5.4", "the old primary hears the new one's election id",
         joins(_HIGHER), displaced("election id", _top)),
        ("displaced_write", "5.3", "the old primary's Write is PERMISSION_DENIED",
         joins(_HIGHER), writes(DENIED, election=-1)),
        ("new_write", "5.3", "the new primary's Write is accepted", joins(_HIGHER), writes(0)),
        ("all_backups", "5.4", "every backup hears of a new primary",
         joins(-1), joins(_HIGHER), hears(_FIRST, "status and id", lambda session: (_BACKUP, session.election))),
        ("backup", "5.4", "a lower election id makes a backup, with ALREADY_EXISTS", joins(-1), got("status", _BACKUP)),
        ("backup_id", "5.4", "a backup is told the highest election id", joins(-1), got("election id", _top)),
        ("backup_quiet", "5.3", "nobody else hears of a new backup", joins(-1), quiet("arbitration")),
        ("backup_write", "12", "a backup's Write is PERMISSION_DENIED", joins(-1), writes(DENIED, election=-1)),
        ("backup_leaves", "5.4", "nobody hears that a backup has gone",
         joins(-1), lambda session: session.stream(_LAST).close(), quiet("arbitration")),
        ("backup_reads", "13", "a backup may read", joins(-1), prepare(_ENTRY), holds(_KEY, _ENTRY)),
        ("many", "5.3", "32 controllers are accepted, or the one beyond the limit ends with RESOURCE_EXHAUSTED", _many),
        ("many_write", "5.3", "with many controllers the primary stays primary", _many, writes(0)),
        # No election id.
        ("unset", "16.2.1", "a controller without election id is a backup", joins(_UNSET), got("status", _BACKUP)),
        ("unset_alone", "16.2.1", "a controller without election id does not become primary where there is none",
         leaves(), joins(_UNSET), got("status", _NOBODY)),
        ("two_unset", "5.3", "several controllers may have no election id",
         joins(_UNSET), joins(_UNSET), got("status", _BACKUP)),
        ("zero", "16.2.1", "election id 0 is an id: a second controller with it ends with INVALID_ARGUMENT",
         lambda s: s.controller(0), lambda s: s.arbitrate(s.converse(), 0), ends(INVALID_ARGUMENT)),
        ("unset_resigns", "16.2.1", "a primary that sends an update without election id is a backup",
         again(_OURS, _UNSET), hears(_OURS, "status", _NOBODY)),
        # Further updates of a stream.
        ("other_device", "5.3", "another device_id on a live stream ends with FAILED_PRECONDITION",
         joins(-1), again(_FIRST, -1, device_id=NO_DEVICE), ends(IN_USE)),
        ("other_role", "5.3", "another role on a live stream ends with FAILED_PRECONDITION",
         joins(-1), again(_FIRST, -1, role=_ROLE), ends(IN_USE)),
        ("change_to_used", "5.3", "a change to an election id that another has ends with INVALID_ARGUMENT",
         joins(-1), again(_FIRST, 0), ends(INVALID_ARGUMENT)),
        ("confirm", "5.3", "a primary that repeats its election id stays primary",
         again(_OURS, 0), hears(_OURS, "status", 0), writes(0)),
        ("raise", "5.3", "a primary that raises its election id stays primary",
         again(_OURS, _HIGHER), hears(_OURS, "status and id", lambda session: (0, session.election))),
        ("raise_write", "5.3", "after that its Write with the old election id is PERMISSION_DENIED",
         *_RAISED, writes(DENIED, election=-1)),
        ("raise_write_new", "5.3", "after that its Write with the new election id is accepted", *_RAISED, writes(0)),
        ("promotes_itself", "5.3", "a backup that raises its election id above all becomes primary",
         joins(-1), again(_FIRST, _HIGHER), hears(_FIRST, "status", 0)),
        ("backup_changes", "5.3", "a backup that takes another low election id stays a backup",
         joins(-1), again(_FIRST, -2), hears(_FIRST, "status", _BACKUP)),
        ("downgrade", "5.3", "a primary that lowers its election id is a backup, and nobody is primary",
         again(_OURS, -1), hears(_OURS, "status", _NOBODY)),
        ("downgrade_told", "5.4", "backups hear that the primary has lowered its election id",
         joins(-2), again(_OURS, -1), hears(_FIRST, "status", _NOBODY)),
        ("downgrade_write", "5.3", "after that its Writes are PERMISSION_DENIED",
         again(_OURS, -1), hears(_OURS), writes(DENIED), writes(DENIED, election=-1)),
        # The primary goes.
        ("gone", "5", "backups hear that the primary has gone: NOT_FOUND",
         joins(-1), leaves(), hears(_FIRST, "status", _NOBODY)),
        ("gone_killed", "5", "backups hear that the primary's stream has broken",
         joins(-1), leaves(broken=True), hears(_FIRST, "status", _NOBODY)),
        ("gone_id", "5.4", "after that the notification still has the highest election id",
         joins(-1), leaves(), hears(_FIRST, "election id", _top)),
        ("gone_not_promoted", "5", "no backup becomes primary because the primary has gone",
         *_GONE, writes(DENIED, election=-1)),
        ("gone_write", "5", "after that a Write with the gone primary's election id is PERMISSION_DENIED",
         *_GONE, writes(DENIED)),
        ("gone_lower", "5.3", "an election id below the highest ever seen does not make a primary",
         leaves(), joins(-1), got("status", _NOBODY)),
        ("gone_same", "5.3", "who comes back with the highest election id ever seen is primary again",
         leaves(), joins(0), got("status", 0)),
        ("gone_state", "5", "the forwarding state stays when the primary has gone",
         prepare(_ENTRY), leaves(), holds(_KEY, _ENTRY)),
    ),
    *rows("device",
        ("same_id", "5.3", "on another device the same election id makes another primary", second(0), got("status", 0)),
        ("echo", "5.4", "the notification names the device that was asked for", second(0),
         got("ids", lambda session: (session.server.second_device, session.election))),
        ("quiet", "5.4", "the primary of a device hears nothing of another device's", second(0), quiet("arbitration")),
        ("write", "5", "an election id that is primary of another device only is PERMISSION_DENIED in a Write",
         second(_HIGHER), writes(DENIED)),
        ("gone", "5", "the primary of a device stays when that of another device goes", second(0),
         lambda session: session.stream(_LAST).close(), quiet("arbitration"), writes(0)),
    ),
    *rows("role",
        # Roles.
        ("primary", "5", "each role has a primary of its own, with whatever election id",
         joins(_HIGHER, _ROLE), got("status", 0), writes(0, election=-1)),
        ("echo", "5.4", "the notification names the role", joins(_HIGHER, _ROLE), got("role", _ROLE)),
        ("quiet", "5.4", "other roles hear nothing of a role's new primary",
         joins(_HIGHER, _ROLE), quiet("arbitration")),
        ("same_id", "5", "the same election id may be used in two roles",
         joins(_HIGHER, _ROLE), joins(0, f"{_ROLE} 2"), got("status", 0)),
        ("write", "5.2", "a role without config may write everything", joins(_HIGHER, _ROLE), writes(0, role=_ROLE)),
        ("write_as_default", "5", "a role's primary that names no role in a Write is not the default role's primary",
         joins(_HIGHER, _ROLE), writes(DENIED)),
        ("backup", "5.4", "within a role a lower election id makes a backup",
         joins(_HIGHER, _ROLE), joins(-1, _ROLE), got("status", _BACKUP)),
        ("high_half", "5", "election ids have 128 bits: the upper half counts first", _far_ids, got("status", _BACKUP)),
        ("config", "5.3", "a role.config that is of no scheme ends with INVALID_ARGUMENT",
         _role_of_no_scheme, ends(INVALID_ARGUMENT)),
    ),
]  # fmt: skip
