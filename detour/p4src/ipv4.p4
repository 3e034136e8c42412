// SPDX-License-Identifier: Apache-2.0
// A plain IPv4 router, as every course begins with one: longest prefix, next hop's MAC address, TTL, checksum, and a mark
// on packets that found a queue of ten (RFC 3168). ARP is passed on by address. `detour bench lab` measures with it.

#include <core.p4>
#include <v1model.p4>

#define MARKING_DEPTH 10

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<8>  hardware_size;
    bit<8>  protocol_size;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender;
    bit<48> target_mac;
    bit<32> target;
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

struct headers_t {
    ethernet_t ethernet;
    arp_t      arp;
    ipv4_t     ipv4;
}

struct metadata_t { }

parser Ipv4Parser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x0800: ipv4;
            0x0806: arp;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }

    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }
}

control Ipv4VerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Ipv4Ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }

    action forward(bit<48> mac, bit<9> port) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action pass(bit<9> port) {
        std.egress_spec = port;
    }

    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    table neighbours {
        key = { hdr.arp.target: lpm; }
        actions = { pass; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            routes.apply();
        } else if (hdr.arp.isValid()) {
            neighbours.apply();
        } else {
            drop();
        }
    }
}

control Ipv4Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.enq_qdepth >= MARKING_DEPTH && (hdr.ipv4.ecn == 1 || hdr.ipv4.ecn == 2)) {
            hdr.ipv4.ecn = 3;
        }
    }
}

control Ipv4ComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            {
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
                hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
                hdr.ipv4.src, hdr.ipv4.dst
            },
            hdr.ipv4.checksum,
            HashAlgorithm.csum16);
    }
}

control Ipv4Deparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Ipv4Parser(), Ipv4VerifyChecksum(), Ipv4Ingress(), Ipv4Egress(), Ipv4ComputeChecksum(), Ipv4Deparser()) main;
