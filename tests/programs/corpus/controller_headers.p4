// SPDX-License-Identifier: Apache-2.0
// Headers for the controller: packet_out says where to, packet_in where from.
#include "lib.p4"

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> reason; }
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> pad; }
header head_t { bit<16> kind; }
struct headers_t { packet_in_t packet_in; packet_out_t packet_out; head_t h; }
struct meta_t { }

PARSER {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: packet_out;
            default: head;
        }
    }

    state packet_out {
        packet.extract(hdr.packet_out);
        transition head;
    }

    state head {
        packet.extract(hdr.h);
        transition accept;
    }
}

INGRESS {
    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.h.isValid() && hdr.h.kind[15:15] == 1) {
            std.egress_spec = CPU_PORT;
            hdr.packet_in.setValid();
            hdr.packet_in = { std.ingress_port, hdr.h.kind[6:0] };
        } else {
            std.egress_spec = std.ingress_port;
        }
    }
}

NO_VERIFY
NO_EGRESS
NO_UPDATE
PLAIN_DEPARSER
SWITCH
