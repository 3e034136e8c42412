// SPDX-License-Identifier: Apache-2.0
// Serializable enums in headers and select, plain enums in metadata, an error compared in ingress.
#include "lib.p4"

enum bit<8> Kind { Small = 1, Large = 2, Other = 5 }
enum Local { Red, Green }
header h_t { Kind kind; bit<8> r; bit<16> err; }
struct headers_t { h_t h; }
struct meta_t { Local color; }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            Kind.Small: accept;
            Kind.Large: accept;
            default: other;
        }
    }
    state other { verify(hdr.h.kind == Kind.Other, error.NoMatch); transition accept; }
}
NO_VERIFY
NO_UPDATE

INGRESS {
    apply {
        if (!hdr.h.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = 2;
        meta.color = Local.Green;
        if (hdr.h.kind == Kind.Small) { meta.color = Local.Red; }
        if (meta.color == Local.Red) { hdr.h.r = 1; } else { hdr.h.r = 2; }
        hdr.h.err = (std.parser_error == error.NoMatch) ? 16w1 : 16w0;
    }
}
NO_EGRESS
DEPARSER { apply { packet.emit(hdr.h); } }
SWITCH
