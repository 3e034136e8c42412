// SPDX-License-Identifier: Apache-2.0
// crc16_custom and crc32_custom with the parameters that they start with, and maxima that are no powers of two.
#include "lib.p4"

header head_t { bit<32> a; bit<16> b; bit<16> x; bit<32> y; bit<16> z; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hash(hdr.h.x, HashAlgorithm.crc16_custom, 16w0, { hdr.h.a, hdr.h.b }, 32w65536);
            hash(hdr.h.y, HashAlgorithm.crc32_custom, 32w0, { hdr.h.a, hdr.h.b }, 64w0x100000000);
            hash(hdr.h.z, HashAlgorithm.crc32, 16w7, { hdr.h.b, hdr.h.a }, 16w1009);
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
