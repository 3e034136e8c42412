// SPDX-License-Identifier: Apache-2.0
// How many packets wait at every port, as ingress sees it on any v1model target: what the last packet that left a queue left
// behind, and those that were sent there since.

#ifndef DETOUR_OCCUPANCY_P4
#define DETOUR_OCCUPANCY_P4

#define CLASSES 8

register<bit<32>>(MAX_PORTS * CLASSES) waiting; // packets in the queue of a port and class
register<bit<32>>(MAX_PORTS) port_load;         // packets at a port, the sum over its classes
register<bit<32>>(1) links_load;                // the sum over this switch's links to other groups

control Arriving(in standard_metadata_t std) {
    bit<32> packets = 0;
    port_t first = 1;
    port_t last = 0;

    action links(port_t first_port, port_t last_port) {
        first = first_port;
        last = last_port;
    }

    // The ports that lead to other groups.
    table links_out {
        actions = { links; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> queue = ((bit<32>)std.egress_spec << 3) + (bit<32>)std.priority;
        waiting.read(packets, queue);
        waiting.write(queue, packets + 1);
        port_load.read(packets, (bit<32>)std.egress_spec);
        port_load.write((bit<32>)std.egress_spec, packets + 1);
        links_out.apply();
        if (std.egress_spec >= first && std.egress_spec <= last) {
            links_load.read(packets, 0);
            links_load.write(0, packets + 1);
        }
    }
}

control Leaving(in standard_metadata_t std) {
    bit<32> change = 0;
    bit<32> packets = 0;
    port_t first = 1;
    port_t last = 0;

    action links(port_t first_port, port_t last_port) {
        first = first_port;
        last = last_port;
    }

    table links_out {
        actions = { links; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> queue = ((bit<32>)std.egress_port << 3) + (bit<32>)std.priority;
        waiting.read(packets, queue);
        waiting.write(queue, (bit<32>)std.deq_qdepth);
        change = (bit<32>)std.deq_qdepth - packets;
        port_load.read(packets, (bit<32>)std.egress_port);
        port_load.write((bit<32>)std.egress_port, packets + change);
        links_out.apply();
        if (std.egress_port >= first && std.egress_port <= last) {
            links_load.read(packets, 0);
            links_load.write(0, packets + change);
        }
    }
}

#endif
