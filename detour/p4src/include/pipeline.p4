// SPDX-License-Identifier: Apache-2.0
// The two pipelines put together. The program says who chooses the way to other groups: control CHOOSER, called CHOOSER_NAME.

#ifndef DETOUR_PIPELINE_P4
#define DETOUR_PIPELINE_P4

control FabricIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(MAX_PORTS, CounterType.packets_and_bytes) port_rx;
    counter(MAX_PORTS, CounterType.packets_and_bytes) port_enqueued;
    Node() node;
    Acl() acl;
    Usid() usid;
    Spread() spread;
    CHOOSER() CHOOSER_NAME;
    Router() router;
#ifdef QCN
    Sidestep() sidestep;
    Reaction() reaction;
    Arriving() arriving;
#endif
    Qos() qos;
#ifdef RANK
    Ranking() ranking;
#endif
#ifdef TRIM
    Trimming() trimming;
#endif
    Verdict() verdict;

    apply {
        node.apply(meta);
        if (std.instance_type != INSTANCE_RECIRCULATED) {
            meta.in_port = std.ingress_port;
        }
        if (hdr.packet_out.isValid() && hdr.packet_out.egress_port != 0) {
            // The controller names the port: nothing else touches its packet.
            std.egress_spec = (bit<9>)hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            return;
        }
        hdr.packet_out.setInvalid();
        if (std.instance_type != INSTANCE_RECIRCULATED) {
            port_rx.count((bit<32>)std.ingress_port);
        }
        // What lies behind the IPv6 header is no business of a switch that the packet is not for.
        if (!hdr.ipv6.isValid()) {
            meta.verdict = DROP_NOT_IPV6;
            if (std.parser_error != error.NoError) {
                meta.verdict = DROP_MALFORMED;
            }
        } else if (hdr.ipv6.version != 6 ||
                   std.packet_length < (bit<32>)hdr.ipv6.payload_len + L2_AND_IPV6_BYTES) {
            meta.verdict = DROP_MALFORMED;
        } else if (hdr.ipv6.src_addr[127:112] != HOST_PREFIX && IS_NO_SOURCE(hdr.ipv6.src_addr)) {
            meta.verdict = DROP_SCOPE;
        }
        acl.apply(hdr, meta, std);
        if (meta.verdict == FORWARD) {
            usid.apply(hdr, meta, std);
        }
        if (meta.verdict == FORWARD && meta.port_chosen == 0) {
            spread.apply(hdr, meta);
            CHOOSER_NAME.apply(hdr, meta, std);
        }
        if (meta.verdict == FORWARD && meta.port_chosen == 0) {
            router.apply(hdr, meta, std);
        }
#ifdef QCN
        sidestep.apply(hdr, meta, std);
        reaction.apply(hdr, meta, std);
#endif
        qos.apply(hdr, meta, std);
#ifdef RANK
        ranking.apply(hdr, meta, std);
#endif
#ifdef TRIM
        trimming.apply(hdr, meta);
#endif
        verdict.apply(hdr, meta, std);
        if (std.egress_spec != DROP_PORT) {
            port_enqueued.count((bit<32>)std.egress_spec);
#ifdef QCN
            arriving.apply(std);
#endif
        }
    }
}

control FabricEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(MAX_PORTS, CounterType.packets_and_bytes) port_tx;
#ifdef QCN
    Leaving() leaving;
    CongestionPoint() congestion;
    Notification() notification;
#endif
    Telemetry() telemetry;
    Ecn() ecn;
    FlowWatch() flows;
#ifdef TRIM
    Trimmed() trimmed;
#endif

    apply {
#ifdef QCN
        leaving.apply(hdr, std);
#endif
        if (std.egress_port == RECIRCULATION_PORT) {
#ifdef QCN
            if (std.instance_type == INSTANCE_EGRESS_CLONE) {
                notification.apply(hdr, meta, std);
            }
#endif
            recirculate_preserving_field_list(KEEP_ON_RECIRCULATION);
        } else if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (bit<16>)meta.in_port;
            hdr.packet_in.reason = (bit<16>)meta.verdict;
            if (std.instance_type == INSTANCE_INGRESS_CLONE) {
                hdr.packet_in.reason = (bit<16>)PUNT_ACL;
            }
        } else {
#ifdef QCN
            congestion.apply(hdr, meta, std);
#endif
#ifdef TRIM
            trimmed.apply(hdr, meta);
#endif
            telemetry.apply(hdr, std);
            ecn.apply(hdr, meta, std);
            flows.apply(hdr, meta, std);
        }
        port_tx.count((bit<32>)std.egress_port);
    }
}

control FabricVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

// IPv6 has no header checksum, and the senders compute UDP checksums over the final destination address.
control FabricComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

V1Switch(FabricParser(), FabricVerifyChecksum(), FabricIngress(), FabricEgress(), FabricComputeChecksum(),
         FabricDeparser()) main;

#endif
