// SPDX-License-Identifier: Apache-2.0
// Telemetry of single flows: packets, bytes, ECN marks and a histogram of queuing delays, for the flows in a table only.
//
// A flow is a source address and the lower bits of the flow label (RFC 6437), which no uSID on the way changes. A sender labels
// packets only while its flow is to be watched, so all others cost one comparison. Counters are cumulative and never reset:
// whoever reads them takes differences, at any pace, and several may.

#ifndef DETOUR_FLOWS_P4
#define DETOUR_FLOWS_P4

control FlowWatch(inout headers_t hdr, in metadata_t meta, in standard_metadata_t std) {
    counter(MAX_WATCHED, CounterType.packets_and_bytes) passed;
    counter(MAX_WATCHED, CounterType.packets) marked;                  // by this switch
    counter(MAX_WATCHED * DELAY_CLASSES, CounterType.packets) waited;  // slot * DELAY_CLASSES + class
    bit<32> slot = 0;
    bit<32> left = 0;
    bit<32> octave = 0;
    bit<32> class = 0;

    action watch(bit<8> number) {
        slot = (bit<32>)number;
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

    // Two classes an octave: the integer part of the binary logarithm, and the bit behind the first one. Class 0 is below
    // 16 ticks, the last one from 2^19 on.
    action classify() {
        class = (octave << 1) + ((std.deq_timedelta >> (bit<8>)(octave + DELAY_SHIFT - 1)) & 1) + 1;
    }

    apply {
        if (hdr.ipv6.isValid() && hdr.ipv6.flow_label & FLOW_LABEL_MASK != 0) {
            if (watched.apply().hit) {
                passed.count(slot);
                if (meta.marked == 1) {
                    marked.count(slot);
                }
                left = std.deq_timedelta >> DELAY_SHIFT;
                if (left >= DELAY_LIMIT) {
                    class = DELAY_CLASSES - 1;
                } else if (left != 0) {
                    if (left >= 1 << 8) {
                        octave = octave + 8;
                        left = left >> 8;
                    }
                    if (left >= 1 << 4) {
                        octave = octave + 4;
                        left = left >> 4;
                    }
                    if (left >= 1 << 2) {
                        octave = octave + 2;
                        left = left >> 2;
                    }
                    if (left >= 1 << 1) {
                        octave = octave + 1;
                    }
                    classify();
                }
                waited.count(slot * DELAY_CLASSES + class);
            }
        }
    }
}

#endif
