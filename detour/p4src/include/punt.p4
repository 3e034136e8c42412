// SPDX-License-Identifier: Apache-2.0
// What this switch knows of itself, access rules, and the end of ingress: forward, drop and count, or ask the controller.

#ifndef DETOUR_PUNT_P4
#define DETOUR_PUNT_P4

control Node(inout metadata_t meta) {
    action set_node(bit<16> node_id, bit<16> group, bit<16> groups) {
        meta.node_id = node_id;
        meta.group = group;
        meta.groups = groups;
    }

    table config {
        actions = { set_node; }
        default_action = set_node(0, 0, 0);
    }

    apply {
        config.apply();
    }
}

control Acl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) acl_counter;

    action permit() {
        acl_counter.count();
    }

    action deny() {
        acl_counter.count();
        meta.verdict = DROP_ACL;
    }

    action punt() {
        acl_counter.count();
        meta.verdict = PUNT_ACL;
    }

    action copy_to_cpu() {
        acl_counter.count();
        meta.copy = 1;
    }

    table rules {
        key = {
            meta.in_port: ternary @name("std.ingress_port"); // holds in later rounds, too
            hdr.ethernet.ether_type: ternary;
            hdr.ipv6.src_addr: ternary;
            hdr.ipv6.dst_addr: ternary;
            hdr.ipv6.next_hdr: ternary;
            hdr.udp.dst_port: range;
        }
        actions = { permit; deny; punt; copy_to_cpu; @defaultonly NoAction; }
        default_action = NoAction();
        counters = acl_counter;
        size = 1024;
    }

    apply {
        rules.apply();
        // One copy of a packet, however often it goes round. A packet of the controller's has lost its header after the
        // first round, but BMv2 would parse the copy as if it still were there.
        if (meta.copy == 1 && meta.copied == 0 && (meta.in_port != CPU_PORT || std.instance_type != INSTANCE_RECIRCULATED)) {
            meta.copied = 1;
            clone_preserving_field_list(CloneType.I2E, CPU_COPY_SESSION, KEEP_ON_COPY);
        }
    }
}

control Verdict(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(REASONS, CounterType.packets_and_bytes) reasons;
    meter(REASONS, MeterType.packets) punt_meter;

    action drop() {
        mark_to_drop(std);
    }

    action to_cpu() {
        std.egress_spec = CPU_PORT;
    }

    apply {
        if (meta.verdict != FORWARD) {
            if (meta.verdict == AGAIN) {
                meta.passes = meta.passes + 1;
                if (meta.passes > 5) {
                    meta.verdict = DROP_SID_LOOP;
                } else {
                    std.egress_spec = RECIRCULATION_PORT;
                }
            }
            if (meta.verdict == PUNT_HOP_LIMIT || meta.verdict == PUNT_SID_EXHAUSTED || meta.verdict == PUNT_ACL ||
                meta.verdict == PUNT_NO_ROUTE || meta.verdict == PUNT_BAD_SRH) {
                bit<2> color = 0;
                punt_meter.execute_meter((bit<32>)meta.verdict, color);
                if (color == 0) {
                    to_cpu();
                } else {
                    meta.verdict = DROP_PUNT_LIMIT;
                    drop();
                }
            } else if (meta.verdict != AGAIN) {
                drop();
            }
        }
        reasons.count((bit<32>)meta.verdict);
    }
}

#endif
