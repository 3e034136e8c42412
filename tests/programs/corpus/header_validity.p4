// SPDX-License-Identifier: Apache-2.0
// setValid and setInvalid in every order; a header made valid anew begins at zero; headers of odd order in the deparser.
#include "lib.p4"

header head_t { bit<8> op; bit<8> valid; }
header a_t { bit<16> x; bit<16> y; }
header b_t { bit<8> z; }
struct headers_t { head_t h; a_t a; b_t b; a_t c; }
struct meta_t { }

PARSER {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.a);
        packet.extract(hdr.b);
        transition accept;
    }
}

INGRESS {
    apply {
        std.egress_spec = std.ingress_port;
        if (std.parser_error == error.NoError) {
            if (hdr.h.op == 1) {
                hdr.a.setInvalid();
                hdr.a.setValid();
                hdr.a.x = 0x0101;
            } else if (hdr.h.op == 2) {
                hdr.c.setValid();
                hdr.c.y = hdr.a.y;
            } else if (hdr.h.op == 3) {
                hdr.c = hdr.a;
                hdr.a.setInvalid();
            } else if (hdr.h.op == 4) {
                hdr.b.setValid();
                hdr.b.setInvalid();
            } else if (hdr.h.op == 5) {
                hdr.a = { 1, 2 };
                hdr.b = { 3 };
                hdr.c = hdr.a;
            } else if (hdr.h.op == 6) {
                hdr.h.setInvalid();
            }
            if (hdr.h.isValid()) {
                hdr.h.valid = 4w0 ++ (bit<1>)hdr.h.isValid() ++ (bit<1>)hdr.a.isValid() ++
                    (bit<1>)hdr.b.isValid() ++ (bit<1>)hdr.c.isValid();
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
DEPARSER {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.b);
        packet.emit(hdr.c);
        packet.emit(hdr.a);
        packet.emit(hdr.b);
    }
}

SWITCH
