# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig and GetForwardingPipelineConfig (spec, same titles).

`live` is what packets run. `saved` is what VERIFY_AND_SAVE made: reads and writes refer to it from then on, and its
state is built up apart, so COMMIT has nothing to replay: it lets packets run on that state.
"""

from __future__ import annotations

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.engine.p4runtime import reconcile
from detour.engine.p4runtime.config import Compiled
from detour.engine.p4runtime.entities import pre
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import Store
from detour.engine.p4runtime.target import Target

_Action = p4r.SetForwardingPipelineConfigRequest.Action
_Type = p4r.GetForwardingPipelineConfigRequest.ResponseType
_WITH_CONFIG = (_Action.VERIFY, _Action.VERIFY_AND_SAVE, _Action.VERIFY_AND_COMMIT, _Action.RECONCILE_AND_COMMIT)


class Pipelines:
    """The configs of one device. The caller lets nobody else in while a method runs."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.live: Store | None = None
        self._live_config: Compiled | None = None
        self.saved: Store | None = None
        self._saved_config: Compiled | None = None

    @property
    def store(self) -> Store:
        """What reads and writes refer to; FAILED_PRECONDITION if there is nothing yet."""
        found = self.saved or self.live
        if found is None:
            raise Refused(Code.FAILED_PRECONDITION, "no forwarding pipeline config has been set")
        return found

    def set(self, action: int, config: Compiled | None) -> None:
        """Carries out a verified request; `config` as `check` asked for it."""
        match action:
            case _Action.VERIFY:
                assert config is not None
                Store(config.info, config.program, self._target)
            case _Action.VERIFY_AND_SAVE:
                assert config is not None
                self.saved, self._saved_config = Store(config.info, config.program, self._target), config
            case _Action.VERIFY_AND_COMMIT:
                assert config is not None
                self._commit(Store(config.info, config.program, self._target), config)
            case _Action.COMMIT:
                if self.saved is None or self._saved_config is None:
                    raise Refused(Code.NOT_FOUND, "no config has been saved since the last commit")
                self._commit(self.saved, self._saved_config)
            case _Action.RECONCILE_AND_COMMIT:
                assert config is not None
                new = Store(config.info, config.program, self._target)
                if self.live is not None:
                    reconcile.carry_over(self.live, new)
                self._commit(new, config)

    def _commit(self, store: Store, config: Compiled) -> None:
        old = self.live

        def switch_over() -> None:
            """Between two packets."""
            self._target.install(store.program, store.state)
            pre.install_all(store)
            store.live = True

        try:
            self._target.call(switch_over)
        except DetourError as e:
            raise invalid(f"the config cannot be realised: {e}") from e
        if old is not None and old is not store:
            old.live = False
        self.live, self._live_config = store, config
        self.saved = self._saved_config = None

    def get(self, response_type: int) -> p4r.GetForwardingPipelineConfigResponse:
        """What was set last, in part; without config if nothing was."""
        response = p4r.GetForwardingPipelineConfigResponse()
        config = self._saved_config or self._live_config
        if response_type not in _Type.values():
            raise invalid(f"response type {response_type} is unknown")
        if config is None:
            return response
        message = config.message
        response.config.SetInParent()
        if message.HasField("cookie"):
            response.config.cookie.CopyFrom(message.cookie)
        if response_type in (_Type.ALL, _Type.P4INFO_AND_COOKIE):
            response.config.p4info.CopyFrom(message.p4info)
        if response_type in (_Type.ALL, _Type.DEVICE_CONFIG_AND_COOKIE):
            response.config.p4_device_config = message.p4_device_config
        return response


def check(request: p4r.SetForwardingPipelineConfigRequest) -> bool:
    """Whether the request's config must be compiled; INVALID_ARGUMENT if it is there and should not be, or lacks."""
    if request.action == _Action.COMMIT:
        if request.HasField("config"):
            raise invalid("COMMIT takes the saved config; the request must not have one")
        return False
    if request.action not in _WITH_CONFIG:
        raise invalid(f"action {request.action} is unknown")
    if not request.HasField("config"):
        raise invalid(f"{_Action.Name(request.action)} needs a config")
    return True
