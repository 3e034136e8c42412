// SPDX-License-Identifier: Apache-2.0
// All hash algorithms, with inputs that are not whole bytes and with a header that may be missing; random numbers.
#include "frame.p4"

header in_t    { bit<128> a; bit<12> b; bit<4> c; bit<64> d; bit<8> more; }
header extra_t { bit<3> p; bit<13> q; bit<16> r; }
header out_t {
    bit<32> crc32; bit<32> crc32_custom; bit<16> crc16; bit<16> crc16_custom; bit<16> csum16; bit<16> xor16;
    bit<64> identity; bit<16> based; bit<32> odd; bit<32> optional; bit<16> max0; bit<32> random; bit<16> loose;
}
struct headers_t { in_t i; extra_t e; out_t o; }
struct meta_t { bit<5> five; }

PARSER {
    state start {
        packet.extract(hdr.i);
        transition select(hdr.i.more) { 1: extra; default: accept; }
    }
    state extra { packet.extract(hdr.e); transition accept; }
}

INGRESS {
    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        meta.five = hdr.i.b[4:0];
        hash(hdr.o.crc32, HashAlgorithm.crc32, 32w0, { hdr.i.a, hdr.i.d, hdr.i.more }, 33w0x100000000);
        hash(hdr.o.crc32_custom, HashAlgorithm.crc32_custom, 32w0, { hdr.i.a, hdr.i.d }, 33w0x100000000);
        hash(hdr.o.crc16, HashAlgorithm.crc16, 16w0, { hdr.i.a, hdr.i.b, hdr.i.c }, 17w0x10000);
        hash(hdr.o.crc16_custom, HashAlgorithm.crc16_custom, 16w0, { hdr.i.d }, 17w0x10000);
        hash(hdr.o.csum16, HashAlgorithm.csum16, 16w0, { hdr.i.a, hdr.i.more }, 17w0x10000);
        hash(hdr.o.xor16, HashAlgorithm.xor16, 16w0, { hdr.i.a, hdr.i.more }, 17w0x10000);
        hash(hdr.o.identity, HashAlgorithm.identity, 32w0, { hdr.i.b, hdr.i.c, hdr.i.d }, 64w0xFFFFFFFFFFFFFFFF);
        hash(hdr.o.based, HashAlgorithm.crc16, 16w1000, { hdr.i.a }, 16w7);
        hash(hdr.o.odd, HashAlgorithm.crc32, 32w0, { hdr.i.b, meta.five, hdr.i.a, 3w5 }, 33w0x100000000);
        hash(hdr.o.optional, HashAlgorithm.crc32, 32w0, { hdr.i.b, hdr.i.c, hdr.e.p, hdr.e.q, hdr.i.d }, 33w0x100000000);
        hash(hdr.o.max0, HashAlgorithm.crc16, 16w55, { hdr.i.a }, 16w0);
        hash(hdr.o.loose, HashAlgorithm.crc16, 16w0, { hdr.e.p, hdr.i.b, hdr.e.q, hdr.i.a }, 17w0x10000);
        random(hdr.o.random, 32w10, 32w19);
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
