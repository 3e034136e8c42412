// SPDX-License-Identifier: Apache-2.0
// One large table of each kind, for `detour bench tables` and `detour bench p4runtime`: the ingress port chooses which one
// a packet meets. What a table costs is the difference to port 4, which meets none.

#include <core.p4>
#include <v1model.p4>

#define LARGE 131072

header keys_t {
    bit<64>  exact_key;
    bit<128> lpm_key;
    bit<128> ternary_key;
}

struct headers_t {
    keys_t keys;
}

struct metadata_t { }

parser BenchParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.keys);
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

    apply {
        std.egress_spec = 8;
        if (std.ingress_port == 1) {
            by_exact.apply();
        } else if (std.ingress_port == 2) {
            by_lpm.apply();
        } else if (std.ingress_port == 3) {
            by_ternary.apply();
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
    }
}

V1Switch(BenchParser(), BenchChecksum(), BenchIngress(), BenchEgress(), BenchChecksum(), BenchDeparser()) main;
