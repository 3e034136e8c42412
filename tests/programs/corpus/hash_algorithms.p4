// SPDX-License-Identifier: Apache-2.0
// Every hash algorithm of v1model over fields of several widths, with base and maximum.
#include "lib.p4"

header head_t {
    bit<8>  a;
    bit<16> b;
    bit<32> c;
    bit<48> d;
    bit<16> crc16;
    bit<32> crc32;
    bit<16> csum16;
    bit<16> xor16;
    bit<32> identity;
    bit<16> based;
    bit<8>  small;
}
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hash(hdr.h.crc16, HashAlgorithm.crc16, 16w0, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, 32w65536);
            hash(hdr.h.crc32, HashAlgorithm.crc32, 32w0, { hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d }, 64w0x100000000);
            hash(hdr.h.csum16, HashAlgorithm.csum16, 16w0, { hdr.h.b, hdr.h.c, hdr.h.d }, 32w65536);
            hash(hdr.h.xor16, HashAlgorithm.xor16, 16w0, { hdr.h.b, hdr.h.c, hdr.h.d }, 32w65536);
            hash(hdr.h.identity, HashAlgorithm.identity, 32w0, { hdr.h.c }, 64w0x100000000);
            hash(hdr.h.based, HashAlgorithm.crc16, 16w1000, { hdr.h.d }, 16w10);
            hash(hdr.h.small, HashAlgorithm.crc32, 8w3, { hdr.h.c, hdr.h.a }, 8w0);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
