// SPDX-License-Identifier: Apache-2.0
// Registers of odd and wide elements: read, modify, write; what one packet writes the next one reads.
#include "lib.p4"

header head_t { bit<32> index; bit<1> bit_seen; bit<7> seven; bit<33> odd; bit<7> pad; bit<128> wide; bit<200> huge; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    register<bit<1>>(8) bits;
    register<bit<7>>(8) sevens;
    register<bit<33>>(4) odds;
    register<bit<128>>(4) wides;
    register<bit<200>>(2) huges;

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            bit<32> index = hdr.h.index & 7;
            bit<1> seen;
            bit<7> seven;
            bit<33> odd;
            bit<128> wide;
            bit<200> huge;
            bits.read(seen, index);
            sevens.read(seven, index);
            odds.read(odd, index & 3);
            wides.read(wide, index & 3);
            huges.read(huge, index & 1);
            bits.write(index, ~seen);
            sevens.write(index, seven + hdr.h.seven);
            odds.write(index & 3, odd + hdr.h.odd);
            wides.write(index & 3, wide ^ hdr.h.wide);
            huges.write(index & 1, hdr.h.huge);
            hdr.h.bit_seen = seen;
            hdr.h.seven = seven;
            hdr.h.odd = odd;
            hdr.h.wide = wide;
            hdr.h.huge = huge;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
