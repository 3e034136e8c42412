// SPDX-License-Identifier: Apache-2.0
// Signed registers, registers in egress and in actions.
#include "lib.p4"

header head_t { bit<8> slot; int<32> change; int<32> total; bit<16> seen; }
struct headers_t { head_t h; }
struct meta_t { }

PLAIN_PARSER

INGRESS {
    register<int<32>>(16) totals;

    action accumulate(bit<32> slot) {
        int<32> total;
        totals.read(total, slot);
        total = total + hdr.h.change;
        totals.write(slot, total);
        hdr.h.total = total;
    }

    table slots {
        key = { hdr.h.slot: ternary; }
        actions = { accumulate; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            slots.apply();
        }
    }
}

EGRESS {
    register<bit<16>>(512) seen;

    apply {
        if (hdr.h.isValid()) {
            bit<16> count;
            seen.read(count, (bit<32>)std.egress_port);
            count = count + 1;
            seen.write((bit<32>)std.egress_port, count);
            hdr.h.seen = count;
        }
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
