# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig and GetForwardingPipelineConfig (sections 14, 15), and calls before any pipeline."""

from __future__ import annotations

from functools import partial
from typing import Any

from finsy.proto import p4r

from detour.control.conformance.checks.rpcs import NO_DEVICE, NO_ROLE
from detour.control.conformance.link import Canonical
from detour.control.conformance.model import SHOULD, add, check
from detour.control.conformance.samples import MissingObject
from detour.control.conformance.session import CheckSession, NotPrepared, insert, modify, uint128

_INVALID = Canonical.INVALID_ARGUMENT
_Type = p4r.GetForwardingPipelineConfigRequest.ResponseType
_COOKIE = 0x1234_5678_9ABC_DEF0


def _refused(action: str | int, with_config: bool, code: int, fields: dict[str, Any], session: CheckSession) -> None:
    answer = session.set_pipeline(action, session.config if with_config else None, **fields)
    session.same(answer.code, code, "code of the call")


for _id, _text, _action, _config, _code, _fields in (
    ("unknown_device", "a device that the server does not have is NOT_FOUND", "VERIFY_AND_COMMIT", True,
     Canonical.NOT_FOUND, {"device_id": NO_DEVICE}),
    ("unknown_role", "a role that the device does not have is NOT_FOUND", "VERIFY_AND_COMMIT", True,
     Canonical.NOT_FOUND, {"role": NO_ROLE}),
    ("no_election", "a request without election id is PERMISSION_DENIED", "VERIFY_AND_COMMIT", True,
     Canonical.PERMISSION_DENIED, {"election_id": None}),
    ("wrong_election", "a request with another election id than the primary's is PERMISSION_DENIED",
     "VERIFY_AND_COMMIT", True, Canonical.PERMISSION_DENIED, {"election_id": uint128(0)}),
    ("device_first", "the device is checked before the election id", "VERIFY_AND_COMMIT", True, Canonical.NOT_FOUND,
     {"device_id": NO_DEVICE, "election_id": None}),
    ("unspecified", "a request without action is INVALID_ARGUMENT", 0, True, _INVALID, {}),
    ("unknown_action", "an action that does not exist is INVALID_ARGUMENT", 99, True, _INVALID, {}),
    ("verify_none", "VERIFY without a config is INVALID_ARGUMENT", "VERIFY", False, _INVALID, {}),
    ("save_none", "VERIFY_AND_SAVE without a config is INVALID_ARGUMENT", "VERIFY_AND_SAVE", False, _INVALID, {}),
    ("commit_none", "VERIFY_AND_COMMIT without a config is INVALID_ARGUMENT", "VERIFY_AND_COMMIT", False, _INVALID,
     {}),
    ("reconcile_none", "RECONCILE_AND_COMMIT without a config is INVALID_ARGUMENT, or UNIMPLEMENTED",
     "RECONCILE_AND_COMMIT", False, _INVALID, {}),
    ("commit_unsaved", "COMMIT with nothing saved is NOT_FOUND", "COMMIT", False, Canonical.NOT_FOUND, {}),
):  # fmt: skip
    add(f"pipeline.{_id}", "14", _text, partial(_refused, _action, _config, _code, _fields))


def _garbage(session: CheckSession) -> p4r.ForwardingPipelineConfig:
    """The suite's P4Info with a device config that no target can realise."""
    return p4r.ForwardingPipelineConfig(p4info=session.config.p4info, p4_device_config=b"\0 no program \xff")


def _refuse_garbage(action: str, session: CheckSession) -> None:
    session.same(session.set_pipeline(action, _garbage(session)).code, _INVALID, "code of the call")


for _action in ("VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "RECONCILE_AND_COMMIT"):
    _text = f"{_action} of a config that no target realises is INVALID_ARGUMENT"
    add(f"pipeline.garbage_{_action.lower()}", "14", _text, partial(_refuse_garbage, _action))


def _entry(session: CheckSession) -> p4r.Entity:
    return session.samples.entry(session.samples.exact)


def _request(session: CheckSession) -> p4r.Entity:
    return session.samples.entry(session.samples.exact, action=False)


def _set(session: CheckSession, action: str, config: p4r.ForwardingPipelineConfig | None) -> None:
    """Must be accepted before the check has tried anything."""
    if (answer := session.set_pipeline(action, config)).code:
        raise NotPrepared(f"{action}: {answer.text}")


@check("pipeline.verify", "14", "VERIFY of a config that can be realised is OK")
def _verify(session: CheckSession) -> None:
    session.same(session.set_pipeline("VERIFY", session.config).code, 0, "code of the call")


@check("pipeline.verify_keeps", "14", "VERIFY does not change the forwarding state")
def _verify_keeps(session: CheckSession) -> None:
    session.prepare(_entry(session))
    _set(session, "VERIFY", session.config)
    session.holds(_request(session), _entry(session))


@check("pipeline.garbage_keeps", "14", "a VERIFY_AND_COMMIT that fails does not change the forwarding state")
def _garbage_keeps(session: CheckSession) -> None:
    session.prepare(_entry(session))
    session.set_pipeline("VERIFY_AND_COMMIT", _garbage(session))
    session.holds(_request(session), _entry(session))


def _cleared(entity: str, session: CheckSession) -> None:
    """An entity of each kind is gone."""
    samples = session.samples
    if entity == "entry":
        made, request, after = insert(_entry(session)), _request(session), ()
    elif entity == "default":
        table = samples.exact
        request = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True))
        made, after = modify(samples.default(table)), session.read(request)
    elif entity == "counter":
        made, request, after = modify(samples.counter(1, 5)), samples.counter(1), [samples.counter(1, 0)]
        after[0].counter_entry.data.SetInParent()
    elif entity == "meter":
        made, request, after = modify(samples.meter(1, 5)), samples.meter(1), [samples.meter(1)]
    elif entity == "register":
        made, request, after = modify(samples.register(1, 5)), samples.register(1), [samples.register(1, 0)]
    elif entity == "value_set":
        made, request, after = modify(samples.value_set(5)), samples.value_set(), [samples.value_set()]
    else:
        made, request, after = insert(getattr(samples, entity)()), p4r.Entity(), ()
        request.CopyFrom(made.entity)
    session.do(made)
    _set(session, "VERIFY_AND_COMMIT", session.config)
    if after:
        session.holds(request, *after)
        return
    answer = session.try_read(request)
    entities = [each for response in answer.messages for each in response.entities]
    session.expect(not entities and answer.codes[0] in (0, Canonical.NOT_FOUND), "no entity")


for _entity in ("entry", "default", "member", "multicast", "clone", "digest", "counter", "meter", "register",
                "value_set"):  # fmt: skip
    add(f"pipeline.clears_{_entity}", "14", f"VERIFY_AND_COMMIT clears the forwarding state: {_entity}",
        partial(_cleared, _entity))  # fmt: skip


@check("pipeline.save_and_commit", "14", "COMMIT after VERIFY_AND_SAVE is OK")
def _save_and_commit(session: CheckSession) -> None:
    _set(session, "VERIFY_AND_SAVE", session.config)
    session.same(session.set_pipeline("COMMIT", None).code, 0, "code of the call")


@check("pipeline.replays", "14", "what was written since VERIFY_AND_SAVE is there after COMMIT")
def _replays(session: CheckSession) -> None:
    _set(session, "VERIFY_AND_SAVE", session.config)
    session.prepare(_entry(session))
    _set(session, "COMMIT", None)
    session.holds(_request(session), _entry(session))


@check("pipeline.commit_with_config", "14", "COMMIT with a config is INVALID_ARGUMENT")
def _commit_with_config(session: CheckSession) -> None:
    _set(session, "VERIFY_AND_SAVE", session.config)
    session.same(session.set_pipeline("COMMIT", session.config).code, _INVALID, "code of the call")


@check("pipeline.commit_twice", "14", "a second COMMIT finds nothing saved: NOT_FOUND")
def _commit_twice(session: CheckSession) -> None:
    _set(session, "VERIFY_AND_SAVE", session.config)
    _set(session, "COMMIT", None)
    session.same(session.set_pipeline("COMMIT", None).code, Canonical.NOT_FOUND, "code of the call")


@check("pipeline.reconcile", "14", "RECONCILE_AND_COMMIT preserves the forwarding state, or UNIMPLEMENTED")
def _reconcile(session: CheckSession) -> None:
    session.prepare(_entry(session))
    answer = session.set_pipeline("RECONCILE_AND_COMMIT", session.config)
    session.expect(answer.code == 0, "OK")
    session.holds(_request(session), _entry(session))


@check("pipeline.backup", "14", "a backup's request is PERMISSION_DENIED")
def _backup(session: CheckSession) -> None:
    lower = uint128(session.election - 1)
    session.controller(session.election - 1)
    answer = session.set_pipeline("VERIFY_AND_COMMIT", session.config, election_id=lower)
    session.same(answer.code, Canonical.PERMISSION_DENIED, "code of the call")


# -- Get


def _get(session: CheckSession, type_: int, cookie: bool = True) -> p4r.ForwardingPipelineConfig:
    config = p4r.ForwardingPipelineConfig()
    config.CopyFrom(session.config)
    if cookie:
        config.cookie.cookie = _COOKIE
    _set(session, "VERIFY_AND_COMMIT", config)
    request = p4r.GetForwardingPipelineConfigRequest(device_id=session.device_id)
    request.response_type = type_  # pyright: ignore[reportAttributeAccessIssue]
    answer = session.call("GetForwardingPipelineConfig", request)
    session.expect(answer.code == 0, "OK")
    return answer.messages[0].config


def _has(type_: int, part: str, present: bool, session: CheckSession) -> None:
    """Whether a part is in the answer to a type of request, as it was set."""
    config = _get(session, type_)
    if part == "cookie":
        session.same(config.cookie.cookie, _COOKIE, "cookie")
    elif part == "p4info":
        session.expect(config.p4info == session.config.p4info if present else not config.HasField("p4info"),
                       "the P4Info that was set" if present else "no p4info")  # fmt: skip
    elif present and not config.p4_device_config:
        raise MissingObject("the server does not tell its device config, as it may")
    else:
        expected = session.config.p4_device_config if present else b""
        session.expect(config.p4_device_config == expected, "the device config that was set" if present else "none")


for _name, _type, _info, _blob in (
    ("all", _Type.ALL, True, True),
    ("cookie_only", _Type.COOKIE_ONLY, False, False),
    ("p4info_and_cookie", _Type.P4INFO_AND_COOKIE, True, False),
    ("device_config_and_cookie", _Type.DEVICE_CONFIG_AND_COOKIE, False, True),
):
    for _part, _present in (("cookie", True), ("p4info", _info), ("p4_device_config", _blob)):
        _verb = "has" if _present else "does not have"
        add(f"get.{_name}.{_part}", "15", f"the answer to {_name.upper()} {_verb} {_part}",
            partial(_has, _type, _part, _present))  # fmt: skip


@check("get.no_cookie", "15", "a config that was set without cookie is returned without one")
def _get_no_cookie(session: CheckSession) -> None:
    session.expect(not _get(session, _Type.ALL, cookie=False).HasField("cookie"), "no cookie")


@check("get.unknown_device", "15", "GetForwardingPipelineConfig of a device that the server does not have is NOT_FOUND")
def _get_device(session: CheckSession) -> None:
    request = p4r.GetForwardingPipelineConfigRequest(device_id=NO_DEVICE)
    answer = session.call("GetForwardingPipelineConfig", request)
    session.same(answer.code, Canonical.NOT_FOUND, "code of the call")


@check("get.saved_cookie", "15", "after COMMIT the cookie of the committed config is returned", SHOULD)
def _get_committed(session: CheckSession) -> None:
    config = p4r.ForwardingPipelineConfig()
    config.CopyFrom(session.config)
    config.cookie.cookie = 77
    _set(session, "VERIFY_AND_SAVE", config)
    _set(session, "COMMIT", None)
    request = p4r.GetForwardingPipelineConfigRequest(device_id=session.device_id)
    answer = session.call("GetForwardingPipelineConfig", request)
    session.expect(answer.code == 0 and answer.messages[0].config.cookie.cookie == 77, "cookie 77")


# -- before a pipeline


def _before(method: str, session: CheckSession) -> None:
    """What the session asked a server that had none."""
    if method not in session.before_pipeline:
        raise MissingObject("the server had a pipeline when the suite began")
    request, answer = session.before_pipeline[method]
    session.note(request, answer)
    if method == "GetForwardingPipelineConfig":
        session.expect(answer.code == 0 and not answer.messages[0].HasField("config"), "an answer without config")
    else:
        session.same(answer.codes[0], Canonical.FAILED_PRECONDITION, "code")


for _method, _section, _text in (
    ("Write", "12", "before a pipeline is set, Write is FAILED_PRECONDITION"),
    ("Read", "13", "before a pipeline is set, Read is FAILED_PRECONDITION"),
    ("GetForwardingPipelineConfig", "15", "before a pipeline is set, GetForwardingPipelineConfig has no config"),
):
    add(f"before.{_method}", _section, _text, partial(_before, _method))
