// SPDX-License-Identifier: Apache-2.0
// The IPv4 header checksum with options of any length (varbit), verified and written anew.
#include "lib.p4"

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_len;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
}
header options_t { varbit<320> data; }
struct headers_t { ipv4_t h; options_t options; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.options, (bit<32>)(hdr.h.ihl & 7) * 32);
        transition accept;
    }
}

VERIFY {
    apply {
        verify_checksum(hdr.h.isValid() && hdr.options.isValid(),
            { hdr.h.version, hdr.h.ihl, hdr.h.tos, hdr.h.total_len, hdr.h.ttl, hdr.h.protocol, hdr.options.data },
            hdr.h.checksum, HashAlgorithm.csum16);
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.options.isValid()) {
            hdr.h.tos = 7w0x10 ++ std.checksum_error;
            hdr.h.ttl = hdr.h.ttl - 1;
        }
    }
}

UPDATE {
    apply {
        update_checksum(hdr.options.isValid() && hdr.h.protocol != 0,
            { hdr.h.version, hdr.h.ihl, hdr.h.tos, hdr.h.total_len, hdr.h.ttl, hdr.h.protocol, hdr.options.data },
            hdr.h.checksum, HashAlgorithm.csum16);
    }
}

NO_EGRESS
PLAIN_DEPARSER
SWITCH
