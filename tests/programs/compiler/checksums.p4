// SPDX-License-Identifier: Apache-2.0
// IPv4 header checksum with options, UDP checksum over the payload.
#include "frame.p4"

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> fragment; bit<8> ttl;
    bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header options_t { varbit<320> data; }
header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }
struct headers_t { ethernet_t eth; ipv4_t ip; options_t options; udp_t udp; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.eth);
        transition select(hdr.eth.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ip);
        verify(hdr.ip.ihl >= 5, error.HeaderTooShort);
        packet.extract(hdr.options, (bit<32>)(hdr.ip.ihl - 5) << 5);
        transition select(hdr.ip.protocol) { 17: udp; default: accept; }
    }
    state udp { packet.extract(hdr.udp); transition accept; }
}

#define IP_FIELDS { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id, hdr.ip.flags, hdr.ip.fragment, \
    hdr.ip.ttl, hdr.ip.protocol, hdr.ip.src, hdr.ip.dst, hdr.options.data }
#define UDP_FIELDS { hdr.ip.src, hdr.ip.dst, 8w0, hdr.ip.protocol, hdr.udp.length, hdr.udp.src, hdr.udp.dst, \
    hdr.udp.length }

control TheVerify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(), IP_FIELDS, hdr.ip.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.udp.isValid(), UDP_FIELDS, hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

INGRESS {
    apply {
        std.egress_spec = std.checksum_error == 1 ? 9w2 : 9w1;
        if (hdr.ip.isValid()) { hdr.ip.ttl = hdr.ip.ttl - 1; }
        if (hdr.udp.isValid()) { hdr.udp.dst = hdr.udp.dst + 1; }
    }
}

NO_EGRESS
control TheUpdate(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(hdr.ip.isValid(), IP_FIELDS, hdr.ip.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.udp.isValid(), UDP_FIELDS, hdr.udp.checksum, HashAlgorithm.csum16);
    }
}
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
