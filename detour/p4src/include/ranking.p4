// SPDX-License-Identifier: Apache-2.0
// In which order packets leave a queue. The engine's queues go by metadata field queue_rank, the lowest first (PIFO: Sivaraman
// et al., SIGCOMM 2016), queues that take turns among each other too; BMv2's know no such field.

#ifndef DETOUR_RANKING_P4
#define DETOUR_RANKING_P4

control Ranking(in headers_t hdr, inout metadata_t meta, in standard_metadata_t std) {
    // What has waited longest, at the host and at the switches before this one, goes first (FIFO+: Clark, Shenker and Zhang,
    // SIGCOMM 1992): its rank is when it would have come in had it never waited, from the longest delay that the option holds
    // on, so that none is negative. Clocks need not agree.
    action oldest_first() {
        bit<32> waited = 0;
        if (hdr.transit.isValid()) {
            waited = hdr.transit.delay;
        }
        meta.queue_rank = std.ingress_global_timestamp + (bit<48>)(0xffffffff - waited);
    }

    table order {
        actions = { oldest_first; NoAction; }
        default_action = NoAction();
    }

    apply {
        order.apply();
    }
}

#endif
