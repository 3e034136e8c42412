# SPDX-License-Identifier: Apache-2.0
"""What a server holds before the suite runs, and how it gets that back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from finsy.proto import p4r

from detour.control.conformance.link import Canonical, RpcLink
from detour.control.conformance.samples import at
from detour.control.conformance.session import CheckSession, NotOffered, NotPrepared, insert, modify, shown

_KINDS = ("action_profile_member", "action_profile_group", "table_entry", "counter_entry", "meter_entry",
          "register_entry", "value_set_entry", "digest_entry", "packet_replication_engine_entry.multicast_group_entry",
          "packet_replication_engine_entry.clone_session_entry")  # fmt: skip
"""in the order in which they can be written again"""


@dataclass(frozen=True)
class ServerState:
    """The pipeline, if there is one, and its entities."""

    config: p4r.ForwardingPipelineConfig | None
    entities: list[p4r.Entity]

    @classmethod
    def read(cls, link: RpcLink, device_id: int) -> ServerState:
        """What a server does not offer is left out."""
        request = p4r.GetForwardingPipelineConfigRequest(device_id=device_id)
        answer = link.call("GetForwardingPipelineConfig", request)
        if answer.code or not answer.messages[0].config.HasField("p4info"):
            return cls(None, [])
        config = answer.messages[0].config
        entities: list[p4r.Entity] = []
        kinds = [_all_of(kind) for kind in _KINDS]
        for wide in (*kinds[:3], *_defaults(config), *kinds[3:]):
            entities += link.call("Read", p4r.ReadRequest(device_id=device_id, entities=[wide])).entities
        return cls(config, entities)

    def restore(self, session: CheckSession) -> list[str]:
        """What of it cannot be put back, in words."""
        if self.config is None:
            return ["the server had no pipeline before; it has the suite's now, without entries", *_cleared(session)]
        if not self.config.p4_device_config:
            return ["the server does not tell its device config; it has the suite's pipeline now", *_cleared(session)]
        try:
            session.settle()
            if (answer := session.set_pipeline("VERIFY_AND_COMMIT", self.config)).code:
                return [f"the pipeline cannot be set again: {shown(answer)}"]
        except (NotOffered, NotPrepared) as error:
            return [f"the pipeline cannot be set again: {error}"]
        return [note for entity in self.entities for note in _write_again(session, entity)]


def _all_of(kind: str) -> p4r.Entity:
    entity = p4r.Entity()
    at(entity, kind).SetInParent()
    if kind == "table_entry":
        entity.table_entry.counter_data.SetInParent()
        entity.table_entry.meter_config.SetInParent()
    return entity


def _defaults(config: p4r.ForwardingPipelineConfig) -> Iterable[p4r.Entity]:
    for table in config.p4info.tables:
        if not table.const_default_action_id and not table.implementation_id:
            yield p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True))


def _cleared(session: CheckSession) -> list[str]:
    try:
        session.dirty = True
        session.begin()
    except (NotOffered, NotPrepared) as error:
        return [f"its entries cannot be removed: {error}"]
    return []


def _write_again(session: CheckSession, entity: p4r.Entity) -> list[str]:
    """Writes what was read: as a new entity, or, where there is one at any time, as its new value."""
    kind = entity.WhichOneof("entity")
    entry = entity.table_entry
    if kind == "table_entry" and entry.is_const:
        return []
    always_there = kind in ("counter_entry", "meter_entry", "register_entry", "value_set_entry")
    update = modify(entity) if always_there or entry.is_default_action else insert(entity)
    try:
        answer = session.write(update)
        if Canonical.ALREADY_EXISTS in answer.codes:  # the program brings it along
            answer = session.write(modify(entity))
        # A constant entry need not say so, and an entry that came with the program may be one.
        return [] if answer.codes[0] in (Canonical.OK, Canonical.PERMISSION_DENIED) else [f"{kind}: {shown(answer)}"]
    except NotOffered as error:
        return [f"{kind}: {error}"]
