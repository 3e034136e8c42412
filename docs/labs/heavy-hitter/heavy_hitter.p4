// SPDX-License-Identifier: Apache-2.0
// A heavy-hitter detector: packets of each flow are counted in a count-min sketch of two rows; the flow whose packet
// makes the lower of its two counts reach a threshold is written down once.

#include <core.p4>
#include <v1model.p4>

const bit<16> IPV4 = 0x0800;
const bit<16> ARP = 0x0806;
const bit<8>  UDP = 17;
const bit<32> CELLS = 512;
const bit<32> THRESHOLD = 1000;
const bit<32> LIST = 16;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  words;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

header arp_t {
    bit<64> kinds;
    bit<48> sender_mac;
    bit<32> sender;
    bit<48> target_mac;
    bit<32> target;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    arp_t      arp;
}

struct metadata_t {
    bit<32> to;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            IPV4: ipv4;
            ARP: arp;
            default: accept;
        }
    }
    state arp {
        packet.extract(hdr.arp);
        meta.to = hdr.arp.target;
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.to = hdr.ipv4.dst;
        transition select(hdr.ipv4.words, hdr.ipv4.protocol) {
            (5, UDP): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LabIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(CELLS) row1;
    register<bit<32>>(CELLS) row2;
    register<bit<32>>(1) found;               // how many flows are written down
    register<bit<32>>(LIST) hitter_source;
    register<bit<16>>(LIST) hitter_port;

    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<9> port) {
        std.egress_spec = port;
    }
    table hosts {
        key = { meta.to: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    action count(out bit<32> low) {
        bit<32> at1;
        bit<32> at2;
        bit<32> count1;
        bit<32> count2;
        hash(at1, HashAlgorithm.crc32, (bit<32>) 0, { hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.sport, hdr.udp.dport }, CELLS);
        hash(at2, HashAlgorithm.crc16, (bit<32>) 0, { hdr.ipv4.src, hdr.ipv4.dst, hdr.udp.sport, hdr.udp.dport }, CELLS);
        row1.read(count1, at1);
        row2.read(count2, at2);
        count1 = count1 + 1;
        count2 = count2 + 1;
        row1.write(at1, count1);
        row2.write(at2, count2);
        low = count1 < count2 ? count1 : count2;
    }
    apply {
        hosts.apply();
        if (hdr.udp.isValid()) {
            bit<32> low;
            count(low);
            if (low == THRESHOLD) {
                bit<32> at;
                found.read(at, 0);
                if (at < LIST) {
                    hitter_source.write(at, hdr.ipv4.src);
                    hitter_port.write(at, hdr.udp.dport);
                    found.write(0, at + 1);
                }
            }
        }
    }
}

control LabEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), LabIngress(), LabEgress(), Update(), Deparse()) main;
