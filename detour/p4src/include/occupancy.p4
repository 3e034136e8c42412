// SPDX-License-Identifier: Apache-2.0
// How many packets wait at every port, as ingress sees it on any v1model target: what the last packet that left a queue left
// behind, and those that were sent there since.

#ifndef DETOUR_OCCUPANCY_P4
#define DETOUR_OCCUPANCY_P4

#define CLASSES 8

register<bit<32>>(MAX_PORTS * CLASSES) waiting; // packets in the queue of a port and class
register<bit<32>>(MAX_PORTS) port_load;         // packets at a port, the sum over its classes
register<bit<32>>(1) links_load;                // the sum over this switch's links to other groups
register<bit<8>>(1) congested;                  // bit k: of those links the k-th is (Piggyback)

// Adds up what waits at the links to other groups.
control LinksOut(in port_t port, in bit<32> change, in bit<32> load, inout bit<8> mask, inout bit<1> told) {
    bit<32> total = 0;
    bit<32> count = 0;
    bit<32> margin = 0;
    port_t first = 1;
    port_t last = 0;

    // `remote` packets more than twice the mean are congestion; 0: nobody asks.
    action links(port_t first_port, port_t last_port, bit<16> remote) {
        first = first_port;
        last = last_port;
        count = (bit<32>)(last_port - first_port) + 1;
        margin = (bit<32>)remote * count;
        told = (bit<1>)(remote != 0);
    }

    // The ports that lead to other groups.
    table links_out {
        actions = { links; @defaultonly NoAction; }
        default_action = NoAction();
    }

    // All times the number of links, so that nothing is divided.
    action judge() {
        bit<8> place = 8w1 << (bit<8>)(port - first);
        mask = mask & ~place;
        if (count * load > 2 * total + margin) {
            mask = mask | place;
        }
        congested.write(0, mask);
    }

    apply {
        links_out.apply();
        if (told == 1) {
            congested.read(mask, 0);
        }
        if (port >= first && port <= last) {
            links_load.read(total, 0);
            total = total + change;
            links_load.write(0, total);
            if (told == 1) {
                judge();
            }
        }
    }
}

control Arriving(in standard_metadata_t std) {
    LinksOut() links;
    bit<32> packets = 0;
    bit<8> mask = 0;
    bit<1> told = 0;

    apply {
        bit<32> queue = ((bit<32>)std.egress_spec << 3) + (bit<32>)std.priority;
        waiting.read(packets, queue);
        waiting.write(queue, packets + 1);
        port_load.read(packets, (bit<32>)std.egress_spec);
        packets = packets + 1;
        port_load.write((bit<32>)std.egress_spec, packets);
        links.apply(std.egress_spec, 1, packets, mask, told);
    }
}

control Leaving(inout headers_t hdr, in standard_metadata_t std) {
    LinksOut() links;
    bit<32> change = 0;
    bit<32> packets = 0;
    bit<8> mask = 0;
    bit<1> told = 0;

    apply {
        bit<32> queue = ((bit<32>)std.egress_port << 3) + (bit<32>)std.priority;
        waiting.read(packets, queue);
        waiting.write(queue, (bit<32>)std.deq_qdepth);
        change = (bit<32>)std.deq_qdepth - packets;
        port_load.read(packets, (bit<32>)std.egress_port);
        packets = packets + change;
        port_load.write((bit<32>)std.egress_port, packets);
        links.apply(std.egress_port, change, packets, mask, told);
        if (told == 1 && hdr.ipv6.isValid() && hdr.ipv6.src_addr[127:112] == HOST_PREFIX) {
            hdr.ipv6.flow_label[7:0] = mask; // for the next switch
        }
    }
}

#endif
