// SPDX-License-Identifier: Apache-2.0
// A router of the shape of SAI P4's, for `detour bench sai`: admission, VRFs by an access list, IPv4 routes, WCMP groups,
// next hops that lead through router interfaces and neighbours, access lists that deny and mirror, rewrites in egress.

#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<48> length_to_offset;
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
    bool    admitted;
    bit<10> vrf;
    bit<12> group;
    bit<10> nexthop;
    bit<10> interface;
    bit<16> neighbor;
    bit<8>  mirror;
    bit<9>  mirror_port;
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
        packet.extract(hdr.l4);
        transition accept;
    }
}

#define CHECKSUM(update) update(hdr.ipv4.isValid(), \
    { hdr.ipv4.version_ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length_to_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, \
      hdr.ipv4.src, hdr.ipv4.dst }, hdr.ipv4.checksum, HashAlgorithm.csum16);

control SaiVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { CHECKSUM(verify_checksum) }
}

control SaiIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) acl_counter;
    action drop() { mark_to_drop(std); }
    action admit() { meta.admitted = true; }
    action set_vrf(bit<10> vrf) { meta.vrf = vrf; }
    action set_nexthop(bit<10> nexthop) { meta.nexthop = nexthop; }
    action set_group(bit<12> group) { meta.group = group; }
    action mirror(bit<8> session) { meta.mirror = session; }
    action resolve(bit<10> interface, bit<16> neighbor) { meta.interface = interface; meta.neighbor = neighbor; }
    action set_port(bit<9> port, bit<48> src_mac) { std.egress_spec = port; meta.src_mac = src_mac; }
    action set_dst_mac(bit<48> dst_mac) { meta.dst_mac = dst_mac; }
    action mirror_to(bit<9> port) { meta.mirror_port = port; }
    action ingress_clone(bit<32> session) { clone(CloneType.I2E, session); }

    table l3_admit {
        key = { hdr.ethernet.dst: ternary; std.ingress_port: ternary; }
        actions = { admit; NoAction; }
        const default_action = NoAction;
    }

    table acl_pre_ingress {
        key = { hdr.ethernet.src: ternary; hdr.ipv4.dst: ternary; hdr.ipv4.dscp: ternary; std.ingress_port: ternary; }
        actions = { set_vrf; NoAction; }
        const default_action = NoAction;
    }

    table ipv4_route {
        key = { meta.vrf: exact; hdr.ipv4.dst: lpm; }
        actions = { set_nexthop; set_group; drop; }
        const default_action = drop;
        size = 16384;
    }

    table acl_ingress {
        key = {
            hdr.ethernet.ether_type: ternary; hdr.ipv4.src: ternary; hdr.ipv4.dst: ternary; hdr.ipv4.dscp: ternary;
            hdr.ipv4.protocol: ternary; hdr.l4.src_port: ternary; hdr.l4.dst_port: ternary;
        }
        actions = { drop; mirror; NoAction; }
        const default_action = NoAction;
        counters = acl_counter;
    }

    action_selector(HashAlgorithm.crc16, 1024, 16) wcmp;

    table wcmp_group {
        key = {
            meta.group: exact;
            hdr.ipv4.src: selector; hdr.ipv4.dst: selector; hdr.ipv4.protocol: selector;
            hdr.l4.src_port: selector; hdr.l4.dst_port: selector;
        }
        actions = { set_nexthop; }
        implementation = wcmp;
    }

    table nexthop {
        key = { meta.nexthop: exact; }
        actions = { resolve; drop; }
        const default_action = drop;
    }

    table router_interface {
        key = { meta.interface: exact; }
        actions = { set_port; drop; }
        const default_action = drop;
    }

    table neighbor {
        key = { meta.interface: exact; meta.neighbor: exact; }
        actions = { set_dst_mac; drop; }
        const default_action = drop;
    }

    table mirror_session {
        key = { meta.mirror: exact; }
        actions = { mirror_to; NoAction; }
        const default_action = NoAction;
    }

    table clone_session {
        key = { meta.mirror_port: exact; }
        actions = { ingress_clone; NoAction; }
        const default_action = NoAction;
    }

    apply {
        l3_admit.apply();
        acl_pre_ingress.apply();
        if (!meta.admitted || hdr.ipv4.ttl < 2) {  // of packets that are not IPv4 as well
            drop();
        } else if (ipv4_route.apply().hit) {
            if (meta.group != 0) {
                wcmp_group.apply();
            }
            nexthop.apply();
            router_interface.apply();
            neighbor.apply();
            acl_ingress.apply();
            mirror_session.apply();
            clone_session.apply();
        }
    }
}

control SaiEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action deny() { mark_to_drop(std); }

    table acl_egress {
        key = { std.egress_port: ternary; hdr.ipv4.protocol: ternary; hdr.l4.dst_port: ternary; }
        actions = { deny; NoAction; }
        const default_action = NoAction;
    }

    apply {
        if (std.instance_type == 0) {  // mirrored packets go as they came
            hdr.ethernet.src = meta.src_mac;
            hdr.ethernet.dst = meta.dst_mac;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            acl_egress.apply();
        }
    }
}

control SaiCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { CHECKSUM(update_checksum) }
}

control SaiDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(SaiParser(), SaiVerify(), SaiIngress(), SaiEgress(), SaiCompute(), SaiDeparser()) main;
