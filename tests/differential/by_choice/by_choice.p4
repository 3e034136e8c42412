// SPDX-License-Identifier: Apache-2.0
// Where the engine differs from simple_switch by choice (test_by_choice.py): fields of headers that are not valid, and
// the size of a table. Compiled here with
//     p4c-bm2-ss by_choice.p4 -o by_choice.json --p4runtime-files by_choice.p4info.txtpb
#include "../../programs/compiler/frame.p4"

header op_t   { bit<8> extract; bit<8> op; bit<16> value; bit<16> read; bit<8> key; }
header item_t { bit<16> f; }
struct headers_t { op_t op; item_t item; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.extract) { 1: item; default: accept; }
    }
    state item { packet.extract(hdr.item); transition accept; }
}

INGRESS {
    action seen(bit<8> as) { hdr.op.key = as; }
    table by_item {
        key = { hdr.item.f: exact; }
        actions = { seen; }
        const default_action = seen(9);
        const entries = { 0: seen(1); 0x7777: seen(2); }
    }
    table small {
        key = { hdr.op.value: exact; }
        actions = { NoAction; }
        const default_action = NoAction;
        size = 4;
    }
    action read() { hdr.op.read = hdr.item.f; }
    action invalidate() { hdr.item.setInvalid(); }
    action validate() { hdr.item.setValid(); }
    action write() { hdr.item.f = hdr.op.value; }
    // Every bit of `op`, from the lowest, is a step.
    apply {
        std.egress_spec = 1;
        if (hdr.op.op & 1 != 0) { invalidate(); }
        if (hdr.op.op & 2 != 0) { write(); }
        if (hdr.op.op & 4 != 0) { validate(); }
        by_item.apply();
        small.apply();
        read();
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
