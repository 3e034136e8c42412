// SPDX-License-Identifier: Apache-2.0
// Packet trimming (NDP, SIGCOMM 2017). Whether its queue is full a packet learns behind ingress, so ingress says what is to
// happen then. The engine's traffic manager reads three metadata fields by their names: a packet without room is cut to
// `trim_to` bytes (0: dropped) and joins the queue `trim_priority`; `trimmed` tells egress how many bytes are gone. BMv2's
// traffic manager knows no such fields: there the packet is dropped.

#ifndef DETOUR_TRIMMING_P4
#define DETOUR_TRIMMING_P4

const bit<6> TRIMMED_DSCP = 50;

control Trimming(in headers_t hdr, inout metadata_t meta) {
    action trim(bit<16> bytes, bit<3> priority) {
        meta.trim_to = bytes;
        meta.trim_priority = priority;
    }

    table classes {
        key = { hdr.ipv6.dscp: exact; }
        actions = { trim; @defaultonly NoAction; }
        default_action = NoAction();
        size = 64;
    }

    apply {
        classes.apply();
    }
}

// The lengths in IPv6 headers are those of what is left; UDP's still says what there was.
control Trimmed(inout headers_t hdr, in metadata_t meta) {
    apply {
        if (meta.trimmed != 0) {
            hdr.ipv6.dscp = TRIMMED_DSCP;
            hdr.ipv6.payload_len = hdr.ipv6.payload_len - meta.trimmed;
            if (hdr.inner_ipv6.isValid()) {
                hdr.inner_ipv6.dscp = TRIMMED_DSCP;
                hdr.inner_ipv6.payload_len = hdr.inner_ipv6.payload_len - meta.trimmed;
            }
        }
    }
}

#endif
