# SPDX-License-Identifier: Apache-2.0
"""sonic-pins' SAI P4 programs, built here from a checkout by our compiler, and by p4c where it is: all tables are
written with all their actions and read back; packets are forwarded, mirrored and punted.

`DETOUR_SONIC_PINS` says where https://github.com/sonic-net/sonic-pins is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from detour.p4.build import build
from tests.ptf.p4rt import add_match, encode
from tests.unit.p4runtime.test_p4rt_engine import Switch, running
from tests.unit.p4runtime.test_p4rt_translation import key

CHECKOUT = Path(os.environ.get("DETOUR_SONIC_PINS", "")) / "sai_p4" / "instantiations" / "google"
_NO_P4C = pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="p4c-bm2-ss is not on PATH")
pytestmark = [
    pytest.mark.skipif(not (CHECKOUT / "middleblock.p4").exists(), reason="DETOUR_SONIC_PINS names no checkout"),
    pytest.mark.parametrize("compiler", ["detour", pytest.param("p4c", marks=_NO_P4C)]),
]
INSTANTIATIONS = ("middleblock", "tor", "fabric_border_router", "wbb")
PLATFORMS = ("", "PLATFORM_BMV2", "PLATFORM_P4SYMBOLIC")
_KIND = p4i.MatchField.MatchType
_PRIORITY = 900
"""the only one that ipv6_tunnel_termination_table takes"""

# What restrictions and the checks of the program want of values, where 1 will not do.
VALUES = {
    ("ipv4_multicast_table", "ipv4_dst"): 0xE0000001,
    ("ipv6_multicast_table", "ipv6_dst"): 0xFF << 120 | 1,
    ("ingress_clone_table", "marked_to_mirror"): 0,
    ("acl_wbb_ingress_table", "ether_type"): (0x88CC, 0xFFFF),
}


def pipeline(compiler: str, name: str, platform: str) -> p4r.ForwardingPipelineConfig:
    made = build(CHECKOUT / f"{name}.p4", compiler, defines={platform: "1"} if platform else {})
    info = text_format.Parse(made.p4info.read_text(), p4i.P4Info())
    return p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=made.json.read_bytes())


def argument(described: object, number: int = 1) -> bytes:
    """A value: strings are called after their type, so that what refers to them finds them."""
    type_name = described.type_name.name  # type: ignore[attr-defined]
    return f"{type_name}-{number}".encode() if not described.bitwidth else encode(number)  # type: ignore[attr-defined]


def entries(info: p4i.P4Info) -> Iterator[list[p4r.Entity]]:
    """An entry for each table, with each of its actions in turn."""
    actions = {a.preamble.id: a for a in info.actions}
    scopes = p4i.ActionRef.Scope
    for table in info.tables:
        if table.is_const_table:
            continue
        entity = p4r.Entity()
        entity.table_entry.table_id = table.preamble.id
        for field in table.match_fields:
            value = VALUES.get((table.preamble.alias, field.name))
            if value is not None:
                add_match(entity.table_entry.match.add(field_id=field.id), field.match_type, value)
            elif field.match_type == _KIND.EXACT:
                entity.table_entry.match.add(field_id=field.id).exact.value = argument(field)
        if any(f.match_type in (_KIND.TERNARY, _KIND.RANGE, _KIND.OPTIONAL) for f in table.match_fields):
            entity.table_entry.priority = _PRIORITY
        variants = []
        for ref in table.action_refs:
            if ref.scope == scopes.DEFAULT_ONLY:
                continue
            variant = p4r.Entity()
            variant.CopyFrom(entity)
            action = variant.table_entry.action.action
            if table.implementation_id:
                action = variant.table_entry.action.action_profile_action_set.action_profile_actions.add(
                    weight=1
                ).action
            action.action_id = ref.id
            for param in actions[ref.id].params:
                action.params.add(param_id=param.id, value=argument(param))
            variants.append(variant)
        yield variants


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", INSTANTIATIONS)
def test_all_tables_are_written_and_read(compiler: str, name: str, platform: str) -> None:
    config = pipeline(compiler, name, platform)
    with running(config=config) as switch:
        group = p4r.Entity()
        out = group.packet_replication_engine_entry.multicast_group_entry
        out.multicast_group_id = 1
        switch.client.insert(group)
        left, written = list(entries(config.p4info)), []
        while left:  # what is referred to comes first, whichever that is
            later = []
            for variants in left:
                try:
                    switch.client.insert(variants[0])
                    written.append(variants)
                except Exception as e:
                    later.append((variants, e))
            assert len(later) < len(left), [(v[0], e) for v, e in later]
            left = [variants for variants, _ in later]
        for variants in written:
            for variant in variants:
                switch.client.modify(variant)
                assert switch.client.read(key(variant)) == [variant]


class Routing:
    """Entries of a program by names; a table is the one that has the action, where several may."""

    def __init__(self, info: p4i.P4Info) -> None:
        self._tables = {t.preamble.alias: t for t in info.tables}
        self._actions = {a.preamble.alias: a for a in info.actions}

    def entry(self, prefix: str, match: dict[str, object], action: str, *args: int | str) -> p4r.Entity:
        described = self._actions[action]
        table = next(
            t
            for name, t in self._tables.items()
            if name.startswith(prefix) and described.preamble.id in [ref.id for ref in t.action_refs]
        )
        entity = p4r.Entity()
        entry = entity.table_entry
        entry.table_id = table.preamble.id
        for field in table.match_fields:
            if field.name in match:
                add_match(entry.match.add(field_id=field.id), field.match_type, match[field.name])
            if field.match_type in (_KIND.TERNARY, _KIND.RANGE, _KIND.OPTIONAL):
                entry.priority = _PRIORITY
        entry.action.action.action_id = described.preamble.id
        for param, value in zip(described.params, args, strict=True):
            entry.action.action.params.add(param_id=param.id, value=encode(value))
        return entity

    def has(self, action: str) -> bool:
        return action in self._actions


def clone_session(id_: int, port: str, instance: int) -> p4r.Entity:
    entity = p4r.Entity()
    out = entity.packet_replication_engine_entry.clone_session_entry
    out.session_id = id_
    out.replicas.add(port=port.encode(), instance=instance)
    return entity


@pytest.mark.parametrize("name", INSTANTIATIONS[:3])
def test_packets_are_forwarded_mirrored_and_punted(compiler: str, name: str) -> None:
    """All but strings stands for the data plane: ports are called by their numbers. Of the builds with strings,
    p4-symbolic's has the header of packet-ins in the data plane."""
    config = pipeline(compiler, name, "PLATFORM_P4SYMBOLIC")
    make = Routing(config.p4info)
    out = "unicast_set_port_and_src_mac" if make.has("unicast_set_port_and_src_mac") else "set_port_and_src_mac"
    link_local = 0xFE80 << 112 | 1
    routed = [
        make.entry("vrf_table", {"vrf_id": "vrf-a"}, "no_action"),
        make.entry("acl_pre_ingress", {}, "set_vrf", "vrf-a"),
        make.entry("router_interface", {"router_interface_id": "rif-1"}, out, "2", 0x020000000001),
        make.entry(
            "neighbor", {"router_interface_id": "rif-1", "neighbor_id": link_local}, "set_dst_mac", 0x020000000002
        ),
        make.entry("nexthop", {"nexthop_id": "hop-1"}, "set_ip_nexthop", "rif-1", link_local),
        make.entry("ipv4_table", {"vrf_id": "vrf-a", "ipv4_dst": (0x0A000000, 8)}, "set_nexthop_id", "hop-1"),
    ]
    with running(config=config) as switch:
        switch.client.insert(*routed)
        sent = Ether(src="02:00:00:00:00:09", dst="02:00:00:00:00:08") / IP(src="192.0.2.1", dst="10.1.2.3", ttl=9)
        sent = Ether(bytes(sent / UDP(sport=1, dport=2) / Raw(b"payload")))
        switch.send(bytes(sent))
        received = Ether(switch.receive(2))
        assert (received.src, received.dst, received[IP].ttl) == ("02:00:00:00:00:01", "02:00:00:00:00:02", 8)

        _trap(switch, make)
        switch.send(bytes(sent), port=3)
        packet = switch.stream.next().packet
        assert packet.payload == bytes(sent)
        assert [m.value for m in packet.metadata[:2]] == [b"3", b"2"]
        out_of = p4r.PacketOut(payload=b"from the controller")
        for id_, value in ((1, b"3"), (2, b"\0"), (3, b"\0")):
            out_of.metadata.add(metadata_id=id_, value=value)
        switch.stream.send(packet=out_of)
        assert switch.receive(3) == b"from the controller"

        if make.has("acl_mirror"):
            _mirror(switch, make)
            switch.send(bytes(sent))
            mirrored = switch.receive(3)
            assert mirrored.endswith(b"payload")
            assert Ether(mirrored).dst == "02:00:00:00:00:0c"


def _trap(switch: Switch, make: Routing) -> None:
    """Packets with a TTL of 9 go to the controller."""
    match = {"is_ipv4": 1, "ttl": (9, 0xFF)}
    switch.client.insert(
        clone_session(255, "510", 1),
        make.entry("ingress_clone", {"marked_to_copy": 1, "marked_to_mirror": 0}, "ingress_clone", 255),
        make.entry("acl_ingress_table", match, "acl_trap", "queue-1"),
    )


def _mirror(switch: Switch, make: Routing) -> None:
    """And are mirrored to port 3 instead, in an envelope."""
    session = (0x02000000000B, 0x02000000000C, 5, 1, 2, 3, 4)
    switch.client.delete(make.entry("acl_ingress_table", {"is_ipv4": 1, "ttl": (9, 0xFF)}, "acl_trap", "queue-1"))
    switch.client.insert(
        clone_session(7, "3", 2),
        make.entry(
            "ingress_clone",
            {"marked_to_copy": 0, "marked_to_mirror": 1, "mirror_egress_port": "3"},
            "ingress_clone",
            7,
        ),
        make.entry(
            "mirror_session",
            {"mirror_session_id": "mirror-1"},
            "mirror_with_vlan_tag_and_ipfix_encapsulation",
            "3", "3", *session,
        ),
        make.entry("acl_ingress", {"is_ipv4": 1, "ttl": (9, 0xFF)}, "acl_mirror", "mirror-1"),
    )  # fmt: skip
