// SPDX-License-Identifier: Apache-2.0
// A router of the shape of SAI P4's, for `detour bench sai`: VRFs, IPv4 routes, WCMP groups, next hops that lead through
// router interfaces and neighbours, an access list that denies and mirrors, rewrites in egress.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header l4_t {
    bit<16> src_port;
    bit<16> dst_port;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    l4_t       l4;
}

struct metadata_t {
    bit<10> vrf;
    bit<12> group;
    bit<10> nexthop;
    bit<10> interface;
    bit<16> neighbor;
    bit<8>  mirror_session;
    bit<48> src_mac;
    bit<48> dst_mac;
}

parser SaiParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            6: l4;
            17: l4;
            default: accept;
        }
    }

    state l4 {
        packet.extract(hdr.l4);
        transition accept;
    }
}

control SaiVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SaiIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }

    action set_vrf(bit<10> vrf) {
        meta.vrf = vrf;
    }

    table pre_ingress {
        key = {
            std.ingress_port: exact;
        }
        actions = { set_vrf; }
        size = 512;
    }

    action set_nexthop(bit<10> nexthop) {
        meta.nexthop = nexthop;
    }

    action set_group(bit<12> group) {
        meta.group = group;
    }

    table ipv4_route {
        key = {
            meta.vrf:     exact;
            hdr.ipv4.dst: lpm;
        }
        actions = { set_nexthop; set_group; drop; }
        const default_action = drop;
        size = 16384;
    }

    action_selector(HashAlgorithm.crc16, 1024, 16) wcmp_selector;

    table wcmp_group {
        key = {
            meta.group:        exact;
            hdr.ipv4.src:      selector;
            hdr.ipv4.dst:      selector;
            hdr.ipv4.protocol: selector;
            hdr.l4.src_port:   selector;
            hdr.l4.dst_port:   selector;
        }
        actions = { set_nexthop; }
        implementation = wcmp_selector;
        size = 128;
    }

    action resolve(bit<10> interface, bit<16> neighbor) {
        meta.interface = interface;
        meta.neighbor = neighbor;
    }

    table nexthop {
        key = {
            meta.nexthop: exact;
        }
        actions = { resolve; drop; }
        const default_action = drop;
        size = 1024;
    }

    action set_port(bit<9> port, bit<48> src_mac) {
        std.egress_spec = port;
        meta.src_mac = src_mac;
    }

    table router_interface {
        key = {
            meta.interface: exact;
        }
        actions = { set_port; drop; }
        const default_action = drop;
        size = 256;
    }

    action set_dst_mac(bit<48> dst_mac) {
        meta.dst_mac = dst_mac;
    }

    table neighbor {
        key = {
            meta.interface: exact;
            meta.neighbor:  exact;
        }
        actions = { set_dst_mac; drop; }
        const default_action = drop;
        size = 1024;
    }

    action mirror(bit<8> session) {
        meta.mirror_session = session;
    }

    direct_counter(CounterType.packets_and_bytes) acl_counter;

    table acl_ingress {
        key = {
            hdr.ethernet.ether_type: ternary;
            hdr.ipv4.src:            ternary;
            hdr.ipv4.dst:            ternary;
            hdr.ipv4.dscp:           ternary;
            hdr.ipv4.protocol:       ternary;
            hdr.l4.src_port:         ternary;
            hdr.l4.dst_port:         ternary;
        }
        actions = { drop; mirror; NoAction; }
        const default_action = NoAction;
        counters = acl_counter;
        size = 1024;
    }

    action mirror_to(bit<32> clone_session) {
        clone(CloneType.I2E, clone_session);
    }

    table mirror_session {
        key = {
            meta.mirror_session: exact;
        }
        actions = { mirror_to; NoAction; }
        const default_action = NoAction;
        size = 16;
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl < 2) {
            drop();
        } else {
            pre_ingress.apply();
            ipv4_route.apply();
            if (meta.group != 0) {
                wcmp_group.apply();
            }
            if (meta.nexthop != 0) {
                nexthop.apply();
                router_interface.apply();
                neighbor.apply();
            }
            acl_ingress.apply();
            if (meta.mirror_session != 0) {
                mirror_session.apply();
            }
        }
    }
}

control SaiEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 0) {  // mirrored packets go as they came
            hdr.ethernet.src = meta.src_mac;
            hdr.ethernet.dst = meta.dst_mac;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
    }
}

control SaiCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SaiDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.l4);
    }
}

V1Switch(SaiParser(), SaiVerify(), SaiIngress(), SaiEgress(), SaiCompute(), SaiDeparser()) main;
