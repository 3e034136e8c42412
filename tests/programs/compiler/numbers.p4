// SPDX-License-Identifier: Apache-2.0
// Arithmetic at many widths. The test computes the same in Python.
#include "frame.p4"


header in8_t   { bit<8> a;   bit<8> b;   bit<8> s; }
header in13_t  { bit<13> a;  bit<13> b;  bit<8> s; bit<6> pad; }
header in64_t  { bit<64> a;  bit<64> b;  bit<8> s; }
header in130_t { bit<130> a; bit<130> b; bit<8> s; bit<4> pad; }
header si8_t   { int<8> a;   int<8> b;   bit<8> s; }
header si33_t  { int<33> a;  int<33> b;  bit<8> s; bit<6> pad; }
header si64_t  { int<64> a;  int<64> b;  bit<8> s; }

#define OUT(NAME, T, W, P) header NAME { T<W> add; T<W> sub; T<W> mul; T<W> neg; T<W> inv; T<W> band; T<W> bor; \
    T<W> bxor; T<W> shl; T<W> shr; T<W> sadd; T<W> ssub; T<W> mux; bit<8> cmp; P }
OUT(o8_t, bit, 8, )
OUT(o13_t, bit, 13, bit<7> pad;)
OUT(o64_t, bit, 64, )
OUT(o130_t, bit, 130, bit<6> pad;)
OUT(p8_t, int, 8, )
OUT(p33_t, int, 33, bit<3> pad;)
OUT(p64_t, int, 64, )

struct headers_t {
    in8_t i8; in13_t i13; in64_t i64; in130_t i130; si8_t s8; si33_t s33; si64_t s64;
    o8_t o8; o13_t o13; o64_t o64; o130_t o130; p8_t p8; p33_t p33; p64_t p64;
}
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.i8); packet.extract(hdr.i13); packet.extract(hdr.i64); packet.extract(hdr.i130);
        packet.extract(hdr.s8); packet.extract(hdr.s33); packet.extract(hdr.s64);
        transition accept;
    }
}

#define COMPUTE(I, O) \
    hdr.O.setValid(); \
    hdr.O.add = hdr.I.a + hdr.I.b; \
    hdr.O.sub = hdr.I.a - hdr.I.b; \
    hdr.O.mul = hdr.I.a * hdr.I.b; \
    hdr.O.neg = -hdr.I.a; \
    hdr.O.inv = ~hdr.I.a; \
    hdr.O.band = hdr.I.a & hdr.I.b; \
    hdr.O.bor = hdr.I.a | hdr.I.b; \
    hdr.O.bxor = hdr.I.a ^ hdr.I.b; \
    hdr.O.shl = hdr.I.a << hdr.I.s; \
    hdr.O.shr = hdr.I.a >> hdr.I.s; \
    hdr.O.sadd = hdr.I.a |+| hdr.I.b; \
    hdr.O.ssub = hdr.I.a |-| hdr.I.b; \
    hdr.O.mux = hdr.I.a < hdr.I.b ? hdr.I.a + 1 : hdr.I.b - 1; \
    hdr.O.cmp = (bit<8>)((bit<1>)(hdr.I.a < hdr.I.b) ++ (bit<1>)(hdr.I.a <= hdr.I.b) ++ (bit<1>)(hdr.I.a == hdr.I.b) \
        ++ (bit<1>)(hdr.I.a != hdr.I.b) ++ (bit<1>)(hdr.I.a > hdr.I.b) ++ (bit<1>)(hdr.I.a >= hdr.I.b));

INGRESS {
    apply {
        COMPUTE(i8, o8)
        COMPUTE(i13, o13)
        COMPUTE(i64, o64)
        COMPUTE(i130, o130)
        COMPUTE(s8, p8)
        COMPUTE(s33, p33)
        COMPUTE(s64, p64)
        std.egress_spec = 1;
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
