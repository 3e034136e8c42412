// SPDX-License-Identifier: Apache-2.0
// Serializable enums in headers, plain enums in metadata, as key and in comparisons.
#include "lib.p4"

enum bit<8> Kind { Data = 1, Ack = 2, Probe = 0x80 }
enum Phase { Start, Middle, End }

header head_t { Kind kind; bit<8> phase; Kind answer; }
struct headers_t { head_t h; }
struct meta_t { Phase phase; }

PLAIN_PARSER

INGRESS {
    action answer(Kind kind) {
        hdr.h.answer = kind;
    }

    table answers {
        key = { hdr.h.kind: exact; }
        actions = { answer; @defaultonly NoAction; }
        const entries = {
            Kind.Data: answer(Kind.Ack);
            Kind.Probe: answer(Kind.Probe);
        }
        default_action = NoAction();
    }

    apply {
        std.egress_spec = std.ingress_port;
        if (hdr.h.isValid()) {
            meta.phase = Phase.Start;
            if (hdr.h.kind == Kind.Ack) {
                meta.phase = Phase.Middle;
            } else if (hdr.h.kind == Kind.Probe) {
                meta.phase = Phase.End;
            }
            answers.apply();
            if (meta.phase == Phase.End) {
                hdr.h.phase = 3;
            } else if (meta.phase != Phase.Start) {
                hdr.h.phase = 2;
            }
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
