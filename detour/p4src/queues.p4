// SPDX-License-Identifier: Apache-2.0
// Measures queues from inside, for `detour reproduce queues`: the last byte of the destination address says which queue
// of port 2 a frame goes to, and egress adds up how long those of each queue waited, in ticks.

#include <core.p4>
#include <v1model.p4>

#define QUEUES 8

header ethernet_t {
    bit<40> dst;
    bit<8>  queue;
    bit<48> src;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

parser QueuesParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control QueuesVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control QueuesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        std.priority = hdr.ethernet.queue[2:0];
    }
}

control QueuesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<64>>(QUEUES) packets;
    register<bit<64>>(QUEUES) octets;
    register<bit<64>>(QUEUES) waited;
    register<bit<64>>(QUEUES) found;

    apply {
        bit<64> sum;
        bit<32> queue = (bit<32>) std.priority;
        packets.read(sum, queue);
        packets.write(queue, sum + 1);
        octets.read(sum, queue);
        octets.write(queue, sum + (bit<64>) std.packet_length);
        waited.read(sum, queue);
        waited.write(queue, sum + (bit<64>) std.deq_timedelta);
        found.read(sum, queue);
        found.write(queue, sum + (bit<64>) std.enq_qdepth);
    }
}

control QueuesComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control QueuesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(
    QueuesParser(), QueuesVerifyChecksum(), QueuesIngress(), QueuesEgress(), QueuesComputeChecksum(), QueuesDeparser()
) main;
