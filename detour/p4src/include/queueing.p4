// SPDX-License-Identifier: Apache-2.0
// Priorities and virtual channels, accumulated queuing delay, ECN marks.

#ifndef DETOUR_QUEUEING_P4
#define DETOUR_QUEUEING_P4

control Qos(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action set_priority(bit<3> priority) {
        std.priority = priority;
    }

    table dscp {
        key = { hdr.ipv6.dscp: exact; }
        actions = { set_priority; }
        default_action = set_priority(0);
        size = 64;
    }

    action set_channel(bit<6> dscp, bit<3> priority) {
        hdr.ipv6.dscp = dscp;
        std.priority = priority;
    }

    // Where packets change to another lossless class between two ports: the virtual channel (DSCP) rises by one when a
    // packet comes in over a global link. Overrules the priority of the DSCP that it came with.
    table channel {
        key = {
            hdr.ipv6.dscp: exact;
            meta.in_port: ternary;
            std.egress_spec: ternary;
        }
        actions = { set_channel; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        dscp.apply();
        // Not in the rounds before the last, nor on what the controller is to see as it came.
        if (meta.verdict == FORWARD) {
            channel.apply();
        }
    }
}

// Per-switch differences are added, never timestamps: clocks are not synchronised (paper, section III).
control Telemetry(inout headers_t hdr, in standard_metadata_t std) {
    apply {
        if (hdr.transit.isValid()) {
            hdr.transit.delay = hdr.transit.delay |+| std.deq_timedelta;
        }
    }
}

control Ecn(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    counter(MAX_PORTS, CounterType.packets_and_bytes) ecn_marked;

    // DCTCP: mark when the queue that the packet found held more than k packets (RFC 8257).
    action step(bit<19> k) {
        if (std.enq_qdepth > k) {
            meta.marked = 1;
        }
    }

    // DCQCN: none up to kmin, all above kmax, in between with a probability that rises by slope / 2^32 a packet.
    action red(bit<19> kmin, bit<19> kmax, bit<32> slope) {
        bit<32> draw;
        random<bit<32>>(draw, 0, 0xffffffff);
        if (std.enq_qdepth > kmax) {
            meta.marked = 1;
        } else if (std.enq_qdepth > kmin && draw < (bit<32>)(std.enq_qdepth - kmin) * slope) {
            meta.marked = 1;
        }
    }

    table marking {
        key = { std.egress_port: exact; }
        actions = { step; red; @defaultonly NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        if (hdr.ipv6.isValid() && hdr.ipv6.ecn != 0) {
            marking.apply();
            if (meta.marked == 1) {
                hdr.ipv6.ecn = 3;
                ecn_marked.count((bit<32>)std.egress_port);
            }
        }
    }
}

#endif
