// SPDX-License-Identifier: Apache-2.0
// What a program should not do: a failed assertion, a read of an invalid header, an index out of bounds.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> kind; bit<8> a; bit<16> b; }
struct headers { h_t h; h_t more; }
struct meta_t { bit<16> count; }
parser P(packet_in p, out headers hdr, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition select(hdr.h.kind) { 1: next; default: accept; } }
    state next { p.extract(hdr.more); transition accept; }
}
control V(inout headers hdr, inout meta_t m) { apply { } }
control I(inout headers hdr, inout meta_t m, inout standard_metadata_t s) {
    register<bit<16>>(16) counts;
    apply {
        assert(hdr.h.a != 9);
        if (hdr.more.isValid() && hdr.more.a == 3) { hdr.h.b = hdr.more.b; }
        if (hdr.more.b == 77) { s.egress_spec = 2; }
        counts.read(m.count, (bit<32>)hdr.h.a);
        hdr.h.b = m.count;
    }
}
control E(inout headers hdr, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout meta_t m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); p.emit(hdr.more); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
