// SPDX-License-Identifier: Apache-2.0
// Translated types wherever they can be, restrictions, references and roles: a router in the manner of SAI P4.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("", string)
@p4runtime_translation_mappings({ {"cpu", 510}, })
type bit<9> port_id_t;
@p4runtime_translation("", string)
@p4runtime_translation_mappings({ {"", 0}, })
type bit<4> vrf_id_t;
@p4runtime_translation("", string)
type bit<8> nexthop_id_t;
@p4runtime_translation("example.org/tag", 32)
@p4runtime_translation_mappings({ {1000, 7}, {0xfffffffd, 8} })
@p4runtime_translation_auto_allocate(false)
type bit<8> tag_t;

@controller_header("packet_in")
header packet_in_t {
    port_id_t ingress_port;
    bit<7> unused;
}

@controller_header("packet_out")
header packet_out_t {
    port_id_t egress_port;
    bit<7> unused;
}

header route_t {
    bit<8> vrf;
    bit<8> tag;
    bit<16> dst;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    route_t route;
}

struct metadata_t {
    vrf_id_t vrf;
    nexthop_id_t nexthop;
    tag_t tag;
    @field_list(1)
    port_id_t ingress_port;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            510: from_cpu;
            default: route;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    state route {
        packet.extract(hdr.route);
        meta.vrf = (vrf_id_t) hdr.route.vrf[3:0];
        meta.tag = (tag_t) hdr.route.tag;
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action no_action() { }
    action drop() {
        mark_to_drop(std);
    }

    @p4runtime_role("routing")
    @entry_restriction("
        // The default VRF is always there.
        vrf_id != 0;
    ")
    table vrf_table {
        key = { meta.vrf: exact @name("vrf_id"); }
        actions = { no_action; }
        const default_action = no_action;
    }

    action set_nexthop(@refers_to(nexthop_table, nexthop_id) nexthop_id_t nexthop_id) {
        meta.nexthop = nexthop_id;
    }
    @action_restriction("group != 0; group < 100")
    action set_group(@refers_to(builtin::multicast_group_table, multicast_group_id) bit<16> group) {
        std.mcast_grp = group;
    }
    @p4runtime_role("routing")
    table route_table {
        key = {
            meta.vrf: exact @name("vrf_id") @refers_to(vrf_table, vrf_id);
            hdr.route.dst: lpm @name("dst");
        }
        actions = { set_nexthop; set_group; drop; }
        const default_action = drop;
    }

    action forward(@refers_to(neighbor_table, port) port_id_t port, @refers_to(neighbor_table, number) bit<8> number) {
        std.egress_spec = (bit<9>) port;
    }
    @p4runtime_role("routing")
    table nexthop_table {
        key = { meta.nexthop: exact @name("nexthop_id"); }
        actions = { forward; drop; }
        const default_action = drop;
    }
    action set_tag(tag_t tag) {
        hdr.route.tag = (bit<8>) tag;
    }
    @p4runtime_role("routing")
    table neighbor_table {
        key = {
            (port_id_t) std.egress_spec: exact @name("port");
            hdr.route.tag: exact @name("number");
        }
        actions = { set_tag; no_action; }
        const default_action = no_action;
    }

    action send(port_id_t port) {
        std.egress_spec = (bit<9>) port;
    }
    action_selector(HashAlgorithm.crc16, 64, 16) spread;
    table spread_table {
        key = {
            meta.tag: exact @name("tag");
            hdr.route.dst: selector;
        }
        actions = { send; }
        implementation = spread;
    }

    action trap() {
        clone_preserving_field_list(CloneType.I2E, 1, 1);
    }
    @p4runtime_role("acl")
    @entry_restriction("
        dst::mask != 0 -> vrf_id == 1 || tag == 1000;
        // Spread over two lines, /* with */ other numerals.
        in_port::mask == -1 ->
            (dst::value != 0xffff && dst != 0b1);
        ::priority < 0d1000 && !(number == 7)
    ")
    table acl_table {
        key = {
            meta.ingress_port: optional @name("in_port");
            hdr.route.vrf: optional @name("vrf_id");
            meta.tag: optional @name("tag");
            hdr.route.dst: ternary @name("dst");
            hdr.route.tag: optional @name("number");
        }
        actions = { trap; drop; no_action; }
        const default_action = no_action;
    }

    table replica_table {
        key = {
            (port_id_t) std.egress_port: exact @name("port")
                @referenced_by(builtin::multicast_group_table, replica.port);
            std.egress_rid: exact @name("instance") @referenced_by(builtin::multicast_group_table, replica.instance);
        }
        actions = { no_action; }
        const default_action = no_action;
    }

    apply {
        meta.ingress_port = (port_id_t) std.ingress_port;
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            vrf_table.apply();
            acl_table.apply();
            if (!spread_table.apply().hit) {
                route_table.apply();
                if (std.mcast_grp == 0) {
                    nexthop_table.apply();
                    neighbor_table.apply();
                }
            }
            replica_table.apply();
        }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.ingress_port;
            hdr.packet_in.unused = 0;
        }
    }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.route);
    }
}

V1Switch(TheParser(), Nothing(), TheIngress(), TheEgress(), Nothing(), TheDeparser()) main;
