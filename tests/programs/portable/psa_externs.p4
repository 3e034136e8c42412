// SPDX-License-Identifier: Apache-2.0
// PSA's externs: what they give goes back to the sender.
#include <core.p4>
#include <bmv2/psa.p4>

header ipv4_t {
    bit<16> version_and_length;
    bit<16> total;
    bit<32> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> sum;
    bit<32> source;
    bit<32> destination;
}

header results_t {
    bit<16> hash;
    bit<32> modulo;
    bit<32> last;
    bit<8>  colour;
    bit<8>  drawn;
    bit<8>  valid;
    bit<16> before;
}

struct empty_t { }
struct meta_t { bit<16> sum; bit<16> hop; }
struct headers_t { ipv4_t ip; results_t results; }

parser MyIngressParser(packet_in b, out headers_t h, inout meta_t m, in psa_ingress_parser_input_metadata_t i,
                     in empty_t resubmitted, in empty_t recirculated) {
    InternetChecksum() sum;
    state start {
        b.extract(h.ip);
        sum.clear();
        sum.add({h.ip.version_and_length, h.ip.total, h.ip.fragment, h.ip.ttl, h.ip.protocol, h.ip.source,
                 h.ip.destination});
        m.sum = sum.get();
        transition accept;
    }
}

control MyIngress(inout headers_t h, inout meta_t m, in psa_ingress_input_metadata_t i,
                inout psa_ingress_output_metadata_t o) {
    Counter<bit<64>, bit<8>>(256, PSA_CounterType_t.PACKETS_AND_BYTES) counter;
    Meter<bit<8>>(256, PSA_MeterType_t.PACKETS) meter;
    Register<bit<32>, bit<8>>(256) register;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc;
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc32;
    Random<bit<8>>(3, 5) random;
    apply {
        counter.count(h.ip.protocol);
        h.results.setValid();
        h.results.hash = crc.get_hash({h.ip.source, h.ip.destination});
        h.results.modulo = crc32.get_hash(32w100, {h.ip.source, h.ip.destination}, 32w7);
        h.results.last = register.read(h.ip.protocol);
        register.write(h.ip.protocol, h.ip.source);
        h.results.colour = 0;
        if (meter.execute(h.ip.protocol) == PSA_MeterColor_t.GREEN) { h.results.colour = 1; }
        h.results.drawn = random.read();
        h.results.valid = 0;
        if (m.sum == h.ip.sum) { h.results.valid = 1; }
        h.results.before = h.ip.sum;
        h.ip.ttl = h.ip.ttl - 1;
        m.hop = 0x0100;
        send_to_port(o, i.ingress_port);
    }
}

control MyIngressDeparser(packet_out b, out empty_t clone, out empty_t resubmitted, out empty_t normal,
                        inout headers_t h, in meta_t m, in psa_ingress_output_metadata_t o) {
    InternetChecksum() sum;
    apply {
        sum.clear();
        sum.subtract({h.results.before});
        sum.subtract({m.hop});
        h.ip.sum = sum.get();
        b.emit(h);
    }
}

parser MyEgressParser(packet_in b, out headers_t h, inout meta_t m, in psa_egress_parser_input_metadata_t i,
                    in empty_t normal, in empty_t from_ingress, in empty_t from_egress) {
    state start { transition accept; }
}

control MyEgress(inout headers_t h, inout meta_t m, in psa_egress_input_metadata_t i,
               inout psa_egress_output_metadata_t o) {
    apply { }
}

control MyEgressDeparser(packet_out b, out empty_t clone, out empty_t recirculated, inout headers_t h, in meta_t m,
                       in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t d) {
    apply { }
}

IngressPipeline(MyIngressParser(), MyIngress(), MyIngressDeparser()) ip;
EgressPipeline(MyEgressParser(), MyEgress(), MyEgressDeparser()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
