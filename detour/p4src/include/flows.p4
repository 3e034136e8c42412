// SPDX-License-Identifier: Apache-2.0
// Telemetry of single flows: packets, bytes, ECN marks and a histogram of queuing delays, for the flows in a table only.
//
// A flow is a source address and the lower bits of the flow label (RFC 6437), which no uSID on the way changes. A sender labels
// packets only while its flow is to be watched, so all others cost one comparison. Counters are cumulative and never reset:
// whoever reads them takes differences, at any pace, and several may.

#ifndef DETOUR_FLOWS_P4
#define DETOUR_FLOWS_P4

control FlowWatch(inout headers_t hdr, in metadata_t meta, in standard_metadata_t std) {
    counter(2 * MAX_WATCHED, CounterType.packets_and_bytes) passed;    // 2 * slot, + 1 if this switch marked the packet
    counter(MAX_WATCHED * DELAY_CLASSES, CounterType.packets) waited;  // slot * DELAY_CLASSES + class
    // Few and narrow: what is kept of every packet costs all of them, watched or not.
    bit<8> class = 0;
    bit<16> left = 0;

    action watch(bit<8> slot) {
        passed.count(((bit<32>)slot << 1) + (bit<32>)meta.marked);
        waited.count((bit<32>)slot * DELAY_CLASSES + (bit<32>)class);
    }

    table watched {
        key = {
            hdr.ipv6.src_addr: exact;
            hdr.ipv6.flow_label & FLOW_LABEL_MASK: exact @name("flow_label");
        }
        actions = { watch; @defaultonly NoAction; }
        default_action = NoAction();
        size = MAX_WATCHED;
    }

    // The bit behind the first one: two classes an octave. `class` is 1 + 2 * octave.
    action upper_half() {
        class = class + (bit<8>)((std.deq_timedelta >> ((class >> 1) + DELAY_SHIFT - 1)) & 1);
    }

    apply {
        if (hdr.ipv6.isValid() && hdr.ipv6.flow_label & FLOW_LABEL_MASK != 0) {
            // Class 0 is below 16 ticks, the last one from 2^19 on; in between the binary logarithm.
            if (std.deq_timedelta >= DELAY_LIMIT) {
                class = DELAY_CLASSES - 1;
            } else if (std.deq_timedelta >= 1 << DELAY_SHIFT) {
                class = 1;
                left = (bit<16>)(std.deq_timedelta >> DELAY_SHIFT);
                if (left >= 1 << 8) {
                    class = class + 16;
                    left = left >> 8;
                }
                if (left >= 1 << 4) {
                    class = class + 8;
                    left = left >> 4;
                }
                if (left >= 1 << 2) {
                    class = class + 4;
                    left = left >> 2;
                }
                if (left >= 1 << 1) {
                    class = class + 2;
                }
                upper_half();
            }
            watched.apply();
        }
    }
}

#endif
