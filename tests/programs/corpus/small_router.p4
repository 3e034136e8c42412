// SPDX-License-Identifier: Apache-2.0
// A small router: LPM route, ACL, TTL, MAC rewrite by egress port, in both pipelines.
#include "lib.p4"

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t { bit<64> head; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }
struct headers_t { ethernet_t h; ipv4_t ipv4; }
struct meta_t { bit<16> nexthop; }

PARSER {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            0x0800: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

INGRESS {
    action drop() { mark_to_drop(std); }
    action nexthop(bit<16> id) { meta.nexthop = id; }
    action forward(bit<9> port, bit<48> dst) {
        std.egress_spec = port;
        hdr.h.dst = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table acl {
        key = { hdr.ipv4.protocol: exact; hdr.ipv4.src: ternary; }
        actions = { @tableonly drop; NoAction; }
        default_action = NoAction();
    }

    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { nexthop; @tableonly drop; }
        default_action = nexthop(1);
    }

    table nexthops {
        key = { meta.nexthop: exact; }
        actions = { forward; @tableonly drop; }
        default_action = forward(4, 0x020000000004);
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl < 2) {
            drop();
        } else {
            routes.apply();
            nexthops.apply();
            acl.apply();
        }
    }
}

EGRESS {
    action source(bit<48> src) { hdr.h.src = src; }

    table sources {
        key = { std.egress_port: exact; }
        actions = { source; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        sources.apply();
    }
}

NO_VERIFY
NO_UPDATE
PLAIN_DEPARSER
SWITCH
