// SPDX-License-Identifier: Apache-2.0
// IPv4 forwarding that marks "congestion experienced" (RFC 3168) when a packet finds a long queue, and counts, by the
// length of the queue that a packet found, how many passed and how many were marked.

#include <core.p4>
#include <v1model.p4>

const bit<16> IPV4 = 0x0800;
const bit<19> THRESHOLD = 10;
const bit<32> LONGEST = 64;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  words;
    bit<6>  dscp;
    bit<2>  ecn;
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

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t { }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LabIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<48> mac, bit<9> port) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            routes.apply();
        } else {
            drop();
        }
    }
}

control LabEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(LONGEST, CounterType.packets) passed;
    counter(LONGEST, CounterType.packets) marked;

    apply {
        bit<32> found = (bit<32>) std.enq_qdepth;
        if (found >= LONGEST) {
            found = LONGEST - 1;
        }
        passed.count(found);
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != 0 && std.enq_qdepth >= THRESHOLD) {
            hdr.ipv4.ecn = 3;
            marked.count(found);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.words, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, hdr.ipv4.id,
              hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), LabIngress(), LabEgress(), Update(), Deparse()) main;
