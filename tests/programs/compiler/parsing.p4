// SPDX-License-Identifier: Apache-2.0
// Stacks, unions, variable lengths (one that begins inside a byte), lookahead, advance, verify, value sets, loops.
#include "frame.p4"

error { Odd }

header kind_t  { bit<8> kind; }
header label_t { bit<20> label; bit<3> tc; bit<1> bottom; bit<8> ttl; }
header tlv_t   { bit<4> type; bit<4> words; varbit<96> value; bit<4> tail; bit<4> end; }
header split_t { bit<4> first; varbit<64> value; bit<12> last; }
header a_t     { bit<8> x; }
header b_t     { bit<16> y; }
header_union ab_t { a_t a; b_t b; }
header sum_t   { bit<32> error_code; bit<32> labels; bit<16> ahead; bit<8> set_hit; bit<8> union_kind; }

struct headers_t { kind_t kind; label_t[3] labels; tlv_t tlv; split_t split; ab_t[2] ab; ab_t one; sum_t sum; }
struct meta_t { bit<16> ahead; bit<8> hit; bit<32> last; }

parser TheParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<bit<8>>(4) special;
    state start {
        packet.extract(hdr.kind);
        transition select(hdr.kind.kind) {
            1: labels;
            2: tlv;
            3: split;
            4: choose;
            5: ahead;
            6: skip;
            7: check;
            8: spin;
            9: single;
            0x40 &&& 0xF0: masked;
            special: in_set;
            default: accept;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        meta.last = hdr.labels.lastIndex;
        transition select(hdr.labels.last.bottom) {
            0: labels;
            default: accept;
        }
    }
    state tlv {
        packet.extract(hdr.tlv, (bit<32>)packet.lookahead<bit<8>>()[3:0] * 8);
        transition accept;
    }
    state split {
        packet.extract(hdr.split, (bit<32>)packet.lookahead<bit<4>>() * 8);
        transition accept;
    }
    state choose {
        transition select(packet.lookahead<bit<8>>()) {
            0x0A: first;
            0x0B: second;
            default: accept;
        }
    }
    state first { packet.advance(8); packet.extract(hdr.ab.next.a); transition choose; }
    state second { packet.advance(8); packet.extract(hdr.ab.next.b); transition choose; }
    state single {
        transition select(packet.lookahead<bit<8>>()) {
            0x0A: single_a;
            default: single_b;
        }
    }
    state single_a { packet.extract(hdr.one.a); transition accept; }
    state single_b { packet.extract(hdr.one.b); transition accept; }
    state ahead { meta.ahead = packet.lookahead<bit<16>>(); transition accept; }
    state skip { packet.advance((bit<32>)packet.lookahead<bit<8>>()); transition accept; }
    state check {
        verify(packet.lookahead<bit<8>>()[0:0] == 0, error.Odd);
        packet.advance(16);
        transition accept;
    }
    state spin { transition select(hdr.kind.kind) { 8: spin; default: accept; } }
    state masked { meta.hit = 2; transition accept; }
    state in_set { meta.hit = 1; transition accept; }
}

INGRESS {
    apply {
        hdr.sum.setValid();
        if (std.parser_error == error.PacketTooShort) { hdr.sum.error_code = 1; }
        else if (std.parser_error == error.StackOutOfBounds) { hdr.sum.error_code = 2; }
        else if (std.parser_error == error.HeaderTooShort) { hdr.sum.error_code = 3; }
        else if (std.parser_error == error.ParserInvalidArgument) { hdr.sum.error_code = 4; }
        else if (std.parser_error == error.ParserTimeout) { hdr.sum.error_code = 5; }
        else if (std.parser_error == error.Odd) { hdr.sum.error_code = 6; }
        else if (std.parser_error != error.NoError) { hdr.sum.error_code = 7; }
        hdr.sum.labels = meta.last;
        hdr.sum.ahead = meta.ahead;
        hdr.sum.set_hit = meta.hit;
        if (hdr.one.a.isValid()) { hdr.sum.union_kind = 1; }
        if (hdr.one.b.isValid()) { hdr.sum.union_kind = 2; }
        std.egress_spec = 1;
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.sum); packet.emit(hdr.kind); packet.emit(hdr.labels); packet.emit(hdr.tlv);
        packet.emit(hdr.split); packet.emit(hdr.ab); packet.emit(hdr.one);
    }
}
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
