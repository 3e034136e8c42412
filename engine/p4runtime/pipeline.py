# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig and GetForwardingPipelineConfig (spec, same titles).

`live` is what packets run. `saved` is what VERIFY_AND_SAVE made: reads and writes refer to it from then on, and its
state is built up apart, so COMMIT has nothing to replay: it lets packets run on that state.
"""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.engine.p4runtime import reconcile
from detour.engine.p4runtime.config import Compiled, device_data
from detour.engine.p4runtime.entities import pre
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.store import EntityStore
from detour.engine.p4runtime.target import TargetSwitch

_Action = p4r.SetForwardingPipelineConfigRequest.Action
_Type = p4r.GetForwardingPipelineConfigRequest.ResponseType
_WITH_CONFIG = (_Action.VERIFY, _Action.VERIFY_AND_SAVE, _Action.VERIFY_AND_COMMIT, _Action.RECONCILE_AND_COMMIT)


@dataclass(frozen=True)
class ForwardingPipeline:
    """A config with the state that was built up under it, and the cookie that came with it."""

    config: Compiled
    store: EntityStore
    cookie: int | None


class Pipelines:
    """The pipelines of one device. The caller lets nobody else in while a method runs."""

    def __init__(self, target: TargetSwitch) -> None:
        self._target = target
        self._live: ForwardingPipeline | None = None
        self._saved: ForwardingPipeline | None = None

    @property
    def live(self) -> EntityStore | None:
        """What packets run on."""
        return self._live.store if self._live else None

    @property
    def live_json(self) -> bytes:
        """The JSON of the program that packets run, as it was given; empty if there is none."""
        return device_data(self._live.config.message.p4_device_config) if self._live else b""

    def forget(self) -> None:
        """There is no pipeline any more: something else has been given to the switch, without P4Info."""
        if self._live is not None:
            self._live.store.live = False
        self._live = self._saved = None

    @property
    def store(self) -> EntityStore:
        """What reads and writes refer to; FAILED_PRECONDITION if there is nothing yet."""
        pipeline = self._saved or self._live
        if pipeline is None:
            # finsy knows this error by these words, which are BMv2's.
            raise Refused(Code.FAILED_PRECONDITION, "no forwarding pipeline config has been set")
        return pipeline.store

    def set(self, action: int, config: Compiled | None, cookie: int | None) -> None:
        """Carries out a request that `check` has passed; `config` unless it is COMMIT."""
        if config is None:
            if self._saved is None:
                raise Refused(Code.NOT_FOUND, "no config has been saved since the last commit")
            self._commit(self._saved)
            return
        new = ForwardingPipeline(config, EntityStore(config.info, config.program, self._target), cookie)
        match action:
            case _Action.VERIFY_AND_SAVE:
                self._saved = new
            case _Action.VERIFY_AND_COMMIT:
                self._commit(new)
            case _Action.RECONCILE_AND_COMMIT:
                if self._live is not None:
                    reconcile.carry_over(self._live.store, new.store)
                self._commit(new)

    def _commit(self, new: ForwardingPipeline) -> None:
        store, old = new.store, self.live

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
        self._live, self._saved = new, None

    def get(self, response_type: int) -> p4r.GetForwardingPipelineConfigResponse:
        """What was set last, in part; without config if nothing was."""
        response = p4r.GetForwardingPipelineConfigResponse()
        if response_type not in _Type.values():
            raise invalid(f"response type {response_type} is unknown")
        pipeline = self._saved or self._live
        if pipeline is None:
            return response
        message = pipeline.config.message
        response.config.SetInParent()
        if pipeline.cookie is not None:
            response.config.cookie.cookie = pipeline.cookie
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
