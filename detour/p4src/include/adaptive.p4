// SPDX-License-Identifier: Apache-2.0
// UGAL with ideal PiggyBack (Mizrahi et al., "Non-Shortest Path Routing in Lossy Data Center Networks", section II-B).
//
// The switch that takes a packet in from a host compares the loads of all global links of its group, in packets:
// L_dir < L_min + L_avg + T: the direct link (MIN), otherwise through the group behind the least loaded link (VAL).
// The decision travels in the flow label; the other switches of the source group follow it, everybody else routes to the
// destination. Register group_load holds the loads by peer group. The engine keeps it up to date; on BMv2 nobody does, and
// with all loads 0 packets take the direct link (T > 0) or a random other group (T = 0).

#ifndef DETOUR_ADAPTIVE_P4
#define DETOUR_ADAPTIVE_P4

const bit<2> MINIMAL = 0;
const bit<2> RANDOM_GROUP = 1;
const bit<2> UGAL = 2;

const bit<32> CHOSE_MIN = 0;
const bit<32> CHOSE_VAL = 1;

// One link of the group: adds its load up, keeps it if it is the least so far. Of t equal ones each is kept with chance 1/t.
#define LINK(i) \
    if (links[i:i] == 1) { \
        group_load.read(load, i); \
        load = load & weighed; \
        total = total + load; \
        count = count + 1; \
        draw = draw * 1664525 + 1013904223; \
        if (load < least) { \
            least = load; \
            ties = 1; \
            meta.via = i; \
        } else if (load == least) { \
            ties = ties + 1; \
            if ((draw >> 16) * ties < 0x10000) { \
                meta.via = i; \
            } \
        } \
    }

#define EIGHT_LINKS(i) LINK(i) LINK(i + 1) LINK(i + 2) LINK(i + 3) LINK(i + 4) LINK(i + 5) LINK(i + 6) LINK(i + 7)

control Adaptive(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(MAX_GROUPS) group_load; // index: peer group
    counter(2, CounterType.packets) decisions;
    direct_counter(CounterType.packets_and_bytes) towards_group_counter;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) towards_group_selector;
    bit<16> source_group = hdr.ipv6.src_addr[111:96];
    bit<16> destination_group = hdr.ipv6.dst_addr[111:96];

    bit<2> how = MINIMAL;
    bit<64> links = 0;             // usable global links of the group, by peer group
    bit<32> threshold = 0;
    bit<32> weighed = 0xffffffff;  // 0: loads do not count
    bit<32> load = 0;
    bit<32> direct = 0;
    bit<32> least = 0xffffffff;
    bit<32> total = 0;
    bit<32> count = 0;
    bit<32> ties = 0;
    bit<32> draw = 0;

    action minimal() {
        how = MINIMAL;
    }

    // Valiant: every packet by way of a random group, whatever the loads.
    action random_group(bit<64> usable) {
        how = RANDOM_GROUP;
        links = usable;
        weighed = 0;
    }

    // t: constant that filters out transient imbalances, in packets.
    action ugal(bit<64> usable, bit<16> t) {
        how = UGAL;
        links = usable;
        threshold = (bit<32>)t;
    }

    // How packets for a group are sent, and over which of the links; the default action serves all groups without entry.
    table mode {
        key = { destination_group: exact @name("destination_group"); }
        actions = { minimal; random_group; ugal; }
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

    // The direct link is no way round, but counts for the average.
    action set_direct_aside() {
        bit<64> bit_of_destination = 64w1 << (bit<8>)destination_group;
        if (links & bit_of_destination != 0) {
            group_load.read(direct, (bit<32>)destination_group);
            total = direct;
            count = 1;
            links = links ^ bit_of_destination;
        } else {
            direct = 0xffffff; // broken: anything else is better
        }
        random<bit<32>>(draw, 0, 0xffffffff);
    }

    action links_0() { EIGHT_LINKS(0) }
    action links_8() { EIGHT_LINKS(8) }
    action links_16() { EIGHT_LINKS(16) }
    action links_24() { EIGHT_LINKS(24) }
    action links_32() { EIGHT_LINKS(32) }
    action links_40() { EIGHT_LINKS(40) }
    action links_48() { EIGHT_LINKS(48) }
    action links_56() { EIGHT_LINKS(56) }

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
                    set_direct_aside();
                    // Nested, so that a small fabric is done after a block or two.
                    links_0();
                    if (meta.groups > 8) {
                        links_8();
                        if (meta.groups > 16) {
                            links_16();
                            if (meta.groups > 24) {
                                links_24();
                                if (meta.groups > 32) {
                                    links_32();
                                    if (meta.groups > 40) {
                                        links_40();
                                        if (meta.groups > 48) {
                                            links_48();
                                            if (meta.groups > 56) {
                                                links_56();
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                // L_dir >= L_min + L_avg + T, times the number of links: no division. Without another link: no choice.
                if (ties != 0 && (how == RANDOM_GROUP || count * direct >= count * (least + threshold) + total)) {
                    decisions.count(CHOSE_VAL);
                    go_round();
                } else {
                    decisions.count(CHOSE_MIN);
                    go_straight();
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
