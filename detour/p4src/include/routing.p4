// SPDX-License-Identifier: Apache-2.0
// Longest-prefix routes on hierarchical addresses and on uSID locators, ECMP over shortest paths.

#ifndef DETOUR_ROUTING_P4
#define DETOUR_ROUTING_P4

// What the choice among equal paths is hashed from: the low 15 bits of the UDP source port, or the sender's part of the flow
// label, and this switch.
control Spread(inout headers_t hdr, inout metadata_t meta) {
    // A CRC is linear: over (path, node id) it would give the same choice, up to a swap, at every switch. The square of
    // path makes the choices of successive switches independent.
    action mix() {
        bit<32> path = (bit<32>)meta.path;
        bit<32> node_id = (bit<32>)meta.node_id;
        meta.spread = path * (node_id * 0x9e3779b1 | 1) * (path + node_id);
    }

    apply {
        if (hdr.udp.isValid() && !hdr.inner_ipv6.isValid()) {
            meta.detour = hdr.udp.src_port[15:15];
            meta.path = hdr.udp.src_port & 0x7fff;
        } else {
            meta.path = (bit<16>)(hdr.ipv6.flow_label & FLOW_LABEL_MASK);
        }
        mix();
    }
}

control Router(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) route_counter;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 16384, 16) route_selector;

    action forward(port_t port) {
        std.egress_spec = port;
    }

    // Last hop: the host's own MAC address.
    action deliver(port_t port, bit<48> mac) {
        std.egress_spec = port;
        hdr.ethernet.dst_addr = mac;
    }

    table route {
        key = {
            hdr.ipv6.dst_addr: lpm;
            meta.spread: selector;
        }
        actions = { forward; deliver; }
        implementation = route_selector;
        counters = route_counter;
        size = 16384;
    }

    apply {
        if (route.apply().hit) {
            if (meta.hop_counted == 0) {
                if (hdr.ipv6.hop_limit <= 1) {
                    meta.verdict = PUNT_HOP_LIMIT;
                } else {
                    hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                }
            }
        } else if (hdr.ipv6.dst_addr[127:96] == USID_BLOCK) {
            meta.verdict = DROP_UNKNOWN_SID;
        } else if (hdr.ipv6.dst_addr[127:120] == 0xff) {
            meta.verdict = DROP_SCOPE; // nobody answers multicast (RFC 4443, 2.4 e)
        } else {
            meta.verdict = PUNT_NO_ROUTE;
        }
    }
}

#endif
