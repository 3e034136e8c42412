// SPDX-License-Identifier: Apache-2.0
// Action profiles and selectors; two tables share a profile.
#include "frame.p4"

header in_t  { bit<8> key; bit<16> flow; bit<8> which; }
header out_t { bit<32> chosen; bit<8> hit; }
struct headers_t { in_t i; out_t o; }
struct meta_t { }

PARSER { state start { packet.extract(hdr.i); transition accept; } }

INGRESS {
    action_profile(16) profile;
    action_selector(HashAlgorithm.crc16, 64, 16) selector;
    action pick(bit<32> v) { hdr.o.chosen = v; }
    action pick_two(bit<16> v, bit<8> w) { hdr.o.chosen = (bit<32>)v; hdr.o.hit = w; }
    action none() { }
    table plain { key = { hdr.i.key: exact; } actions = { pick; pick_two; } implementation = profile; size = 8; }
    table again { key = { hdr.i.flow: exact; } actions = { pick; pick_two; } implementation = profile; size = 8; }
    table chosen {
        key = { hdr.i.key: exact; hdr.i.flow: selector; hdr.i.which: selector; }
        actions = { pick; pick_two; none; }
        implementation = selector;
        size = 8;
    }
    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        if (hdr.i.which == 0) { plain.apply(); }
        else if (hdr.i.which == 1) { again.apply(); }
        else if (chosen.apply().hit) { hdr.o.hit = hdr.o.hit + 100; }
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
