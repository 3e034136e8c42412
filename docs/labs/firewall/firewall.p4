// SPDX-License-Identifier: Apache-2.0
// A stateful firewall: who is inside may open connections (TCP and UDP), and what belongs to one may come back. The
// connections are remembered in two registers by two hashes (a Bloom filter).

#include <core.p4>
#include <v1model.p4>

const bit<16> IPV4 = 0x0800;
const bit<8>  TCP = 6;
const bit<8>  UDP = 17;
const bit<32> CELLS = 4096;

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
    bit<1>  connection;   // TCP or UDP
    bit<1>  outside;      // where it came from
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
        meta.connection = 1;
        transition accept;
    }
    state udp {
        packet.extract(hdr.udp);
        meta.sport = hdr.udp.sport;
        meta.dport = hdr.udp.dport;
        meta.connection = 1;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LabIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<1>>(CELLS) first;
    register<bit<1>>(CELLS) second;
    counter(2, CounterType.packets) outcome;   // 0: passed, 1: refused

    bit<32> at1;
    bit<32> at2;

    action drop() {
        mark_to_drop(std);
    }
    action forward(bit<48> mac, bit<9> port) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action from_outside() {
        meta.outside = 1;
    }
    // Cells of a connection as its first packet has it.
    action cells(bit<32> src, bit<32> dst, bit<16> sport, bit<16> dport) {
        hash(at1, HashAlgorithm.crc32, (bit<32>) 0, { src, dst, hdr.ipv4.protocol, sport, dport }, CELLS);
        hash(at2, HashAlgorithm.crc16, (bit<32>) 0, { src, dst, hdr.ipv4.protocol, sport, dport }, CELLS);
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 64;
    }
    table outside_ports {
        key = { std.ingress_port: exact; }
        actions = { from_outside; NoAction; }
        default_action = NoAction();
        size = 16;
    }
    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl < 2) {
            drop();
            return;
        }
        routes.apply();
        outside_ports.apply();
        if (meta.connection == 1) {
            if (meta.outside == 0) {
                cells(hdr.ipv4.src, hdr.ipv4.dst, meta.sport, meta.dport);
                if (!hdr.tcp.isValid() || hdr.tcp.flags & 2 != 0) {   // UDP, or TCP's SYN
                    first.write(at1, 1);
                    second.write(at2, 1);
                }
            } else {
                cells(hdr.ipv4.dst, hdr.ipv4.src, meta.dport, meta.sport);
                bit<1> known1;
                bit<1> known2;
                first.read(known1, at1);
                second.read(known2, at2);
                if (known1 == 0 || known2 == 0) {
                    outcome.count(1);
                    drop();
                    return;
                }
            }
        }
        outcome.count(0);
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
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), LabIngress(), LabEgress(), Update(), Deparse()) main;
