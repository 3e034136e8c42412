// SPDX-License-Identifier: Apache-2.0
// Structs, nested structs and tuples copied; headers copied with their validity and compared.
#include "lib.p4"

header head_t { bit<8> op; bit<8> result; }
header pair_t { bit<16> left; bit<16> right; }
struct inner_t { bit<16> x; bit<16> y; }
struct outer_t { inner_t first; inner_t second; bit<8> tag; }
struct headers_t { head_t h; pair_t one; pair_t two; }
struct meta_t { outer_t a; outer_t b; }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.one);
        transition select(hdr.h.op) {
            7: accept;
            default: two;
        }
    }

    state two {
        packet.extract(hdr.two);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError) {
            meta.a.first = { hdr.one.left, hdr.one.right };
            meta.a.second = meta.a.first;
            meta.a.tag = hdr.h.op;
            meta.b = meta.a;
            meta.b.second.x = meta.b.second.x + 1;
            tuple<bit<16>, bit<8>> t = { meta.b.second.x, meta.b.tag };
            hdr.one.left = t[0];
            hdr.h.result = t[1];
            if (hdr.h.op == 7) {
                hdr.two = hdr.one;
            } else if (hdr.h.op == 8) {
                hdr.h.result = (bit<8>)(bit<1>)(hdr.one == hdr.two);
            } else if (hdr.h.op == 9) {
                hdr.one = { 0x1122, meta.b.first.y };
            } else if (hdr.h.op == 10) {
                hdr.two.setInvalid();
                hdr.one = hdr.two;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
