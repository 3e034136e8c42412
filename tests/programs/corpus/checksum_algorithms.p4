// SPDX-License-Identifier: Apache-2.0
// Checksum algorithms other than csum16 for update and verify; several in a row, each under its condition.
#include "lib.p4"

header head_t { bit<8> which; bit<24> data; bit<16> wrong; bit<16> crc16; bit<32> crc32; bit<16> xor16; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

VERIFY {
    apply {
        verify_checksum(hdr.h.isValid() && hdr.h.which == 1, { hdr.h.which, hdr.h.data }, hdr.h.crc16, HashAlgorithm.crc16);
        verify_checksum(hdr.h.isValid() && hdr.h.which == 2, { hdr.h.which, hdr.h.data }, hdr.h.crc32, HashAlgorithm.crc32);
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            hdr.h.wrong = 15w0 ++ std.checksum_error;
        }
    }
}

UPDATE {
    apply {
        update_checksum(hdr.h.isValid() && hdr.h.which != 3, { hdr.h.which, hdr.h.data }, hdr.h.crc16, HashAlgorithm.crc16);
        update_checksum(hdr.h.isValid(), { hdr.h.which, hdr.h.data, hdr.h.crc16 }, hdr.h.crc32, HashAlgorithm.crc32);
        update_checksum(hdr.h.isValid() && hdr.h.which == 4, { hdr.h.which, hdr.h.data }, hdr.h.xor16, HashAlgorithm.xor16);
    }
}

NO_EGRESS
PLAIN_DEPARSER
SWITCH
