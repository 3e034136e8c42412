// SPDX-License-Identifier: Apache-2.0
// Conditional rules (Benito et al., sections II-B and III): the switch that takes a packet in from a host has a minimal rule of
// high priority for the destination group, with a condition on its output port, and a non-minimal rule of low priority, by way
// of a random group or switch. The condition: always true (MIN), never (VAL), the port is not paused (Conditional OpenFlow), a
// random number below the port's probability (QCN-Switch), or the port's queue against that of the way round (UGAL-L).
//
// By queues, the switch that has the link to the destination group may decide once more (PAR: Jiang, Kim and Dally, ISCA 2009),
// and tell the packet's first switch which share of what comes in for that group it had to turn; that switch then sends as much
// less the minimal way, for a while: fast by the queues, slow by notifications. Instead of that, packets between switches of a
// group may carry which links of theirs are congested (Piggyback: Jiang, Kim and Dally, ISCA 2009), in the flow label's last
// eight bits. Where a way round leaves the group, the switch may take another of its links (OLM: Garcia et al., ICPP 2013).
//
// The decision travels in the flow label, as in adaptive.p4. Register paused holds the mask of priorities that the far end of
// a port has paused (PFC). The engine keeps it up to date; on BMv2, which knows no PFC, ports are never paused.

#ifndef DETOUR_CONDITIONAL_P4
#define DETOUR_CONDITIONAL_P4

const bit<3> ALWAYS = 0;
const bit<3> NEVER = 1;
const bit<3> UNLESS_PAUSED = 2;
const bit<3> BY_PROBABILITY = 3;
const bit<3> BY_QUEUES = 4;

const bit<32> CHOSE_MIN = 0;
const bit<32> CHOSE_VAL = 1;
const bit<32> TURNED = 2; // in transit

// Probabilities are fixed-point numbers with 24 bits behind the point.
const bit<32> ONE = 0x1000000;

// 1 minus the probability of a transit port's conditional rules, so that registers that nobody wrote mean 100 %.
register<bit<32>>(MAX_PORTS) detoured;

// The same of a destination group, as of tick avoided_at (32 bits). It fades by itself.
register<bit<32>>(MAX_GROUPS) avoided;
register<bit<32>>(MAX_GROUPS) avoided_at;

// What is left of it: e^(-age / 2^fade) in steps from packet to packet.
#define FADE(share, age, fade) \
    if (age >> fade != 0) { \
        share = 0; \
    } else { \
        share = share - (bit<32>)(((bit<64>)share * (bit<64>)age) >> fade); \
    }

// How packets are judged by queues, as the control plane sets it up (detour/control/qcn.py has the same names).
struct judgement_t {
    bit<32> t;         // packets: q_min <= q_via * 2^twice + m + t is the minimal way,
    bit<8>  twice;
    bit<32> links;     // m being mean / 4 times the mean over the switch's other links to other groups, of `links` in all
    bit<32> mean;
    bit<32> own_mean;  // the same if the switch has the link to the destination group
    bit<1>  choices;   // 1: the better of two random ways round
    bit<1>  transit;   // the switch with the link decides once more,
    bit<32> gap;       // and tells of it, by input port not more often than every so many ticks; 0: never
    bit<8>  fade;      // what was told fades in 2^fade ticks
    bit<8>  shy;       // a way round by a group that is avoided itself counts as 2^(24 - shy) packets longer, times that share
    bit<8>  smooth;    // the share that is told is an average over 2^smooth packets
    bit<1>  remote;    // 1: a minimal way whose link to the group is congested, wherever that is, is not taken
}

control Conditional(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(MAX_PORTS) paused;
    register<bit<32>>(MAX_GROUPS) turned;    // share of what came in for that group that had to be turned, 24 bits
    register<bit<32>>(MAX_PORTS) told_at;    // by input port, tick
    register<bit<8>>(MAX_PORTS) beside;      // by input port: which links of the switch there are congested
    counter(3, CounterType.packets) decisions;
    direct_counter(CounterType.packets_and_bytes) towards_group_counter;
    bit<16> source_group = hdr.ipv6.src_addr[111:96];
    bit<16> destination_group = hdr.ipv6.dst_addr[111:96];
    bit<3> kind = ALWAYS;
    bit<1> holds = 1;
    bit<1> first = 0;         // decides as the switch that takes the packet in,
    bit<1> second = 0;        // or as the one that has the link,
    bit<1> onward = 0;        // or passes on what goes round
    bit<1> fixed = 0;         // the way round is the host's
    bit<32> value = 0;
    bit<32> draw = 0;
    bit<32> direct = 0;       // packets at the port to the destination group
    bit<32> around = 0;       // and at the port to the way round
    bit<32> avoided_around = 0; // share of what goes minimally there that is too much
    bit<32> other = 0;
    bit<32> age = 0;
    bit<16> drawn = 0;
    bit<16> intermediates = 0; // switches to draw from; 0: groups
    bit<16> near = 0;         // groups, from `nearest` on, behind this switch's own links
    bit<16> nearest = 0;
    bit<1> near_first = 0;    // ways round start there
    bit<1> leaves = 0;        // the way round leaves the group here
    bit<8> links = 0;         // congestion of the links of the switch that has the one to the destination group
    bit<8> place = 0;         // which of them that is
    port_t minimal_port = 0;
    bit<32> other_links = 0;  // packets at those that the packet is not for
    bit<1> owns = 0;          // the switch has the link to the destination group
    judgement_t judgement = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

    action always() {
        kind = ALWAYS;
    }

    action never() {
        kind = NEVER;
        holds = 0;
    }

    action unless_paused() {
        kind = UNLESS_PAUSED;
    }

    action by_probability() {
        kind = BY_PROBABILITY;
    }

    action by_queues(bit<16> t, bit<8> twice, bit<8> links, bit<8> mean, bit<8> own_mean, bit<1> choices, bit<1> transit,
                     bit<32> gap, bit<8> fade, bit<8> shy, bit<8> smooth, bit<1> remote) {
        kind = BY_QUEUES;
        judgement = { (bit<32>)t, twice, (bit<32>)links, (bit<32>)mean, (bit<32>)own_mean, choices, transit, gap, fade, shy,
                      smooth, remote };
    }

    // What all conditional rules of this switch depend on.
    table condition {
        actions = { always; never; unless_paused; by_probability; by_queues; }
        default_action = always();
    }

    // Every packet of the host that is sent round takes the same way.
    action fixed_way(bit<16> via) {
        drawn = via;
        fixed = 1;
    }

    // Ports of hosts: what comes in there is decided upon.
    table host_ports {
        key = { meta.in_port: exact; }
        actions = { NoAction; fixed_way; }
        default_action = NoAction();
        size = 512;
    }

    action minimal(port_t port, bit<1> own, bit<8> link) {
        minimal_port = port;
        owns = own;
        place = link;
    }

    // High priority: the way to a group, and the port that its condition is about. No entry: no condition.
    table minimal_rule {
        key = { destination_group: exact @name("destination_group"); }
        actions = { minimal; @defaultonly NoAction; }
        default_action = NoAction();
        size = MAX_GROUPS;
    }

    action any_group() {
        intermediates = 0;
    }

    action any_switch(bit<16> switches) {
        intermediates = switches;
    }

    // The groups behind this switch's own links are `count` from `first_group` on, of which its own may be one.
    action own_links(bit<16> first_group, bit<16> count, bit<1> at_first) {
        nearest = first_group;
        near = count;
        near_first = at_first;
    }

    // What ways round are drawn from: all groups but those of source and destination, or all switches (node ids 1 to n), or
    // groups at first, and where packets leave their own those that a link of that switch leads to.
    table ways_round {
        actions = { any_group; any_switch; own_links; }
        default_action = any_group();
    }

    // The queue of a way round, longer if its group is avoided itself.
    action read_first(port_t port, bit<1> own) {
        leaves = own;
        port_load.read(around, (bit<32>)port);
        avoided.read(avoided_around, (bit<32>)meta.via);
        avoided_at.read(age, (bit<32>)meta.via);
        age = std.ingress_global_timestamp[31:0] - age;
        FADE(avoided_around, age, judgement.fade)
        around = around + (avoided_around >> judgement.shy);
    }

    table first_way {
        key = { meta.via: exact; }
        actions = { read_first; @defaultonly NoAction; }
        default_action = NoAction();
        size = MAX_GROUPS;
    }

    action read_second(port_t port) {
        port_load.read(other, (bit<32>)port);
        avoided.read(value, (bit<32>)drawn);
        avoided_at.read(age, (bit<32>)drawn);
        age = std.ingress_global_timestamp[31:0] - age;
        FADE(value, age, judgement.fade)
        other = other + (value >> judgement.shy);
    }

    table second_way {
        key = { drawn: exact @name("via"); }
        actions = { read_second; @defaultonly NoAction; }
        default_action = NoAction();
        size = MAX_GROUPS;
    }

    action towards(port_t port) {
        std.egress_spec = port;
    }

    action arrive() {
        hdr.ipv6.flow_label[19:8] = 0;
    }

    // Where local links lead to the intermediate switch and on from there: the virtual channel rises in between.
    action arrive_and_rise() {
        hdr.ipv6.flow_label[19:8] = 0;
        hdr.ipv6.dscp = hdr.ipv6.dscp + 1;
    }

    // To the intermediate group or switch; no entry: that is here.
    table towards_group {
        key = { meta.via: exact; }
        actions = { towards; @defaultonly arrive; @defaultonly arrive_and_rise; }
        default_action = arrive();
        counters = towards_group_counter;
        size = MAX_GROUPS;
    }

    action draw_switch() {
        random<bit<32>>(draw, 0, 0xffff);
        drawn = (bit<16>)((draw * (bit<32>)intermediates) >> 16) + 1;
    }

    // Any group but those of source and destination, all alike.
    action draw_group() {
        bit<16> low = destination_group;
        bit<16> high = source_group;
        if (source_group < destination_group) {
            low = source_group;
            high = destination_group;
        }
        random<bit<32>>(draw, 0, 0xfffff);
        drawn = (bit<16>)((draw * (bit<32>)(meta.groups - 2)) >> 20);
        if (drawn >= low) {
            drawn = drawn + 1;
        }
        if (drawn >= high) {
            drawn = drawn + 1;
        }
    }

    action draw_near() {
        random<bit<32>>(draw, 0, 0xffff);
        drawn = nearest + (bit<16>)((draw * (bit<32>)near) >> 16);
        if (drawn >= meta.groups) {
            drawn = drawn - meta.groups;
        }
    }

    action take_drawn() {
        meta.via = drawn;
    }

    action go_round() {
        hdr.ipv6.flow_label[19:8] = 1w1 ++ meta.via[10:0];
    }

    action go_straight() {
        hdr.ipv6.flow_label[19:8] = 0;
    }

    action evaluate_pause() {
        paused.read(value, (bit<32>)minimal_port);
        if (value & 1 != 0) { // class 0, in which packets leave their hosts
            holds = 0;
        }
    }

    action evaluate_probability() {
        detoured.read(value, (bit<32>)minimal_port);
        random<bit<32>>(draw, 0, ONE - 1);
        if (draw < value) {
            holds = 0;
        }
    }

    // What notifications of late say of the destination group.
    action evaluate_avoided() {
        avoided_at.read(age, (bit<32>)destination_group);
        age = std.ingress_global_timestamp[31:0] - age;
        FADE(value, age, judgement.fade)
        avoided.write((bit<32>)destination_group, value);
        avoided_at.write((bit<32>)destination_group, std.ingress_global_timestamp[31:0]);
        random<bit<32>>(draw, 0, ONE - 1);
        if (draw + avoided_around < value) { // as much as it is more than of the way round
            holds = 0;
        }
    }

    action evaluate_queues() {
        port_load.read(direct, (bit<32>)minimal_port);
        if (direct > (around << judgement.twice) + judgement.t) {
            holds = 0;
        }
    }

    // What packets have said of the switch that has the link.
    action evaluate_remote() {
        beside.read(links, (bit<32>)minimal_port);
        if (owns == 1) {
            congested.read(links, 0);
        }
        if ((links >> place) & 1 != 0) {
            holds = 0;
        }
    }

    // With the mean: all times the number of links, so that nothing is divided.
    action evaluate_links() {
        port_load.read(direct, (bit<32>)minimal_port);
        links_load.read(other_links, 0);
        if (owns == 1) {
            other_links = other_links - direct;
            judgement.links = judgement.links - 1;
            judgement.mean = judgement.own_mean;
        }
        if (judgement.links * direct > judgement.links * ((around << judgement.twice) + judgement.t) +
            ((other_links * judgement.mean) >> 2)) {
            holds = 0;
        }
    }

    // A moving average of how much is turned, of all that comes in for the group from other switches.
    action weigh() {
        turned.read(value, (bit<32>)destination_group);
        value = value - (value >> judgement.smooth);
        if (holds == 0) {
            value = value + (ONE >> judgement.smooth);
        }
        turned.write((bit<32>)destination_group, value);
        told_at.read(age, (bit<32>)meta.in_port);
        age = std.ingress_global_timestamp[31:0] - age;
    }

    action tell() {
        told_at.write((bit<32>)meta.in_port, std.ingress_global_timestamp[31:0]);
        meta.turned = 1;
        meta.feedback = (bit<6>)((value - (value >> 6)) >> 18); // 63 at most
    }

    action turn() {
        hdr.ipv6.dscp = hdr.ipv6.dscp + 1; // it takes another local link before the global one
    }

    apply {
        if (meta.groups > 2 && hdr.ipv6.src_addr[127:112] == HOST_PREFIX && hdr.ipv6.dst_addr[127:112] == HOST_PREFIX) {
            bit<1> leaving = 0;
            if (source_group == meta.group && destination_group != meta.group && destination_group < meta.groups) {
                leaving = 1;
            }
            condition.apply();
            ways_round.apply();
            if (judgement.remote == 1) {
                beside.write((bit<32>)meta.in_port, hdr.ipv6.flow_label[7:0]);
            }
            if (host_ports.apply().hit) {
                go_straight();
                first = leaving;
            } else if (judgement.transit == 1 && hdr.ipv6.flow_label[19:19] == 0 && hdr.ipv6.dscp == 0) {
                second = leaving;
            } else if (near != 0 && hdr.ipv6.flow_label[19:19] == 1) {
                onward = leaving;
            }
            if (first == 1 && meta.hop_counted == 0 && hdr.ipv6.hop_limit <= 1) {
                meta.verdict = PUNT_HOP_LIMIT;
            } else if (first == 1 || second == 1 || onward == 1) {
                if (kind != ALWAYS && minimal_rule.apply().hit) {
                    if (onward == 1) {
                        drawn = (bit<16>)hdr.ipv6.flow_label[18:8];
                    } else if (fixed == 0) {
                        if (intermediates != 0) {
                            draw_switch();
                        } else if (near_first == 1 && first == 1) {
                            draw_near();
                        } else {
                            draw_group();
                        }
                    }
                    take_drawn();
                    if (kind == UNLESS_PAUSED) {
                        evaluate_pause();
                    } else if (kind == BY_PROBABILITY) {
                        evaluate_probability();
                    } else if (kind == BY_QUEUES) {
                        first_way.apply();
                        if (leaves == 1 && onward == 1) {
                            draw_near();
                        } else if (judgement.choices == 1 && onward == 0) {
                            draw_group();
                        }
                        if (drawn != meta.via && drawn != source_group && drawn != destination_group) {
                            second_way.apply();
                            if (other < around) {
                                around = other;
                                avoided_around = value;
                                take_drawn();
                            }
                        }
                        if (onward == 1) {
                            go_round();
                        }
                        if (judgement.links > 1) {
                            evaluate_links();
                        } else {
                            evaluate_queues();
                        }
                        if (judgement.remote == 1) {
                            evaluate_remote();
                        }
                        if (second == 1) {
                            weigh();
                            if (holds == 0 && judgement.gap != 0 && age >= judgement.gap) {
                                tell();
                            }
                        } else if (first == 1) {
                            avoided.read(value, (bit<32>)destination_group);
                            if (value != 0) {
                                evaluate_avoided();
                            }
                        }
                    }
                } else {
                    holds = 1;
                }
                if (near_first == 1 && first == 1 && (meta.via == destination_group || meta.via == source_group)) {
                    holds = 1;
                }
                if (second == 1) {
                    if (holds == 0) {
                        decisions.count(TURNED);
                        turn();
                        go_round();
                    }
                } else if (first == 1 && holds == 1) {
                    decisions.count(CHOSE_MIN);
                } else if (first == 1) {
                    decisions.count(CHOSE_VAL);
                    go_round();
                }
            }
            if (meta.verdict == FORWARD && hdr.ipv6.flow_label[19:19] == 1) {
                meta.via = (bit<16>)hdr.ipv6.flow_label[18:8];
                if (towards_group.apply().hit) {
                    if (meta.hop_counted == 0) {
                        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                    }
                    meta.port_chosen = 1;
                }
            }
        }
    }
}

// What comes in from another group and goes on by a local link may reach its end by way of another switch, in the same virtual
// channel: the control plane names only switches by which no circle of waiting arises (RLM: Garcia et al., ICPP 2013).
control Sidestep(in headers_t hdr, in metadata_t meta, inout standard_metadata_t std) {
    bit<32> straight = 0; // packets at the port that the route names
    bit<32> least = 0;    // and at the best of the others
    bit<32> load = 0;
    port_t port = 0;

    action consider(port_t other) {
        port_load.read(load, (bit<32>)other);
        if (load < least) {
            least = load;
            port = other;
        }
    }

    // Another port, if more than four times what waits there and `t` packets wait here.
    action by_neighbour(port_t first, port_t second, port_t third, bit<16> t) {
        port = first;
        port_load.read(least, (bit<32>)first);
        consider(second);
        consider(third);
        port_load.read(straight, (bit<32>)std.egress_spec);
        if (straight > (least << 2) + (bit<32>)t) {
            std.egress_spec = port;
        }
    }

    table neighbours {
        key = {
            meta.in_port: exact;
            std.egress_spec: exact;
        }
        actions = { by_neighbour; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        if (meta.verdict == FORWARD && meta.port_chosen == 0 && hdr.ipv6.src_addr[127:112] == HOST_PREFIX) {
            neighbours.apply();
        }
    }
}

#endif
