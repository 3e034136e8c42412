// SPDX-License-Identifier: Apache-2.0
// A parser calls another one twice; locals, arithmetic and assignments in states.
#include "lib.p4"

header head_t { bit<8> sum; bit<8> count; }
header pair_t { bit<8> left; bit<8> right; }
struct headers_t { head_t h; pair_t first; pair_t second; }
struct meta_t { bit<8> sum; }

parser PairParser(packet_in packet, out pair_t pair, inout bit<8> sum) {
    bit<8> weight = 3;

    state start {
        packet.extract(pair);
        sum = sum + pair.left * weight;
        transition select(pair.right) {
            0: accept;
            default: add;
        }
    }

    state add {
        sum = sum ^ pair.right;
        transition accept;
    }
}

PARSER {
    PairParser() pairs;

    state start {
        packet.extract(hdr.h);
        meta.sum = hdr.h.sum;
        pairs.apply(packet, hdr.first, meta.sum);
        transition select(hdr.h.count) {
            0: accept;
            default: again;
        }
    }

    state again {
        pairs.apply(packet, hdr.second, meta.sum);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError) {
            hdr.h.sum = meta.sum;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
