// SPDX-License-Identifier: Apache-2.0
// Hashes over a varbit field beside fixed ones, and over nothing but constants.
#include "lib.p4"

header head_t { bit<8> length; bit<16> crc16; bit<32> crc32; bit<16> fixed; }
header body_t { varbit<128> data; }
struct headers_t { head_t h; body_t body; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.body, (bit<32>)(hdr.h.length & 15) * 8);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.body.isValid()) {
            hash(hdr.h.crc16, HashAlgorithm.crc16, 16w0, { hdr.h.length, hdr.body.data }, 32w65536);
            hash(hdr.h.crc32, HashAlgorithm.crc32, 32w0, { hdr.body.data, hdr.h.length }, 64w0x100000000);
            hash(hdr.h.fixed, HashAlgorithm.crc16, 16w0, { 32w0xdeadbeef, 8w7 }, 32w65536);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
