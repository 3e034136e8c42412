// SPDX-License-Identifier: Apache-2.0
// How many packets wait at every port, as ingress sees it on any v1model target: what the last packet that left a queue left
// behind, and those that were sent there since.

#ifndef DETOUR_OCCUPANCY_P4
#define DETOUR_OCCUPANCY_P4

#define CLASSES 8

register<bit<32>>(MAX_PORTS * CLASSES) waiting; // packets in the queue of a port and class
register<bit<32>>(MAX_PORTS) port_load;         // packets at a port, the sum over its classes

control Arriving(in standard_metadata_t std) {
    bit<32> packets = 0;

    apply {
        bit<32> queue = ((bit<32>)std.egress_spec << 3) + (bit<32>)std.priority;
        waiting.read(packets, queue);
        waiting.write(queue, packets + 1);
        port_load.read(packets, (bit<32>)std.egress_spec);
        port_load.write((bit<32>)std.egress_spec, packets + 1);
    }
}

control Leaving(in standard_metadata_t std) {
    bit<32> before = 0;
    bit<32> packets = 0;

    apply {
        bit<32> queue = ((bit<32>)std.egress_port << 3) + (bit<32>)std.priority;
        waiting.read(before, queue);
        waiting.write(queue, (bit<32>)std.deq_qdepth);
        port_load.read(packets, (bit<32>)std.egress_port);
        port_load.write((bit<32>)std.egress_port, packets + (bit<32>)std.deq_qdepth - before);
    }
}

#endif
