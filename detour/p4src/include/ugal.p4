// SPDX-License-Identifier: Apache-2.0
// UGAL (Singh, "Load-balanced routing in interconnection networks", 2005) on a Dragonfly (Kim et al., "Technology-driven,
// highly-scalable Dragonfly topology", ISCA 2008, section 4.2).
//
// The switch that takes a packet in from a host draws one intermediate group and compares two queues, in packets:
// q_min <= 2 q_via + T: the shortest path, otherwise through that group. A detour crosses two global links where the shortest
// path crosses one; that is the ratio of lengths, H_via / H_min, of ISCA 2008.
//
// UGAL-L looks at the queues of the two ports of its own that the packet may take (port_load), which says little of a global
// link elsewhere in the group. UGAL-G looks at the queues of the group's two global links wherever they are (group_load): ideal
// knowledge that no switch has. The engine keeps both registers up to date; on BMv2 nobody does, and with all loads 0 packets
// take the shortest path.
//
// The decision travels in the flow label as in adaptive.p4; names that both programs have mean the same.

#ifndef DETOUR_UGAL_P4
#define DETOUR_UGAL_P4

const bit<2> MINIMAL = 0;
const bit<2> UGAL_LOCAL = 1;
const bit<2> UGAL_GLOBAL = 2;

const bit<32> CHOSE_MIN = 0;
const bit<32> CHOSE_VAL = 1;

control Ugal(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(MAX_GROUPS) group_load; // index: peer group
    register<bit<32>>(MAX_PORTS) port_load;   // index: port of this switch
    counter(2, CounterType.packets) decisions;
    direct_counter(CounterType.packets_and_bytes) towards_group_counter;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) towards_group_selector;
    bit<16> source_group = hdr.ipv6.src_addr[111:96];
    bit<16> destination_group = hdr.ipv6.dst_addr[111:96];

    bit<2> how = MINIMAL;
    bit<64> links = 0; // usable global links of the group, by peer group
    bit<32> threshold = 0;
    bit<32> direct = 0;
    bit<32> around = 0;
    bit<32> draw = 0;

    action minimal() {
        how = MINIMAL;
    }

    // t: in packets, for the shortest path.
    action ugal_local(bit<64> usable, bit<16> t) {
        how = UGAL_LOCAL;
        links = usable;
        threshold = (bit<32>)t;
    }

    action ugal_global(bit<64> usable, bit<16> t) {
        how = UGAL_GLOBAL;
        links = usable;
        threshold = (bit<32>)t;
    }

    // How packets for a group are sent, and over which of the links; the default action serves all groups without entry.
    table mode {
        key = { destination_group: exact @name("destination_group"); }
        actions = { minimal; ugal_local; ugal_global; }
        default_action = minimal();
        size = 64;
    }

    // Ports of hosts: what comes in there is decided upon.
    table host_ports {
        key = { meta.in_port: exact; }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action read_direct(port_t port) {
        port_load.read(direct, (bit<32>)port);
    }

    action read_around(port_t port) {
        port_load.read(around, (bit<32>)port);
    }

    // The port of this switch on the shortest path to a group; of several the first.
    table shortest_load {
        key = { destination_group: exact @name("destination_group"); }
        actions = { read_direct; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    table detour_load {
        key = { meta.via: exact; }
        actions = { read_around; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action towards(port_t port) {
        std.egress_spec = port;
    }

    // From the source group into an intermediate group.
    table towards_group {
        key = {
            meta.via: exact;
            meta.spread: selector;
        }
        actions = { towards; }
        implementation = towards_group_selector;
        counters = towards_group_counter;
        size = 1024;
    }

    // One of the groups that are neither the source's nor the destination's.
    action draw_group() {
        bit<16> low = destination_group;
        bit<16> high = source_group;
        if (source_group < destination_group) {
            low = source_group;
            high = destination_group;
        }
        random<bit<32>>(draw, 0, 0xffff);
        draw = draw * (bit<32>)(meta.groups - 2);
        meta.via = draw[31:16];
        if (meta.via >= low) {
            meta.via = meta.via + 1;
        }
        if (meta.via >= high) {
            meta.via = meta.via + 1;
        }
    }

    action read_group_loads() {
        group_load.read(direct, (bit<32>)destination_group);
        group_load.read(around, (bit<32>)meta.via);
    }

    action go_round() {
        hdr.ipv6.flow_label[19:13] = DETOUR_AHEAD | meta.via[6:0];
    }

    action go_straight() {
        hdr.ipv6.flow_label[19:13] = 0;
    }

    apply {
        if (hdr.ipv6.src_addr[127:112] == HOST_PREFIX && hdr.ipv6.dst_addr[127:112] == HOST_PREFIX) {
            bit<1> leaving = 0;
            if (meta.groups > 2 && source_group == meta.group && destination_group != meta.group &&
                destination_group < meta.groups) {
                leaving = 1;
            }
            if (leaving == 0) {
                go_straight();
            } else if (meta.hop_counted == 0 && hdr.ipv6.hop_limit <= 1) {
                meta.verdict = PUNT_HOP_LIMIT;
            } else if (host_ports.apply().hit) {
                mode.apply();
                if (how != MINIMAL) {
                    draw_group();
                    bit<64> bit_of_via = 64w1 << (bit<8>)meta.via;
                    bit<64> bit_of_destination = 64w1 << (bit<8>)destination_group;
                    if (links & bit_of_via == 0) {
                        how = MINIMAL;
                    } else if (how == UGAL_LOCAL) {
                        shortest_load.apply();
                        detour_load.apply();
                    } else if (links & bit_of_destination != 0) {
                        read_group_loads();
                    }
                }
                if (how == MINIMAL || direct <= 2 * around + threshold) {
                    decisions.count(CHOSE_MIN);
                    go_straight();
                } else {
                    decisions.count(CHOSE_VAL);
                    go_round();
                }
            }
            if (meta.verdict == FORWARD && hdr.ipv6.flow_label[19:19] == 1) {
                meta.via = (bit<16>)hdr.ipv6.flow_label[18:13];
                if (towards_group.apply().hit) {
                    if (meta.hop_counted == 0) {
                        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                    }
                    meta.port_chosen = 1;
                } else {
                    go_straight();
                }
            }
        }
    }
}

#endif
