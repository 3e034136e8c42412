// SPDX-License-Identifier: Apache-2.0
// SRv6 uSID (RFC 9800 NEXT-CSID, RFC 8986): block 32 bits, uSID 16 bits.
//
// A nonzero argument is shifted by one uSID and the packet goes on, whatever it carries; a zero argument ends the container: an
// SRH yields the next one, an inner IPv6 packet comes out (USD), anything else is not for a switch.

#ifndef DETOUR_USID_P4
#define DETOUR_USID_P4

control Usid(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) sid_counter;
    bit<80> argument = 0;      // left-aligned
    bit<1> adjacency = 0;
    port_t adjacency_port = 0;
    bit<32> extension_bytes = 0; // between the IPv6 header and what the parser found behind it

    action un() {
        sid_counter.count();
        argument = hdr.ipv6.dst_addr[79:0];
    }

    // Function only: the uSID is local to this switch.
    action ua(port_t port) {
        sid_counter.count();
        argument = hdr.ipv6.dst_addr[79:0];
        adjacency = 1;
        adjacency_port = port;
    }

    // Node and function.
    action node_ua(port_t port) {
        sid_counter.count();
        argument = hdr.ipv6.dst_addr[63:0] ++ 16w0;
        adjacency = 1;
        adjacency_port = port;
    }

    table local_sid {
        key = { hdr.ipv6.dst_addr: lpm; }
        actions = { un; ua; node_ua; @defaultonly NoAction; }
        default_action = NoAction();
        counters = sid_counter;
        size = 1024;
    }

    action shift() {
        hdr.ipv6.dst_addr = USID_BLOCK ++ argument ++ 16w0;
    }

    action advance() {
        hdr.srh.segments_left = hdr.srh.segments_left - 1;
        hdr.ipv6.dst_addr = hdr.next_segment.sid;
    }

    // USD: the outer IPv6 header and its extension headers go, the inner packet continues.
    action decapsulate() {
        hdr.ipv6 = hdr.inner_ipv6;
        hdr.transit = hdr.inner_transit;
        hdr.options.setInvalid();
        hdr.inner_ipv6.setInvalid();
        hdr.inner_transit.setInvalid();
        hdr.srh.setInvalid();
        hdr.segments_before.setInvalid();
        hdr.next_segment.setInvalid();
        hdr.segments_after.setInvalid();
    }

    apply {
        if (hdr.ipv6.dst_addr[127:96] == USID_BLOCK && local_sid.apply().hit) {
            if (argument == 0) {
                if (hdr.transit.isValid()) {
                    extension_bytes = 8;
                }
                if (hdr.options.isValid()) {
                    extension_bytes = extension_bytes + ((bit<32>)hdr.options.hdr_ext_len << 3) + 8;
                }
                if (hdr.srh.isValid()) {
                    extension_bytes = extension_bytes + ((bit<32>)hdr.srh.hdr_ext_len << 3) + 8;
                }
                if (extension_bytes > (bit<32>)hdr.ipv6.payload_len) {
                    meta.verdict = DROP_MALFORMED;
                } else if (hdr.srh.isValid() && hdr.srh.segments_left != 0) {
                    // RFC 8986, 4.1, S05 to S11
                    if (hdr.ipv6.hop_limit <= 1) {
                        meta.verdict = PUNT_HOP_LIMIT;
                    } else if ((bit<16>)hdr.srh.last_entry * 2 + 2 > (bit<16>)hdr.srh.hdr_ext_len ||
                               (bit<16>)hdr.srh.segments_left > (bit<16>)hdr.srh.last_entry + 1) {
                        meta.verdict = PUNT_BAD_SRH;
                    } else if (!hdr.next_segment.isValid()) {
                        meta.verdict = PUNT_SID_EXHAUSTED; // more segments left than the parser takes
                    }
                } else if (hdr.inner_ipv6.isValid()) {
                    if (hdr.inner_ipv6.version != 6 || extension_bytes + 40 + (bit<32>)hdr.inner_ipv6.payload_len >
                                                       (bit<32>)hdr.ipv6.payload_len) {
                        meta.verdict = DROP_MALFORMED;
                    } else if (IS_NO_SOURCE(hdr.inner_ipv6.src_addr)) {
                        meta.verdict = DROP_SCOPE;
                    } else {
                        decapsulate();
                    }
                } else {
                    meta.verdict = PUNT_SID_EXHAUSTED; // the controller says why, if anything is to be said
                }
            }
            if (meta.verdict == FORWARD) {
                if (hdr.ipv6.hop_limit <= 1) {
                    meta.verdict = PUNT_HOP_LIMIT;
                } else {
                    if (argument != 0) {
                        shift();
                    } else if (hdr.next_segment.isValid()) {
                        advance();
                    }
                    hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                    meta.hop_counted = 1;
                    if (adjacency == 1) {
                        std.egress_spec = adjacency_port;
                        meta.port_chosen = 1;
                    } else if (hdr.ipv6.dst_addr[127:96] == USID_BLOCK &&
                               (hdr.ipv6.dst_addr[95:80] == meta.node_id ||
                                hdr.ipv6.dst_addr[95:80] >= USID_LOCAL_FUNCTIONS)) {
                        // Perhaps another SID of this switch. If it is none, the packet is routed without another decrement.
                        meta.verdict = AGAIN;
                    }
                }
            }
        }
    }
}

#endif
