// SPDX-License-Identifier: Apache-2.0
// A load balancer: flows to one virtual address go to one of several servers, chosen by a hash of the flow, and what
// servers answer comes from the virtual address again.

#include <core.p4>
#include <v1model.p4>

const bit<16> IPV4 = 0x0800;
const bit<8>  TCP = 6;
const bit<8>  UDP = 17;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  words;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<16> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;   // of TCP's or UDP's header and payload
    bit<16> server;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) {
            IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.length = hdr.ipv4.length - 20;
        transition select(hdr.ipv4.words, hdr.ipv4.protocol) {
            (5, TCP): tcp;
            (5, UDP): udp;
            default: accept;
        }
    }
    state tcp {
        packet.extract(hdr.tcp);
        meta.sport = hdr.tcp.sport;
        meta.dport = hdr.tcp.dport;
        transition accept;
    }
    state udp {
        packet.extract(hdr.udp);
        meta.sport = hdr.udp.sport;
        meta.dport = hdr.udp.dport;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LabIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) to_server;

    action drop() {
        mark_to_drop(std);
    }
    action balance(bit<16> servers) {
        hash(meta.server, HashAlgorithm.crc32, (bit<16>) 0,
            { hdr.ipv4.src, hdr.ipv4.protocol, meta.sport, meta.dport }, servers);
    }
    action to(bit<32> address) {
        hdr.ipv4.dst = address;
        to_server.count((bit<32>) meta.server);
    }
    action answer_as(bit<32> address) {
        hdr.ipv4.src = address;
    }
    action forward(bit<48> mac, bit<9> port) {
        std.egress_spec = port;
        hdr.ethernet.dst = mac;
    }
    // Which addresses are virtual, and how many servers stand behind them.
    table services {
        key = { hdr.ipv4.dst: exact; }
        actions = { balance; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    table servers {
        key = { meta.server: exact; }
        actions = { to; drop; }
        default_action = drop();
        size = 16;
    }
    // What a server sends from the service's port.
    table answers {
        key = { hdr.ipv4.src: exact; meta.sport: exact; }
        actions = { answer_as; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table hosts {
        key = { hdr.ipv4.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    apply {
        if (hdr.ipv4.isValid()) {
            if (services.apply().hit) {
                servers.apply();
            } else {
                answers.apply();
            }
            hosts.apply();
        } else {
            drop();
        }
    }
}

control LabEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.words, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.tcp.isValid(),
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.length, hdr.tcp.sport, hdr.tcp.dport,
              hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, meta.length, hdr.udp.sport, hdr.udp.dport,
              hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), LabIngress(), LabEgress(), Update(), Deparse()) main;
