// SPDX-License-Identifier: Apache-2.0
// Hashes over fields that are no whole bytes, over wide fields, constants and expressions.
#include "lib.p4"

header head_t { bit<3> a; bit<5> b; bit<13> c; bit<3> d; bit<128> e; bit<16> x; bit<16> y; bit<32> z; bit<16> w; }
struct headers_t { head_t h; }
struct meta_t { bit<9> port; }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.port = std.ingress_port;
            hash(hdr.h.x, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.c }, 32w65536);
            hash(hdr.h.y, HashAlgorithm.crc16, 16w0, { meta.port, hdr.h.d, 8w0x77 }, 32w65536);
            hash(hdr.h.z, HashAlgorithm.crc32, 32w0, { hdr.h.e, hdr.h.b, hdr.h.a }, 64w0x100000000);
            hash(hdr.h.w, HashAlgorithm.crc32, 16w0, { hdr.h.e[67:40] }, 32w0x8000);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
