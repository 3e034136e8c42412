// SPDX-License-Identifier: Apache-2.0
// UGAL-L (Singh, "Load-balanced routing in interconnection networks", 2005, chapter 5) on any graph of switches, packet by
// packet: what expanders need, where a detour goes by way of any switch and not of a group.
//
// The switch that takes a packet in from a host draws one intermediate switch and compares queues, in packets, times links:
// q_min H_min <= (q_via + T) H_via: a shortest path, otherwise a shortest path to that switch and another one from there. The
// queues are those of the two ports of its own (port_load) that the packet would leave by; where there are several shortest
// paths, one is drawn for every packet. The engine keeps the register up to date; on BMv2 nobody does, and with all loads 0
// packets take a shortest path.
//
// Who leaves the way to the switches names the last switch and the host in a uSID list. A detour is one uSID more in front: no
// switch behind the first one has to know of it, and what comes out at the host is what its sender wrote.

#ifndef DETOUR_UGAL_GRAPH_P4
#define DETOUR_UGAL_GRAPH_P4

#define MAX_NODES 512
#define MAX_LINKS 16

const bit<16> FIRST_HOST = 0x8000; // uSIDs below are switches

const bit<32> CHOSE_MIN = 0;
const bit<32> CHOSE_VAL = 1;

control UgalGraph(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(MAX_PORTS) port_load; // index: port of this switch
    counter(2, CounterType.packets) decisions;
    counter(MAX_LINKS, CounterType.packets) taken; // index: links of the way that was chosen
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) shortest_way_selector;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) detour_way_selector;
    bit<16> destination_node = hdr.ipv6.dst_addr[95:80];
    bit<16> host = hdr.ipv6.dst_addr[79:64];

    bit<512> ones = 0; // links from every switch to the destination, a bit of the number each; by node id - 1
    bit<512> twos = 0;
    bit<512> fours = 0;
    bit<32> others = 0;
    bit<32> threshold = 0;
    bit<32> direct = 0;
    bit<32> around = 0;
    bit<32> direct_links = 0;
    bit<32> around_links = 0;
    bit<32> onward_links = 0;
    bit<32> draw = 0;

    // others: switches that are neither this one nor the destination. t: in packets, for the shortest path. A switch that
    // has no links to the destination is none to go by.
    action far(bit<512> one, bit<512> two, bit<512> four, bit<16> switches, bit<16> t) {
        ones = one;
        twos = two;
        fours = four;
        others = (bit<32>)switches;
        threshold = (bit<32>)t;
    }

    // How far all switches are from a destination; packets for one without entry take what the routes say.
    table distances {
        key = { destination_node: exact @name("destination_node"); }
        actions = { far; NoAction; }
        default_action = NoAction();
        size = MAX_NODES;
    }

    // Ports of hosts: what comes in there is decided upon.
    table host_ports {
        key = { meta.in_port: exact; }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action read_direct(port_t port, bit<8> links) {
        port_load.read(direct, (bit<32>)port);
        direct_links = (bit<32>)links;
    }

    action read_around(port_t port, bit<8> links) {
        port_load.read(around, (bit<32>)port);
        around_links = (bit<32>)links;
    }

    // The ports on shortest paths to a switch, in the order of the routes: the same hash picks the port that is looked at
    // here and the one that the packet leaves by.
    table shortest_way {
        key = {
            destination_node: exact @name("destination_node");
            meta.spread: selector;
        }
        actions = { read_direct; NoAction; }
        default_action = NoAction();
        implementation = shortest_way_selector;
        size = MAX_NODES;
    }

    table detour_way {
        key = {
            meta.via: exact;
            meta.spread: selector;
        }
        actions = { read_around; NoAction; }
        default_action = NoAction();
        implementation = detour_way_selector;
        size = MAX_NODES;
    }

    // The node id of one of the others.
    action draw_node() {
        bit<16> low = destination_node;
        bit<16> high = meta.node_id;
        if (meta.node_id < destination_node) {
            low = meta.node_id;
            high = destination_node;
        }
        random<bit<32>>(draw, 0, 0xffff);
        draw = draw * others;
        meta.via = draw[31:16] + 1;
        if (meta.via >= low) {
            meta.via = meta.via + 1;
        }
        if (meta.via >= high) {
            meta.via = meta.via + 1;
        }
    }

    action measure_onward() {
        bit<16> place = meta.via - 1;
        // p4c's backend for BMv2 takes shifts by at most 8 bits.
        bit<256> one = (place[8:8] == 1 ? ones[511:256] : ones[255:0]) >> place[7:0];
        bit<256> two = (place[8:8] == 1 ? twos[511:256] : twos[255:0]) >> place[7:0];
        bit<256> four = (place[8:8] == 1 ? fours[511:256] : fours[255:0]) >> place[7:0];
        onward_links = 29w0 ++ four[0:0] ++ two[0:0] ++ one[0:0];
    }

    action go_round() {
        hdr.ipv6.dst_addr = USID_BLOCK ++ meta.via ++ destination_node ++ host ++ 48w0;
    }

    apply {
        if (hdr.ipv6.dst_addr[127:96] == USID_BLOCK && destination_node < FIRST_HOST && host >= FIRST_HOST &&
            host < USID_LOCAL_FUNCTIONS && hdr.ipv6.dst_addr[63:0] == 0 && host_ports.apply().hit &&
            distances.apply().hit) {
            random<bit<32>>(meta.spread, 0, 0x7fffffff);
            shortest_way.apply();
            if (others != 0) {
                draw_node();
                measure_onward();
                if (onward_links != 0) {
                    detour_way.apply();
                }
            }
            if (around_links == 0 || direct * direct_links <= (around + threshold) * (around_links + onward_links)) {
                decisions.count(CHOSE_MIN);
                taken.count(direct_links);
            } else {
                decisions.count(CHOSE_VAL);
                taken.count(around_links + onward_links);
                go_round();
            }
        }
    }
}

#endif
