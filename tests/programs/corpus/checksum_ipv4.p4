// SPDX-License-Identifier: Apache-2.0
// The IPv4 header checksum: verified under a condition, updated after a change of TTL.
#include "lib.p4"

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> id;
    bit<3> flags;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}
struct headers_t { ipv4_t ip; }
struct meta_t { bit<1> bad; }

PARSER { state start { packet.extract(hdr.ip); transition accept; } }

#define WORDS { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id, hdr.ip.flags, hdr.ip.offset, hdr.ip.ttl, \
                hdr.ip.protocol, hdr.ip.src, hdr.ip.dst }
VERIFY {
    apply { verify_checksum(hdr.ip.ihl == 5, WORDS, hdr.ip.checksum, HashAlgorithm.csum16); }
}
UPDATE {
    apply { update_checksum(hdr.ip.isValid() && hdr.ip.ihl != 6, WORDS, hdr.ip.checksum, HashAlgorithm.csum16); }
}

INGRESS {
    apply {
        if (!hdr.ip.isValid()) {
            mark_to_drop(std);
            exit;
        }
        hdr.ip.tos = (bit<8>)std.checksum_error;
        hdr.ip.ttl = hdr.ip.ttl - 1;
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.ip); } }
SWITCH
