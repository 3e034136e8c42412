# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig and GetForwardingPipelineConfig (sections 14, 15), and calls before any pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finsy.proto import p4r

from detour.conformance.steps import *

_Type = p4r.GetForwardingPipelineConfigRequest.ResponseType
_COOKIE = 0x1234_5678_9ABC_DEF0
_ACTIONS = ("VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "RECONCILE_AND_COMMIT")
_OWN, _NONE, _GARBAGE = "own", "none", "garbage"
"""which config a request has: the suite's, none, or its P4Info with a device config that no target can realise"""


def _config(session: CheckSession, which: str, cookie: int = 0) -> p4r.ForwardingPipelineConfig | None:
    if which == _NONE:
        return None
    config = p4r.ForwardingPipelineConfig()
    config.CopyFrom(session.config)
    if which == _GARBAGE:
        config.p4_device_config = b"\0 no program \xff"
    if cookie:
        config.cookie.cookie = cookie
    return config


def gives(code: int, action: str | int = "VERIFY_AND_COMMIT", config: str = _OWN, **fields: Any) -> CheckStep:
    """SetForwardingPipelineConfig must end with a code."""
    return lambda s: s.same(s.set_pipeline(action, _config(s, config), **fields).code, code, "code of the call")


@step
def sets(session: CheckSession, action: str, config: str = _OWN, cookie: int = 0) -> None:
    """Set the pipeline, which must succeed before the check has tried anything."""
    if (answer := session.set_pipeline(action, _config(session, config, cookie))).code:
        raise NotPrepared(f"{action}: {answer.text}")


@step
def gets(session: CheckSession, what: str, fits: Any, type_: int = _Type.ALL) -> None:
    """GetForwardingPipelineConfig must be answered by a config that fits."""
    request = p4r.GetForwardingPipelineConfigRequest(device_id=session.device_id, response_type=type_)  # pyright: ignore
    answer = session.call("GetForwardingPipelineConfig", request)
    session.expect(answer.code == 0, "OK")
    session.expect(bool(fits(answer.messages[0].config, session.config)), what)


def _no_device(session: CheckSession) -> None:
    request = p4r.GetForwardingPipelineConfigRequest(device_id=NO_DEVICE)
    session.same(session.call("GetForwardingPipelineConfig", request).code, NOT_FOUND, "code of the call")


def _told(config: p4r.ForwardingPipelineConfig, own: p4r.ForwardingPipelineConfig) -> bool:
    if not config.p4_device_config:
        raise MissingObject("the server does not tell its device config, as it may")
    return config.p4_device_config == own.p4_device_config


_PARTS = {
    # part: what is expected if it is to be there, and if not
    "cookie": (("cookie", lambda got, _: got.cookie.cookie == _COOKIE), ("", None)),
    "p4info": (("the P4Info that was set", lambda got, own: got.p4info == own.p4info),
               ("no p4info", lambda got, _: not got.HasField("p4info"))),
    "p4_device_config": (("the device config that was set", _told),
                         ("none", lambda got, _: not got.p4_device_config)),
}  # fmt: skip


def _gets() -> Iterator[tuple[Any, ...]]:
    for name, parts in (
        ("ALL", ("cookie", "p4info", "p4_device_config")),
        ("COOKIE_ONLY", ("cookie",)),
        ("P4INFO_AND_COOKIE", ("cookie", "p4info")),
        ("DEVICE_CONFIG_AND_COOKIE", ("cookie", "p4_device_config")),
    ):
        for part, (present, absent) in _PARTS.items():
            verb, (what, fits) = ("has", present) if part in parts else ("does not have", absent)
            yield (f"{name.lower()}.{part}", "15", f"the answer to {name} {verb} {part}",
                   sets("VERIFY_AND_COMMIT", cookie=_COOKIE), gets(what, fits, _Type.Value(name)))  # fmt: skip


_ENTRY, _KEY = sample.entry("exact"), sample.key("exact")
_DEFAULT = sample.all_of("exact", default=True)
_AGAIN = sets("VERIFY_AND_COMMIT")


def _zero(recipe: Recipe) -> Recipe:
    return recipe.altered(lambda message: message.data.SetInParent())


_CLEARED: dict[str, tuple[CheckStep, ...]] = {
    "entry": (do(_ENTRY.insert), _AGAIN, lacks(_KEY)),
    "default": (keeps(_DEFAULT, do(sample.default("exact").modify), _AGAIN),),
    "member": (do(sample.member().insert), _AGAIN, lacks(sample.member())),
    "multicast": (do(sample.multicast().insert), _AGAIN, lacks(sample.multicast())),
    "clone": (do(sample.clone().insert), _AGAIN, lacks(sample.clone())),
    "digest": (do(sample.digest().insert), _AGAIN, lacks(sample.digest())),
    "counter": (do(sample.counter(1, 5).modify), _AGAIN, holds(sample.counter(1), _zero(sample.counter(1, 0)))),
    "meter": (do(sample.meter(1, 5).modify), _AGAIN, holds(sample.meter(1), sample.meter(1))),
    "register": (do(sample.register(1, 5).modify), _AGAIN, holds(sample.register(1), sample.register(1, 0))),
    "value_set": (do(sample.value_set(5).modify), _AGAIN, holds(sample.value_set(), sample.value_set())),
}


@step
def _before(session: CheckSession, method: str) -> None:
    """Check the answer that a server without a pipeline gave."""
    if method not in session.before_pipeline:
        raise MissingObject("the server had a pipeline when the suite began")
    request, answer = session.before_pipeline[method]
    session.note(request, answer)
    if method == "GetForwardingPipelineConfig":
        session.expect(answer.code == 0 and not answer.messages[0].HasField("config"), "an answer without config")
    else:
        session.same(answer.codes[0], IN_USE, "code")


checks = [
    *rows("pipeline",
        ("unknown_device", "14", "a device that the server does not have is NOT_FOUND",
         gives(NOT_FOUND, device_id=NO_DEVICE)),
        ("unknown_role", "14", "a role that the device does not have is NOT_FOUND", gives(NOT_FOUND, role=NO_ROLE)),
        ("no_election", "14", "a request without election id is PERMISSION_DENIED", gives(DENIED, election=None)),
        ("wrong_election", "14", "a request with another election id than the primary's is PERMISSION_DENIED",
         gives(DENIED, election=1)),
        ("device_first", "14", "the device is checked before the election id",
         gives(NOT_FOUND, device_id=NO_DEVICE, election=None)),
        ("unspecified", "14", "a request without action is INVALID_ARGUMENT", gives(INVALID_ARGUMENT, 0)),
        ("unknown_action", "14", "an action that does not exist is INVALID_ARGUMENT", gives(INVALID_ARGUMENT, 99)),
        ("verify_none", "14", "VERIFY without a config is INVALID_ARGUMENT", gives(INVALID_ARGUMENT, "VERIFY", _NONE)),
        ("save_none", "14", "VERIFY_AND_SAVE without a config is INVALID_ARGUMENT",
         gives(INVALID_ARGUMENT, "VERIFY_AND_SAVE", _NONE)),
        ("commit_none", "14", "VERIFY_AND_COMMIT without a config is INVALID_ARGUMENT",
         gives(INVALID_ARGUMENT, "VERIFY_AND_COMMIT", _NONE)),
        ("reconcile_none", "14", "RECONCILE_AND_COMMIT without a config is INVALID_ARGUMENT, or UNIMPLEMENTED",
         gives(INVALID_ARGUMENT, "RECONCILE_AND_COMMIT", _NONE)),
        ("commit_unsaved", "14", "COMMIT with nothing saved is NOT_FOUND", gives(NOT_FOUND, "COMMIT", _NONE)),
        *((f"garbage_{action.lower()}", "14", f"{action} of a config that no target realises is INVALID_ARGUMENT",
           gives(INVALID_ARGUMENT, action, _GARBAGE)) for action in _ACTIONS),
        ("verify", "14", "VERIFY of a config that can be realised is OK", gives(0, "VERIFY")),
        ("verify_keeps", "14", "VERIFY does not change the forwarding state",
         prepare(_ENTRY), sets("VERIFY"), holds(_KEY, _ENTRY)),
        ("garbage_keeps", "14", "a VERIFY_AND_COMMIT that fails does not change the forwarding state",
         prepare(_ENTRY), lambda s: s.set_pipeline("VERIFY_AND_COMMIT", _config(s, _GARBAGE)), holds(_KEY, _ENTRY)),
        *((f"clears_{kind}", "14", f"VERIFY_AND_COMMIT clears the forwarding state: {kind}", *steps)
          for kind, steps in _CLEARED.items()),
        ("save_and_commit", "14", "COMMIT after VERIFY_AND_SAVE is OK",
         sets("VERIFY_AND_SAVE"), gives(0, "COMMIT", _NONE)),
        ("replays", "14", "what was written since VERIFY_AND_SAVE is there after COMMIT",
         sets("VERIFY_AND_SAVE"), prepare(_ENTRY), sets("COMMIT", _NONE), holds(_KEY, _ENTRY)),
        ("commit_with_config", "14", "COMMIT with a config is INVALID_ARGUMENT",
         sets("VERIFY_AND_SAVE"), gives(INVALID_ARGUMENT, "COMMIT")),
        ("commit_twice", "14", "a second COMMIT finds nothing saved: NOT_FOUND",
         sets("VERIFY_AND_SAVE"), sets("COMMIT", _NONE), gives(NOT_FOUND, "COMMIT", _NONE)),
        ("reconcile", "14", "RECONCILE_AND_COMMIT preserves the forwarding state, or UNIMPLEMENTED",
         prepare(_ENTRY), gives(0, "RECONCILE_AND_COMMIT"), holds(_KEY, _ENTRY)),
        ("backup", "14", "a backup's request is PERMISSION_DENIED",
         lambda session: session.controller(session.election - 1), gives(DENIED, election=-1)),
    ),
    *rows("get", *_gets(),
        ("no_cookie", "15", "a config that was set without cookie is returned without one",
         _AGAIN, gets("no cookie", lambda got, _: not got.HasField("cookie"))),
        ("unknown_device", "15", "GetForwardingPipelineConfig of a device that the server does not have is NOT_FOUND",
         _no_device),
        ("saved_cookie", "15", "after COMMIT the cookie of the committed config is returned",
         sets("VERIFY_AND_SAVE", cookie=77), sets("COMMIT", _NONE),
         gets("cookie 77", lambda got, _: got.cookie.cookie == 77)),
    ),
    *rows("before",
        ("Write", "12", "Write is FAILED_PRECONDITION", _before("Write")),
        ("Read", "13", "Read is FAILED_PRECONDITION", _before("Read")),
        ("GetForwardingPipelineConfig", "15", "GetForwardingPipelineConfig has no config",
         _before("GetForwardingPipelineConfig")), title="before a pipeline is set, ",
    ),
]  # fmt: skip
