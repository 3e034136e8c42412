# SPDX-License-Identifier: Apache-2.0
"""Who is primary, and who hears of it (sections 5 and 16.2)."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4r

from detour.control.conformance.checks.rpcs import NO_DEVICE
from detour.control.conformance.link import Canonical, Conversation, RpcAnswer
from detour.control.conformance.model import check
from detour.control.conformance.session import QUIET_S, CheckSession, insert, number_of

_ROLE = "detour conformance"
_BACKUP, _NOBODY, _DENIED = Canonical.ALREADY_EXISTS, Canonical.NOT_FOUND, Canonical.PERMISSION_DENIED


def _primary(session: CheckSession) -> Conversation:
    """The session's own stream."""
    session.disturb()
    assert session.primary is not None
    return session.primary


def _heard(session: CheckSession, conversation: Conversation) -> Any:
    return session.receive(conversation, "arbitration")


def _heard_last(session: CheckSession, conversation: Conversation) -> Any:
    """The latest update: servers that promote backups may have sent one about the check before."""
    update = _heard(session, conversation)
    while (message := conversation.next(QUIET_S)) is not None:
        session.note(message)
        if isinstance(message, p4r.StreamMessageResponse):
            update = message.arbitration
    return update


def _status(session: CheckSession, update: Any, code: int) -> None:
    session.same(update.status.code, code, "status")


def _takes_over(session: CheckSession) -> tuple[Conversation, Any, int]:
    """Another controller with a higher id, its answer, and the id that we had."""
    ours = session.election
    conversation, update = session.controller(session.next_election())
    return conversation, update, ours


def _may_write(session: CheckSession, election: int, code: int, role: str = "") -> None:
    entity = session.samples.entry(session.samples.exact)
    answer = session.write(insert(entity), election_id=election, role=role)
    session.same(answer.code, code, "code of the Write")


# -- the first update of a stream


@check("arbitration.unknown_device", "5.3", "an update for a device that the server does not have ends with NOT_FOUND")
def _unknown_device(session: CheckSession) -> None:
    conversation = session.converse()
    session.arbitrate(conversation, session.next_election(), device_id=NO_DEVICE)
    session.ends(conversation, Canonical.NOT_FOUND)


@check("arbitration.device_0", "5.1", "device_id 0 is no device: the stream ends with NOT_FOUND")
def _device_0(session: CheckSession) -> None:
    conversation = session.converse()
    session.arbitrate(conversation, session.next_election(), device_id=0)
    session.ends(conversation, Canonical.NOT_FOUND)


@check("arbitration.used_id", "5.3", "an election id that another live controller has ends with INVALID_ARGUMENT")
def _used_id(session: CheckSession) -> None:
    conversation = session.converse()
    session.arbitrate(conversation, session.election)
    session.ends(conversation, Canonical.INVALID_ARGUMENT)


@check("arbitration.used_backup_id", "5.3", "an election id that a backup has ends with INVALID_ARGUMENT")
def _used_backup_id(session: CheckSession) -> None:
    session.controller(session.election - 1)
    conversation = session.converse()
    session.arbitrate(conversation, session.election - 1)
    session.ends(conversation, Canonical.INVALID_ARGUMENT)


@check("arbitration.no_stream_error", "16.6", "errors of arbitration end the stream; there is no StreamError")
def _no_stream_error(session: CheckSession) -> None:
    conversation = session.converse()
    session.arbitrate(conversation, session.next_election(), device_id=NO_DEVICE)
    message = conversation.next(session.wait_s)
    session.note(message)
    session.expect(isinstance(message, RpcAnswer), "the end of the stream and nothing before it")


@check("arbitration.refused_keeps", "5.3", "a stream that was refused does not change who is primary")
def _refused_keeps(session: CheckSession) -> None:
    conversation = session.converse()
    session.arbitrate(conversation, session.election)
    session.ends(conversation, Canonical.INVALID_ARGUMENT)
    _may_write(session, session.election, 0)


@check("arbitration.primary", "5.4", "who has the highest election id becomes primary, with status OK")
def _becomes_primary(session: CheckSession) -> None:
    _, update, _ = _takes_over(session)
    _status(session, update, 0)


@check("arbitration.echo", "5.4", "the notification has the device and the primary's election id")
def _echo(session: CheckSession) -> None:
    _, update, _ = _takes_over(session)
    session.same((update.device_id, number_of(update.election_id)), (session.device_id, session.election), "ids")


@check("arbitration.default_role", "5.4", "the notification of the default role names no role")
def _default_role(session: CheckSession) -> None:
    _, update, _ = _takes_over(session)
    session.same(update.role.name, "", "role")


@check("arbitration.displaced", "5.4", "the old primary hears that there is another one: ALREADY_EXISTS")
def _displaced(session: CheckSession) -> None:
    old = _primary(session)
    _takes_over(session)
    _status(session, _heard_last(session, old), _BACKUP)


@check("arbitration.displaced_id", "5.4", "the old primary hears the new one's election id")
def _displaced_id(session: CheckSession) -> None:
    old = _primary(session)
    _takes_over(session)
    session.same(number_of(_heard_last(session, old).election_id), session.election, "election id")


@check("arbitration.displaced_write", "5.3", "the old primary's Write is PERMISSION_DENIED")
def _displaced_write(session: CheckSession) -> None:
    _, _, ours = _takes_over(session)
    _may_write(session, ours, _DENIED)


@check("arbitration.new_write", "5.3", "the new primary's Write is accepted")
def _new_write(session: CheckSession) -> None:
    _takes_over(session)
    _may_write(session, session.election, 0)


@check("arbitration.all_backups", "5.4", "every backup hears of a new primary")
def _all_backups(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    _takes_over(session)
    update = _heard(session, backup)
    session.same((update.status.code, number_of(update.election_id)), (_BACKUP, session.election), "status and id")


@check("arbitration.backup", "5.4", "a lower election id makes a backup, with ALREADY_EXISTS")
def _backup(session: CheckSession) -> None:
    _, update = session.controller(session.election - 1)
    _status(session, update, _BACKUP)


@check("arbitration.backup_id", "5.4", "a backup is told the highest election id")
def _backup_id(session: CheckSession) -> None:
    _, update = session.controller(session.election - 1)
    session.same(number_of(update.election_id), session.election, "election id")


@check("arbitration.backup_quiet", "5.3", "nobody else hears of a new backup")
def _backup_quiet(session: CheckSession) -> None:
    primary = _primary(session)
    session.controller(session.election - 1)
    session.is_quiet(primary, "arbitration")


@check("arbitration.backup_write", "12", "a backup's Write is PERMISSION_DENIED")
def _backup_write(session: CheckSession) -> None:
    session.controller(session.election - 1)
    _may_write(session, session.election - 1, _DENIED)


@check("arbitration.backup_leaves", "5.4", "nobody hears that a backup has gone")
def _backup_leaves(session: CheckSession) -> None:
    primary = _primary(session)
    backup, _ = session.controller(session.election - 1)
    backup.close()
    session.is_quiet(primary, "arbitration")


@check("arbitration.backup_reads", "13", "a backup may read")
def _backup_reads(session: CheckSession) -> None:
    session.controller(session.election - 1)
    session.prepare(session.samples.entry(session.samples.exact))
    session.holds(session.samples.entry(session.samples.exact, action=False),
                  session.samples.entry(session.samples.exact))  # fmt: skip


# -- no election id


@check("arbitration.unset", "16.2.1", "a controller without election id is a backup")
def _unset(session: CheckSession) -> None:
    _, update = session.controller(None)
    _status(session, update, _BACKUP)


@check(
    "arbitration.unset_alone", "16.2.1", "a controller without election id does not become primary where there is none"
)
def _unset_alone(session: CheckSession) -> None:
    session.leave()
    _, update = session.controller(None)
    _status(session, update, _NOBODY)


@check("arbitration.two_unset", "5.3", "several controllers may have no election id")
def _two_unset(session: CheckSession) -> None:
    session.controller(None)
    _, update = session.controller(None)
    _status(session, update, _BACKUP)


@check("arbitration.zero", "16.2.1", "election id 0 is an id: a second controller with it ends with INVALID_ARGUMENT")
def _zero(session: CheckSession) -> None:
    session.controller(0)
    conversation = session.converse()
    session.arbitrate(conversation, 0)
    session.ends(conversation, Canonical.INVALID_ARGUMENT)


@check("arbitration.unset_resigns", "16.2.1", "a primary that sends an update without election id is a backup")
def _unset_resigns(session: CheckSession) -> None:
    primary = _primary(session)
    session.arbitrate(primary, None)
    _status(session, _heard(session, primary), _NOBODY)


# -- further updates of a stream


@check("arbitration.other_device", "5.3", "another device_id on a live stream ends with FAILED_PRECONDITION")
def _other_device(session: CheckSession) -> None:
    conversation, _ = session.controller(session.election - 1)
    session.arbitrate(conversation, session.election - 1, device_id=NO_DEVICE)
    session.ends(conversation, Canonical.FAILED_PRECONDITION)


@check("arbitration.other_role", "5.3", "another role on a live stream ends with FAILED_PRECONDITION")
def _other_role(session: CheckSession) -> None:
    conversation, _ = session.controller(session.election - 1)
    session.arbitrate(conversation, session.election - 1, role=_ROLE)
    session.ends(conversation, Canonical.FAILED_PRECONDITION)


@check("arbitration.change_to_used", "5.3", "a change to an election id that another has ends with INVALID_ARGUMENT")
def _change_to_used(session: CheckSession) -> None:
    conversation, _ = session.controller(session.election - 1)
    session.arbitrate(conversation, session.election)
    session.ends(conversation, Canonical.INVALID_ARGUMENT)


@check("arbitration.confirm", "5.3", "a primary that repeats its election id stays primary")
def _confirm(session: CheckSession) -> None:
    primary = _primary(session)
    session.arbitrate(primary, session.election)
    _status(session, _heard(session, primary), 0)
    _may_write(session, session.election, 0)


@check("arbitration.raise", "5.3", "a primary that raises its election id stays primary")
def _raise(session: CheckSession) -> None:
    primary = _primary(session)
    session.arbitrate(primary, session.next_election())
    update = _heard(session, primary)
    session.same((update.status.code, number_of(update.election_id)), (0, session.election), "status and id")


@check("arbitration.raise_write", "5.3", "after that its Write with the old election id is PERMISSION_DENIED")
def _raise_write(session: CheckSession) -> None:
    primary, ours = _primary(session), session.election
    session.arbitrate(primary, session.next_election())
    _heard(session, primary)
    _may_write(session, ours, _DENIED)


@check("arbitration.raise_write_new", "5.3", "after that its Write with the new election id is accepted")
def _raise_write_new(session: CheckSession) -> None:
    primary = _primary(session)
    session.arbitrate(primary, session.next_election())
    _heard(session, primary)
    _may_write(session, session.election, 0)


@check("arbitration.promotes_itself", "5.3", "a backup that raises its election id above all becomes primary")
def _promotes_itself(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.arbitrate(backup, session.next_election())
    _status(session, _heard(session, backup), 0)


@check("arbitration.backup_changes", "5.3", "a backup that takes another low election id stays a backup")
def _backup_changes(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.arbitrate(backup, session.election - 2)
    _status(session, _heard(session, backup), _BACKUP)


@check("arbitration.downgrade", "5.3", "a primary that lowers its election id is a backup, and nobody is primary")
def _downgrade(session: CheckSession) -> None:
    primary = _primary(session)
    session.arbitrate(primary, session.election - 1)
    _status(session, _heard(session, primary), _NOBODY)


@check("arbitration.downgrade_told", "5.4", "backups hear that the primary has lowered its election id")
def _downgrade_told(session: CheckSession) -> None:
    primary = _primary(session)
    backup, _ = session.controller(session.election - 2)
    session.arbitrate(primary, session.election - 1)
    _status(session, _heard(session, backup), _NOBODY)


@check("arbitration.downgrade_write", "5.3", "after that its Writes are PERMISSION_DENIED")
def _downgrade_write(session: CheckSession) -> None:
    primary, ours = _primary(session), session.election
    session.arbitrate(primary, ours - 1)
    _heard(session, primary)
    _may_write(session, ours, _DENIED)
    _may_write(session, ours - 1, _DENIED)


# -- the primary goes


@check("arbitration.gone", "5", "backups hear that the primary has gone: NOT_FOUND")
def _gone(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.leave()
    _status(session, _heard(session, backup), _NOBODY)


@check("arbitration.gone_killed", "5", "backups hear that the primary's stream has broken")
def _gone_killed(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.leave(broken=True)
    _status(session, _heard(session, backup), _NOBODY)


@check("arbitration.gone_id", "5.4", "after that the notification still has the highest election id")
def _gone_id(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.leave()
    session.same(number_of(_heard(session, backup).election_id), session.election, "election id")


@check("arbitration.gone_not_promoted", "5", "no backup becomes primary because the primary has gone")
def _gone_not_promoted(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.leave()
    _heard(session, backup)
    _may_write(session, session.election - 1, _DENIED)


@check("arbitration.gone_write", "5", "after that a Write with the gone primary's election id is PERMISSION_DENIED")
def _gone_write(session: CheckSession) -> None:
    backup, _ = session.controller(session.election - 1)
    session.leave()
    _heard(session, backup)
    _may_write(session, session.election, _DENIED)


@check("arbitration.gone_lower", "5.3", "an election id below the highest ever seen does not make a primary")
def _gone_lower(session: CheckSession) -> None:
    session.leave()
    _, update = session.controller(session.election - 1)
    _status(session, update, _NOBODY)


@check("arbitration.gone_same", "5.3", "who comes back with the highest election id ever seen is primary again")
def _gone_same(session: CheckSession) -> None:
    session.leave()
    _, update = session.controller(session.election)
    _status(session, update, 0)


@check("arbitration.gone_state", "5", "the forwarding state stays when the primary has gone")
def _gone_state(session: CheckSession) -> None:
    entity = session.samples.entry(session.samples.exact)
    session.prepare(entity)
    session.leave()
    session.holds(session.samples.entry(session.samples.exact, action=False), entity)


# -- roles


@check("role.primary", "5", "each role has a primary of its own, with whatever election id")
def _role_primary(session: CheckSession) -> None:
    ours = session.election
    _, update = session.controller(session.next_election(), role=_ROLE)
    _status(session, update, 0)
    _may_write(session, ours, 0)


@check("role.echo", "5.4", "the notification names the role")
def _role_echo(session: CheckSession) -> None:
    _, update = session.controller(session.next_election(), role=_ROLE)
    session.same(update.role.name, _ROLE, "role")


@check("role.quiet", "5.4", "other roles hear nothing of a role's new primary")
def _role_quiet(session: CheckSession) -> None:
    primary = _primary(session)
    session.controller(session.next_election(), role=_ROLE)
    session.is_quiet(primary, "arbitration")


@check("role.same_id", "5", "the same election id may be used in two roles")
def _role_same_id(session: CheckSession) -> None:
    session.controller(session.next_election(), role=_ROLE)
    _, update = session.controller(session.election, role=f"{_ROLE} 2")
    _status(session, update, 0)


@check("role.write", "5.2", "a role without config may write everything")
def _role_write(session: CheckSession) -> None:
    session.controller(session.next_election(), role=_ROLE)
    _may_write(session, session.election, 0, role=_ROLE)


@check("role.write_as_default", "5", "a role's primary that names no role in a Write is not the default role's primary")
def _role_as_default(session: CheckSession) -> None:
    session.controller(session.next_election(), role=_ROLE)
    _may_write(session, session.election, _DENIED)


@check("role.backup", "5.4", "within a role a lower election id makes a backup")
def _role_backup(session: CheckSession) -> None:
    session.controller(session.next_election(), role=_ROLE)
    _, update = session.controller(session.election - 1, role=_ROLE)
    _status(session, update, _BACKUP)


@check("role.high_half", "5", "election ids have 128 bits: the upper half counts first")
def _high_half(session: CheckSession) -> None:
    """In a role of its own, so that the default role's ids stay low."""
    role = f"{_ROLE} 128"
    session.controller((1 << 100) + session.next_election(), role=role)
    _, update = session.controller((1 << 64) - 1, role=role)
    _status(session, update, _BACKUP)


@check("role.config", "5.3", "a role.config that is of no scheme ends with INVALID_ARGUMENT")
def _role_config(session: CheckSession) -> None:
    conversation = session.converse()
    update = p4r.MasterArbitrationUpdate(device_id=session.device_id)
    update.election_id.low = session.next_election()
    update.role.name = f"{_ROLE} config"
    update.role.config.type_url, update.role.config.value = "type.googleapis.com/nobody.has.This", b"\1\2\3"
    session.send(conversation, arbitration=update)
    session.ends(conversation, Canonical.INVALID_ARGUMENT)
