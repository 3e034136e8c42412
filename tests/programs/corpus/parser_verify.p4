// SPDX-License-Identifier: Apache-2.0
// verify with errors of our own, a select that matches nothing, packets that are too short.
#include "lib.p4"

error { TooBig, Odd }
header h_t { bit<8> kind; bit<16> value; bit<32> extra; }
header tail_t { bit<8> seen; }
struct headers_t { h_t h; tail_t tail; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.kind < 4, error.TooBig);
        verify(hdr.h.value[0:0] == 0, error.Odd);
        transition select(hdr.h.kind) {
            0: accept;
            1: reject;
            2 &&& 0xfe: tail;
        }
    }
    state tail { packet.extract(hdr.tail); transition accept; }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        if (std.parser_error == error.NoError) {
            hdr.h.extra = 0;
        } else if (std.parser_error == error.TooBig) {
            hdr.h.extra = 1;
        } else if (std.parser_error == error.Odd) {
            hdr.h.extra = 2;
        } else if (std.parser_error == error.PacketTooShort) {
            hdr.h.extra = 3;
        } else if (std.parser_error == error.NoMatch) {
            hdr.h.extra = 4;
        } else {
            hdr.h.extra = 5;
        }
        std.egress_spec = 2;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.h); packet.emit(hdr.tail); } }
SWITCH
