// SPDX-License-Identifier: Apache-2.0
// Slices, concatenation, casts between widths and signs, division, wide values.
#include "frame.p4"

header in_t { bit<128> a; bit<48> b; bit<16> c; int<16> d; bit<512> w; }
header out_t {
    bit<16> middle; bit<64> swapped; bit<128> replaced; bit<32> joined; bit<48> quotient; bit<48> remainder;
    int<32> extended; int<8> narrowed; bit<32> unsigned_of; bit<512> wide_sum; bit<512> wide_shift; bit<8> top;
    int<16> shifted; bit<1> flag; bit<7> rest;
}
struct headers_t { in_t i; out_t o; }
struct meta_t { bool both; }

PARSER { state start { packet.extract(hdr.i); transition accept; } }

INGRESS {
    apply {
        hdr.o.setValid();
        hdr.o.middle = hdr.i.a[71:56];
        hdr.o.swapped = hdr.i.a[31:0] ++ hdr.i.a[127:96];
        hdr.o.replaced = hdr.i.a;
        hdr.o.replaced[79:64] = hdr.i.c;
        hdr.o.joined = hdr.i.c ++ hdr.i.b[15:0];
        hdr.o.quotient = hdr.i.b / 1024;
        hdr.o.remainder = hdr.i.b % 1024;
        hdr.o.extended = (int<32>)hdr.i.d;
        hdr.o.narrowed = (int<8>)hdr.i.d;
        hdr.o.unsigned_of = (bit<32>)(bit<16>)hdr.i.d;
        hdr.o.wide_sum = hdr.i.w + (bit<512>)hdr.i.a;
        hdr.o.wide_shift = (hdr.i.w << 77) | (hdr.i.w >> 200);
        hdr.o.top = hdr.i.w[511:504];
        hdr.o.shifted = hdr.i.d >> 3;
        meta.both = hdr.i.c > 100 && (hdr.i.d < 0 || hdr.i.b == 7);
        hdr.o.flag = (bit<1>)meta.both;
        hdr.o.rest = 0x55;
        std.egress_spec = 1;
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
