# SPDX-License-Identifier: Apache-2.0
"""Entities to P4Runtime messages and back."""

import finsy
import pytest

from detour.base.errors import DetourError
from detour.control import schema
from detour.control.entries import (
    Action,
    ActionSet,
    CloneSession,
    DefaultAction,
    Entity,
    Lpm,
    MeterConfig,
    MulticastGroup,
    Range,
    Replica,
    TableEntry,
    Ternary,
)
from detour.control.p4runtime.codec import Codec, to_bytes
from detour.control.p4runtime.pipeline import PipelineConfig

RULES = "FabricIngress.acl.rules"
FORWARD = [Action.of(schema.FORWARD, port=port) for port in (3, 1, 511)]

ENTITIES: list[Entity] = [
    TableEntry.of(schema.ROUTE, {schema.DST_ADDR: Lpm(0xFD00 << 112, 32)}, ActionSet.of(FORWARD)),
    TableEntry.of(schema.LOCAL_SID, {schema.DST_ADDR: Lpm(0xFCBBBB000001 << 80, 48)}, Action.of(schema.UN)),
    TableEntry.of(schema.CUT_OFF, {schema.VIA: 0, schema.DESTINATION_GROUP: 7}, Action.of(schema.NO_ACTION)),
    TableEntry.of(
        RULES,
        {"hdr.ipv6.next_hdr": Ternary(17, 0xFF), "hdr.udp.dst_port": Range(5, 4791)},
        Action.of("FabricIngress.acl.deny"),
        priority=9,
    ),
    TableEntry.of(RULES, {}, Action.of("FabricIngress.acl.permit"), priority=1),
    DefaultAction(schema.NODE_CONFIG, Action.of(schema.SET_NODE, node_id=4, group=0, groups=9)),
    MulticastGroup(7, (Replica(1), Replica(2, 5))),
    CloneSession(1, (Replica(510),)),
    MeterConfig(schema.PUNT_METER, 6, 1000, 100, 1000, 100),
]


@pytest.fixture(scope="module", params=[False, True], ids=["port numbers", "port bytes"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return Codec(finsy.P4Schema(PipelineConfig.fabric().p4info).p4info, request.param)


@pytest.mark.parametrize("entity", ENTITIES, ids=lambda e: type(e).__name__)
def test_round_trip(codec, entity):
    assert codec.decode(codec.encode(entity)) == entity


def test_canonical_bytes():
    assert to_bytes(0) == b"\0"
    assert to_bytes(0x100) == b"\1\0"


def test_default_action_is_modified_not_inserted(codec):
    update = codec.insert(ENTITIES[5])
    assert update.type == update.MODIFY


def test_deleting_a_meter_resets_it(codec):
    update = codec.delete(ENTITIES[8])
    assert update.type == update.MODIFY
    assert not update.entity.meter_entry.HasField("config")
    assert codec.decode(update.entity) is None


@pytest.mark.parametrize(
    ("entity", "says"),
    [
        (TableEntry.of("no.table", {}, FORWARD[0]), "no table 'no.table'"),
        (TableEntry.of(schema.ROUTE, {"nothing": 1}, FORWARD[0]), "no field 'nothing'"),
        (TableEntry.of(schema.ROUTE, {schema.DST_ADDR: 1}, FORWARD[0]), "matched by lpm"),
        (TableEntry.of(schema.CUT_OFF, {schema.VIA: 1 << 16}, FORWARD[0]), "16 bits"),
        (TableEntry.of(schema.LOCAL_SID, {}, ActionSet.of(FORWARD)), "no action selector"),
        (TableEntry.of(schema.ROUTE, {}, Action.of("nope")), "no action 'nope'"),
        (TableEntry.of(schema.ROUTE, {}, Action.of(schema.FORWARD)), "takes port"),
        (TableEntry.of(schema.ROUTE, {}, Action.of(schema.FORWARD, port=512)), "9 bits"),
        (MeterConfig("no.meter", 0, 1, 1, 1, 1), "no meter"),
    ],
)
def test_what_does_not_fit_is_named(codec, entity, says):
    with pytest.raises(DetourError, match=says):
        codec.encode(entity)
