# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig and GetForwardingPipelineConfig (spec, same titles).

`live` is what packets run. `saved` is what VERIFY_AND_SAVE made: reads and writes refer to it from then on, and its
state is built up apart, so COMMIT has nothing to replay: it lets packets run on that state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.engine.p4runtime.config import Compiled, device_data
from detour.engine.p4runtime.entities import pre
from detour.engine.p4runtime.entities.common import INSERT, MODIFY
from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.read import WHOLE_STATE, Reader
from detour.engine.p4runtime.store import EntityStore, TableStore
from detour.engine.p4runtime.write import write
from detour.engine.target import TargetSwitch

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
        """The entities that packets meet."""
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
        """The entities that reads and writes refer to; FAILED_PRECONDITION if there is nothing yet."""
        pipeline = self._saved or self._live
        if pipeline is None:
            # finsy knows this error by these words, which are BMv2's.
            raise Refused(Code.FAILED_PRECONDITION, "no forwarding pipeline config has been set")
        return pipeline.store

    def set(self, action: int, config: Compiled | None, cookie: int | None) -> None:
        """Carry out a request that `check` has passed; `config` unless it is COMMIT."""
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
                    carry_over(self._live.store, new.store)
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
        """Return the requested parts of the last config; without config if there is none."""
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
    """Return whether the request's config must be compiled; INVALID_ARGUMENT if it is there and should not be, or
    lacks."""
    if request.action == _Action.COMMIT:
        if request.HasField("config"):
            raise invalid("COMMIT takes the saved config; the request must not have one")
        return False
    if request.action not in _WITH_CONFIG:
        raise invalid(f"action {request.action} is unknown")
    if not request.HasField("config"):
        raise invalid(f"{_Action.Name(request.action)} needs a config")
    return True


# -- RECONCILE_AND_COMMIT: the forwarding state of the old config, written again under the new one. What differs from
# the state in which a config begins is read as entities and inserted. An entity that the new config refuses (its table
# is gone, an action has another parameter, ...) means that the state cannot be preserved.

_BATCH = 1024
_MODIFIED = ("value_set_entry", "counter_entry", "meter_entry", "register_entry")


def carry_over(old: EntityStore, new: EntityStore) -> None:
    """Copies state; INVALID_ARGUMENT names the first entity that does not fit."""
    new.translation.inherit(old.translation)
    new.references.strict = False  # tables come in any order
    for updates in _batches(old, new):
        for update, error in zip(updates, write(new, updates), strict=True):
            if error is not None:
                name = update.entity.WhichOneof("entity")
                raise invalid(f"the state cannot be preserved: a {name} does not fit the new config: {error.text}")
    new.references.verify()


def _batches(old: EntityStore, new: EntityStore) -> Iterator[list[p4r.Update]]:
    """Members before groups before entries; what depends on an entry is part of it."""
    for request in WHOLE_STATE:
        reader = Reader(old, [request])
        for response in reader.chunks():
            updates = [u for e in response.entities if (u := _update(e, old, new)) is not None]
            for at in range(0, len(updates), _BATCH):
                yield updates[at : at + _BATCH]
        if (error := reader.errors[0]) is not None:
            raise error


def _update(entity: p4r.Entity, old: EntityStore, new: EntityStore) -> p4r.Update | None:
    """The update that carries an entity over, None if the new state has it by itself."""
    name = entity.WhichOneof("entity")
    kind = MODIFY if name in _MODIFIED or entity.table_entry.is_default_action else INSERT
    match name:
        case "table_entry":
            entry = entity.table_entry
            table, counterpart = old.tables[entry.table_id], new.tables.get(entry.table_id)
            if entry.is_const or (entry.is_default_action and not table.engine.default_changed):
                return None
            if table.info.preset and counterpart is not None and _initial(new, counterpart, entity):
                kind = MODIFY
        case "value_set_entry" if not entity.value_set_entry.members:
            return None
        case "counter_entry" if not (entity.counter_entry.data.packet_count or entity.counter_entry.data.byte_count):
            return None
        case "meter_entry" if not entity.meter_entry.HasField("config"):
            return None
        case "register_entry":
            data = entity.register_entry.data
            if not any(data.bitstring) and not any(data.enum_value) and not data.bool:
                return None
    return p4r.Update(type=kind, entity=entity)  # type: ignore[arg-type]


def _initial(new: EntityStore, table: TableStore, entity: p4r.Entity) -> bool:
    try:
        entry = new.translation.inward(entity).table_entry
        table.engine.find(table.info.key.decode(entry.match), entry.priority)
    except Exception:
        return False
    return True
