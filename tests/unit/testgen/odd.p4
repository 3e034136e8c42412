// SPDX-License-Identifier: Apache-2.0
// Metadata that the parser writes, loops in actions, names that STF quotes, keys whose names end alike.
#include <core.p4>
#include <v1model.p4>

header head_t { bit<8> count; bit<8> sum; bit<16> rest; }
struct headers_t { head_t h; }
struct inner_t { bit<8> z; }
struct meta_t { inner_t inner; bit<8> z; }

parser P(packet_in p, out headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    state start {
        std.packet_length = 7;
        p.extract(hdr.h);
        transition select(std.ingress_port) { 0: renamed; default: accept; }
    }
    state renamed {
        std.ingress_port = 2;
        transition accept;
    }
}

control I(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    bit<8> z = hdr.h.count;
    action until_five() {
        for (bit<8> i = 0; i < hdr.h.count; i = i + 1) {
            if (i == 5) {
                break;
            }
            hdr.h.sum = hdr.h.sum + 1;
        }
    }
    action odd_ones() {
        for (bit<8> i = 0; i < 10; i = i + 1) {
            if ((i & 1) == 0) {
                continue;
            }
            for (bit<8> j in 8w0 .. 3) {
                hdr.h.sum = hdr.h.sum + j;
            }
        }
    }
    @name("steps | # times")
    table steps {
        key = { m.inner.z: exact; m.z: exact; z: exact; }
        actions = { until_five; odd_ones; NoAction; }
        const default_action = NoAction;
    }
    apply {
        m.inner.z = hdr.h.sum;
        m.z = 3;
        steps.apply();
        std.egress_spec = std.ingress_port;
    }
}

control None(inout headers_t hdr, inout meta_t m) { apply { } }
control E(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) { apply { } }
control D(packet_out p, in headers_t hdr) { apply { p.emit(hdr); } }
V1Switch(P(), None(), I(), E(), None(), D()) main;
