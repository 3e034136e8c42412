// SPDX-License-Identifier: Apache-2.0
// The newer v1model (2020): index types of any width for counters, meters and registers.
#define V1MODEL_VERSION 20200408
#include "lib.p4"

header head_t { bit<4> slot; bit<4> other; bit<16> value; bit<8> color; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    register<bit<16>, bit<4>>(16) values;
    counter<bit<4>>(16, CounterType.packets) packets;
    meter<bit<4>>(16, MeterType.packets) colors;

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            bit<16> old;
            values.read(old, hdr.h.slot);
            values.write(hdr.h.slot, hdr.h.value);
            packets.count(hdr.h.other);
            colors.execute_meter(hdr.h.other, hdr.h.color);
            hdr.h.value = old;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
