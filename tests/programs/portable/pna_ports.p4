// SPDX-License-Identifier: Apache-2.0
// PNA: a packet goes where its first bytes say, or nowhere.
#include <core.p4>
#include <bmv2/pna.p4>

header order_t {
    bit<8>  what;
    bit<8>  came;   // the port that it came by
    bit<16> port;
}

struct meta_t { }
struct headers_t { order_t order; }

parser MainParser(packet_in b, out headers_t h, inout meta_t m, in pna_main_parser_input_metadata_t i) {
    state start {
        b.extract(h.order);
        transition accept;
    }
}

control MainControl(inout headers_t h, inout meta_t m, in pna_main_input_metadata_t i,
                    inout pna_main_output_metadata_t o) {
    action to(PortId_t port) { send_to_port(port); }
    table orders {
        key = { h.order.what: exact; }
        actions = { to; NoAction; }
        const entries = {
            8w1: to((PortId_t) 7);
        }
        default_action = NoAction();
    }
    apply {
        h.order.came = (bit<8>) (PortIdUint_t) i.input_port;
        if (i.parser_error == error.NoError) {
            if (h.order.what == 0) { send_to_port((PortId_t) (PortIdUint_t) h.order.port); }
            orders.apply();
        }
    }
}

control MainDeparser(packet_out b, inout headers_t h, in meta_t m, in pna_main_output_metadata_t o) {
    apply { b.emit(h.order); }
}

PNA_NIC(MainParser(), MainControl(), MainDeparser()) main;
