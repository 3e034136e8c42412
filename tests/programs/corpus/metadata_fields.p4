// SPDX-License-Identifier: Apache-2.0
// What standard metadata says in ingress and in egress.
#include "lib.p4"

header h_t {
    bit<16> in_port;
    bit<16> out_port;
    bit<32> instance;
    bit<32> length;
    bit<16> rid;
    bit<16> group;
    bit<8> priority;
    bit<8> parser_error;
    bit<8> checksum_error;
    bit<32> egress_length;
}
struct meta_t { }
struct headers_t { h_t h; }
PLAIN_PARSER
NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        hdr.h.in_port = (bit<16>)std.ingress_port;
        hdr.h.instance = std.instance_type;
        hdr.h.length = std.packet_length;
        hdr.h.checksum_error = (bit<8>)std.checksum_error;
        std.priority = 3;
        std.egress_spec = (std.ingress_port == 1) ? 9w2 : 9w1;
    }
}

EGRESS {
    apply {
        hdr.h.out_port = (bit<16>)std.egress_port;
        hdr.h.rid = std.egress_rid;
        hdr.h.group = std.mcast_grp;
        hdr.h.priority = (bit<8>)std.priority;
        hdr.h.egress_length = std.packet_length;
    }
}
SWITCH
