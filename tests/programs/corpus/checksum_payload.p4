// SPDX-License-Identifier: Apache-2.0
// Checksums over fields and payload, with csum16 and crc32; several of them in a row.
#include "lib.p4"

header h_t { bit<8> kind; bit<8> flag; bit<16> length; bit<16> checksum; bit<32> crc; }
struct headers_t { h_t h; }
struct meta_t { }

PARSER { state start { packet.extract(hdr.h); transition accept; } }

VERIFY {
    apply { verify_checksum_with_payload(hdr.h.kind == 0, { hdr.h.kind, hdr.h.flag, hdr.h.length }, hdr.h.checksum, HashAlgorithm.csum16); }
}
UPDATE {
    apply {
        update_checksum_with_payload(hdr.h.kind < 2, { hdr.h.kind, hdr.h.flag, hdr.h.length }, hdr.h.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.h.kind == 1, { hdr.h.length }, hdr.h.crc, HashAlgorithm.crc32);
        update_checksum(hdr.h.kind == 2, { hdr.h.length, hdr.h.crc }, hdr.h.checksum, HashAlgorithm.csum16);
    }
}

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        hdr.h.flag = (bit<8>)std.checksum_error;
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.h); } }
SWITCH
