// SPDX-License-Identifier: Apache-2.0
// Every kind of table, with counters; results say which entry was hit.
#include "frame.p4"

header key_t { bit<128> addr; bit<32> word; bit<16> port; bit<16> port2; bit<9> odd; bit<7> tiny; bit<8> which; }
header out_t { bit<32> result; bit<8> hit; }
struct headers_t { key_t k; out_t o; }
struct meta_t { }

PARSER { state start { packet.extract(hdr.k); transition accept; } }

INGRESS {
    direct_counter(CounterType.packets_and_bytes) exact_counter;
    direct_meter<bit<8>>(MeterType.packets) lpm_meter;
    action mark(bit<32> result) { hdr.o.result = result; }
    action mark_exact(bit<32> result) { hdr.o.result = result; exact_counter.count(); }
    action mark_lpm(bit<32> result) { hdr.o.result = result; lpm_meter.read(hdr.o.hit); }
    action other(bit<96> wide, bit<8> tag) { hdr.o.result = wide[95:64] ^ wide[31:0]; hdr.o.hit = tag; }
    action miss() { hdr.o.result = 0xFFFFFFFF; }
    table exact_table {
        key = { hdr.k.addr: exact; hdr.k.odd: exact; hdr.k.port: exact; }
        actions = { mark_exact; other; miss; }
        counters = exact_counter;
        default_action = miss();
        size = 200000;
    }
    table lpm_table {
        key = { hdr.k.tiny: exact; hdr.k.addr: lpm; }
        actions = { mark_lpm; miss; }
        meters = lpm_meter;
        default_action = miss();
        size = 200000;
    }
    table ternary_table {
        key = { hdr.k.addr: ternary; hdr.k.word: ternary; hdr.k.odd: optional; hdr.k.tiny: exact; }
        actions = { mark; other; miss; }
        default_action = miss();
        size = 200000;
    }
    table range_table {
        key = { hdr.k.port: range; hdr.k.word: ternary; hdr.k.port2: range; hdr.k.addr: range; }
        actions = { mark; miss; }
        default_action = miss();
        size = 200000;
    }
    table const_table {
        key = { hdr.k.word: ternary; }
        actions = { mark; miss; }
        const default_action = miss();
        const entries = {
            0x00000001 &&& 0x000000FF: mark(1);
            0x00000000 &&& 0x000000F0: mark(2);
            0x12345678: mark(3);
            _: mark(4);
        }
    }
    table small {
        key = { hdr.k.tiny: exact; }
        actions = { mark; miss; }
        default_action = mark(77);
        size = 4;
        support_timeout = true;
    }
    apply {
        std.egress_spec = 1;
        hdr.o.setValid();
        if (hdr.k.which == 0) { if (!exact_table.apply().hit) { hdr.o.hit = 200; } }
        else if (hdr.k.which == 1) { lpm_table.apply(); }
        else if (hdr.k.which == 2) {
            switch (ternary_table.apply().action_run) {
                mark: { hdr.o.hit = 1; }
                other: { }
                default: { hdr.o.hit = 3; }
            }
        }
        else if (hdr.k.which == 3) { range_table.apply(); }
        else if (hdr.k.which == 4) { const_table.apply(); }
        else if (hdr.k.which == 5) { small.apply(); }
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
