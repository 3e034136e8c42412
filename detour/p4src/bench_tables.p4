// SPDX-License-Identifier: Apache-2.0
// One large table of each kind, for `detour bench tables` and `detour bench p4runtime`: the ingress port chooses which one
// a packet meets. What a table costs is the difference to port 4, which meets none. Port 5 leads to an access control list,
// whose packets have a header of their own.

#include <core.p4>
#include <v1model.p4>

#define LARGE 131072

header keys_t {
    bit<64>  exact_key;
    bit<128> lpm_key;
    bit<128> ternary_key;
}

header acl_t {
    bit<32> source;
    bit<32> destination;
    bit<16> source_port;
    bit<16> destination_port;
    bit<8>  protocol;
    bit<8>  flags;
}

struct headers_t {
    keys_t keys;
    acl_t  acl;
}

struct metadata_t { }

parser BenchParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            5: parse_acl;
            default: parse_keys;
        }
    }

    state parse_keys {
        packet.extract(hdr.keys);
        transition accept;
    }

    state parse_acl {
        packet.extract(hdr.acl);
        transition accept;
    }
}

control BenchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) {
        std.egress_spec = port;
    }

    table by_exact {
        key = { hdr.keys.exact_key: exact; }
        actions = { forward; }
        default_action = forward(8);
        size = LARGE;
    }

    table by_lpm {
        key = { hdr.keys.lpm_key: lpm; }
        actions = { forward; }
        default_action = forward(8);
        size = LARGE;
    }

    table by_ternary {
        key = { hdr.keys.ternary_key: ternary; }
        actions = { forward; }
        default_action = forward(8);
        size = LARGE;
    }

    table by_acl {
        key = {
            hdr.acl.source:           ternary;
            hdr.acl.destination:      ternary;
            hdr.acl.source_port:      range;
            hdr.acl.destination_port: range;
            hdr.acl.protocol:         ternary;
            hdr.acl.flags:            ternary;
        }
        actions = { forward; }
        default_action = forward(8);
        size = LARGE;
    }

    apply {
        std.egress_spec = 8;
        if (std.ingress_port == 1) {
            by_exact.apply();
        } else if (std.ingress_port == 2) {
            by_lpm.apply();
        } else if (std.ingress_port == 3) {
            by_ternary.apply();
        } else if (std.ingress_port == 5) {
            by_acl.apply();
        }
    }
}

control BenchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control BenchChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control BenchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.keys);
        packet.emit(hdr.acl);
    }
}

V1Switch(BenchParser(), BenchChecksum(), BenchIngress(), BenchEgress(), BenchChecksum(), BenchDeparser()) main;
