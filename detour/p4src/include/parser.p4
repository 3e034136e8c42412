// SPDX-License-Identifier: Apache-2.0
// Parser and deparser. What is not understood stays payload and is carried on unread. So does what cannot be parsed: parsing
// ends there, and only a switch for which the packet is (usid.p4) makes anything of it (RFC 8200, section 4).

#ifndef DETOUR_PARSER_P4
#define DETOUR_PARSER_P4

error { BadSegmentList, BadVersion }

parser FabricParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }

    // A recirculated packet, which has lost the controller's header, has ingress port 0 and does not come here.
    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6, error.BadVersion);
        transition select(hdr.ipv6.next_hdr) {
            PROTO_HOP_BY_HOP: hop_by_hop;
            PROTO_ROUTING: routing;
            PROTO_IPV6: inner_ipv6;
            PROTO_UDP: udp;
            PROTO_DESTINATION_OPTIONS: options;
            default: accept;
        }
    }

    state hop_by_hop {
        transition select(packet.lookahead<bit<32>>()[23:0]) {
            TRANSIT_MEASUREMENT_ONLY: transit;
            default: options;
        }
    }

    state transit {
        packet.extract(hdr.transit);
        transition select(hdr.transit.next_hdr) {
            PROTO_ROUTING: routing;
            PROTO_IPV6: inner_ipv6;
            PROTO_UDP: udp;
            PROTO_DESTINATION_OPTIONS: options;
            default: accept;
        }
    }

    // A header of options is 8 octets and hdr_ext_len more units of 8.
    state options {
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<16>>()[7:0] * 64 + 48);
        transition select(hdr.options.next_hdr) {
            PROTO_ROUTING: routing;
            PROTO_IPV6: inner_ipv6;
            PROTO_UDP: udp;
            default: accept;
        }
    }

    state routing {
        transition select(packet.lookahead<bit<24>>()[7:0]) {
            ROUTING_TYPE_SRH: srh;
            default: accept;
        }
    }

    // An SRH is 8 octets and hdr_ext_len more units of 8; a segment takes two units.
    state srh {
        packet.extract(hdr.srh);
        transition select(hdr.srh.segments_left) {
            0: srh_done;
            default: srh_segments;
        }
    }

    // Of a longer SRH no more is needed than the next segment.
    state srh_segments {
        verify(hdr.srh.segments_left <= MAX_SEGMENTS, error.BadSegmentList);
        verify((bit<16>)hdr.srh.segments_left <= (bit<16>)hdr.srh.last_entry + 1, error.BadSegmentList);
        verify((bit<16>)hdr.srh.last_entry * 2 + 2 <= (bit<16>)hdr.srh.hdr_ext_len, error.BadSegmentList);
        packet.extract(hdr.segments_before, ((bit<32>)hdr.srh.segments_left - 1) * 128);
        packet.extract(hdr.next_segment);
        verify(hdr.srh.hdr_ext_len <= 2 * MAX_SEGMENTS, error.BadSegmentList);
        packet.extract(hdr.segments_after,
                       ((bit<32>)hdr.srh.hdr_ext_len - (bit<32>)hdr.srh.segments_left * 2) * 64);
        transition after_srh;
    }

    state srh_done {
        verify(hdr.srh.hdr_ext_len <= 2 * MAX_SEGMENTS, error.BadSegmentList);
        packet.extract(hdr.segments_after, (bit<32>)hdr.srh.hdr_ext_len * 64);
        transition after_srh;
    }

    state after_srh {
        transition select(hdr.srh.next_hdr) {
            PROTO_IPV6: inner_ipv6;
            PROTO_UDP: udp;
            default: accept;
        }
    }

    state inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        verify(hdr.inner_ipv6.version == 6, error.BadVersion);
        transition select(hdr.inner_ipv6.next_hdr) {
            PROTO_HOP_BY_HOP: inner_hop_by_hop;
            PROTO_UDP: udp;
            default: accept;
        }
    }

    state inner_hop_by_hop {
        transition select(packet.lookahead<bit<32>>()[23:0]) {
            TRANSIT_MEASUREMENT_ONLY: inner_transit;
            default: accept;
        }
    }

    state inner_transit {
        packet.extract(hdr.inner_transit);
        transition select(hdr.inner_transit.next_hdr) {
            PROTO_UDP: udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
#ifdef QCN
        transition select(hdr.udp.dst_port, hdr.udp.length) {
            (NOTIFICATION_PORT, NOTIFICATION_BYTES - 54): notification;
            default: accept;
        }
    }

    state notification {
        packet.extract(hdr.cnm);
#endif
        transition accept;
    }
}

control FabricDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.transit);
        packet.emit(hdr.options);
        packet.emit(hdr.srh);
        packet.emit(hdr.segments_before);
        packet.emit(hdr.next_segment);
        packet.emit(hdr.segments_after);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.inner_transit);
        packet.emit(hdr.udp);
#ifdef QCN
        packet.emit(hdr.cnm);
#endif
    }
}

#endif
