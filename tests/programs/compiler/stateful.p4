// SPDX-License-Identifier: Apache-2.0
// Counters, meters and registers, in bounds and out of bounds.
#include "frame.p4"

header op_t { bit<8> op; bit<32> index; bit<200> value; bit<8> colour; }
struct headers_t { op_t op; }
struct meta_t { }

PARSER { state start { packet.extract(hdr.op); transition accept; } }

INGRESS {
    counter(8, CounterType.packets_and_bytes) packets;
    meter(4, MeterType.packets) slow;
    meter(4, MeterType.bytes) fast;
    register<bit<200>>(5) wide;
    register<bit<7>>(9) small;
    register<int<16>>(3) negative;
    apply {
        std.egress_spec = 1;
        if (hdr.op.op == 0) { packets.count(hdr.op.index); }
        else if (hdr.op.op == 1) { wide.write(hdr.op.index, hdr.op.value); }
        else if (hdr.op.op == 2) { wide.read(hdr.op.value, hdr.op.index); }
        else if (hdr.op.op == 3) { small.write(hdr.op.index, (bit<7>)hdr.op.value); }
        else if (hdr.op.op == 4) {
            bit<7> v = 99;
            small.read(v, hdr.op.index);
            hdr.op.value = (bit<200>)v;
        }
        else if (hdr.op.op == 5) { slow.execute_meter(hdr.op.index, hdr.op.colour); }
        else if (hdr.op.op == 6) { fast.execute_meter(hdr.op.index, hdr.op.colour); }
        else if (hdr.op.op == 7) {
            int<16> n = -5;
            negative.write(0, n);
            int<16> back;
            negative.read(back, 0);
            hdr.op.value = (bit<200>)(bit<16>)back;
        }
    }
}

NOTHING(TheVerify)
NO_EGRESS
NOTHING(TheUpdate)
EMIT_ALL
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheUpdate(), TheDeparser()) main;
