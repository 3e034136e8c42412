// SPDX-License-Identifier: Apache-2.0
// Source-bit Valiant selection (Mizrahi et al., "Non-Shortest Path Routing in Lossy Data Center Networks", section III).
//
// Most significant bit of the UDP source port: 0 = shortest, 1 = by way of an intermediate group that the hash of the other
// 15 bits picks among those which are neither source nor destination. Stateless: whether the detour still lies ahead follows
// from this switch's group alone; only switches of the source group send towards the intermediate group.

#ifndef DETOUR_VALIANT_P4
#define DETOUR_VALIANT_P4

control Valiant(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) detour_counter;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) detour_selector;
    bit<16> source_group = hdr.ipv6.src_addr[111:96];
    bit<16> destination_group = hdr.ipv6.dst_addr[111:96];

    // The two groups to skip, in order, so that the hash maps onto the rest without a gap.
    action pick_via() {
        bit<16> low = destination_group;
        bit<16> high = source_group;
        if (source_group < destination_group) {
            low = source_group;
            high = destination_group;
        }
        hash(meta.via, HashAlgorithm.crc16, 16w0, { meta.path }, meta.groups - 2);
        if (meta.via >= low) {
            meta.via = meta.via + 1;
        }
        if (meta.via >= high) {
            meta.via = meta.via + 1;
        }
    }

    action towards(port_t port) {
        std.egress_spec = port;
    }

    // From the source group into an intermediate group; no entry: not usable now, the shortest path serves.
    table detour {
        key = {
            meta.via: exact;
            meta.spread: selector;
        }
        actions = { towards; }
        implementation = detour_selector;
        counters = detour_counter;
        size = 1024;
    }

    // Intermediate groups that have lost their direct link to a destination group.
    table cut_off {
        key = {
            meta.via: exact;
            destination_group: exact @name("destination_group");
        }
        actions = { NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        if (meta.detour == 1 && meta.groups > 2 && source_group == meta.group && destination_group != meta.group &&
            hdr.ipv6.src_addr[127:112] == HOST_PREFIX && hdr.ipv6.dst_addr[127:112] == HOST_PREFIX) {
            if (source_group < meta.groups && destination_group < meta.groups) {
                pick_via();
                if (meta.hop_counted == 0 && hdr.ipv6.hop_limit <= 1) {
                    meta.verdict = PUNT_HOP_LIMIT;
                } else if (!cut_off.apply().hit && detour.apply().hit) {
                    if (meta.hop_counted == 0) {
                        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                    }
                    meta.port_chosen = 1;
                }
            }
        }
    }
}

#endif
