// SPDX-License-Identifier: Apache-2.0
// Conditional rules (Benito et al., sections II-B and III): the switch that takes a packet in from a host has a minimal rule of
// high priority for the destination group, with a condition on its output port, and a non-minimal rule of low priority, by way
// of a random group. The condition: always true (MIN), the port is not paused (Conditional OpenFlow), or a random number below
// the port's probability (QCN-Switch). Reaction moves that probability.
//
// The decision travels in the flow label, as in adaptive.p4. Register paused holds the mask of priorities that the far end of
// a port has paused (PFC). The engine keeps it up to date; on BMv2, which knows no PFC, ports are never paused.

#ifndef DETOUR_CONDITIONAL_P4
#define DETOUR_CONDITIONAL_P4

const bit<2> ALWAYS = 0;
const bit<2> UNLESS_PAUSED = 1;
const bit<2> BY_PROBABILITY = 2;

const bit<32> CHOSE_MIN = 0;
const bit<32> CHOSE_VAL = 1;

// Probabilities are fixed-point numbers with 24 bits behind the point.
const bit<32> ONE = 0x1000000;

// 1 minus the probability of a transit port's conditional rules, so that registers that nobody wrote mean 100 %.
register<bit<32>>(MAX_PORTS) detoured;

control Conditional(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(MAX_PORTS) paused;
    counter(2, CounterType.packets) decisions;
    direct_counter(CounterType.packets_and_bytes) towards_group_counter;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) towards_group_selector;
    bit<16> source_group = hdr.ipv6.src_addr[111:96];
    bit<16> destination_group = hdr.ipv6.dst_addr[111:96];
    bit<2> kind = ALWAYS;
    bit<1> holds = 1;
    bit<32> of_port = 0;
    bit<32> draw = 0;
    port_t minimal_port = 0;

    action always() {
        kind = ALWAYS;
    }

    action unless_paused() {
        kind = UNLESS_PAUSED;
    }

    action by_probability() {
        kind = BY_PROBABILITY;
    }

    // What all conditional rules of this switch depend on.
    table condition {
        actions = { always; unless_paused; by_probability; }
        default_action = always();
    }

    // Ports of hosts: what comes in there is decided upon.
    table host_ports {
        key = { meta.in_port: exact; }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action minimal(port_t port) {
        minimal_port = port;
    }

    // High priority: the way to a group, and the port that its condition is about. No entry: no condition.
    table minimal_rule {
        key = { destination_group: exact @name("destination_group"); }
        actions = { minimal; @defaultonly NoAction; }
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

    // Any group but those of source and destination, all alike.
    action pick_via() {
        bit<16> low = destination_group;
        bit<16> high = source_group;
        if (source_group < destination_group) {
            low = source_group;
            high = destination_group;
        }
        random<bit<32>>(draw, 0, 0xffffff);
        meta.via = (bit<16>)((draw * (bit<32>)(meta.groups - 2)) >> 24);
        if (meta.via >= low) {
            meta.via = meta.via + 1;
        }
        if (meta.via >= high) {
            meta.via = meta.via + 1;
        }
    }

    action go_round() {
        hdr.ipv6.flow_label[19:13] = DETOUR_AHEAD | meta.via[6:0];
    }

    action go_straight() {
        hdr.ipv6.flow_label[19:13] = 0;
    }

    action evaluate_pause() {
        paused.read(of_port, (bit<32>)minimal_port);
        if (of_port & 1 != 0) { // class 0, in which packets leave their hosts
            holds = 0;
        }
    }

    action evaluate_probability() {
        detoured.read(of_port, (bit<32>)minimal_port);
        random<bit<32>>(draw, 0, ONE - 1);
        if (draw < of_port) {
            holds = 0;
        }
    }

    apply {
        if (hdr.ipv6.src_addr[127:112] == HOST_PREFIX && hdr.ipv6.dst_addr[127:112] == HOST_PREFIX) {
            if (meta.groups <= 2 || source_group != meta.group || destination_group == meta.group ||
                destination_group >= meta.groups) {
                go_straight();
            } else if (meta.hop_counted == 0 && hdr.ipv6.hop_limit <= 1) {
                meta.verdict = PUNT_HOP_LIMIT;
            } else if (host_ports.apply().hit) {
                condition.apply();
                if (minimal_rule.apply().hit) {
                    if (kind == UNLESS_PAUSED) {
                        evaluate_pause();
                    } else if (kind == BY_PROBABILITY) {
                        evaluate_probability();
                    }
                }
                if (holds == 1) {
                    decisions.count(CHOSE_MIN);
                    go_straight();
                } else {
                    decisions.count(CHOSE_VAL);
                    pick_via();
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
