// SPDX-License-Identifier: Apache-2.0
// What P4Info shows in unusual ways: translated types, errors as keys, value sets that do not match exactly,
// digests of tuples, tables and profiles that no packet reaches, names that annotations change.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("test/port", 32)
type bit<9> port_number_t;
@p4runtime_translation("test/name", string)
type bit<16> port_name_t;
enum bit<8> kind_t { FIRST = 1, SECOND = 2 }

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t { ethernet_t ethernet; }
struct meta_t {
    port_number_t port;
    port_name_t name;
    kind_t kind;
    bool flag;
    error problem;
}
struct pair_t {
    @match(ternary) bit<16> ether_type;
    bit<16> low;
}

struct both_t {
    bit<16> ether_type;
    bit<48> address;
}

parser TheParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<pair_t>(4) pairs;
    value_set<both_t>(4) both;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type, hdr.ethernet.src_addr[15:0]) {
            pairs: other;
            default: more;
        }
    }
    state more {
        transition select(hdr.ethernet.ether_type, hdr.ethernet.dst_addr) {
            both: other;
            default: accept;
        }
    }
    state other {
        meta.flag = true;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) { apply {} }
control Update(inout headers_t hdr, inout meta_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    register<int<16>>(4) signed_words;

    action drop() { mark_to_drop(std); }
    action to(port_number_t port) { std.egress_spec = (bit<9>)port; }
    action rename(port_name_t name) { meta.name = name; }
    action learn() { digest(1, { hdr.ethernet.src_addr, std.ingress_port }); }

    @name(".top_level")
    table renamed {
        key = { hdr.ethernet.dst_addr: exact @name("mac address"); }
        actions = { to; drop; learn; @name(".nothing") NoAction; }
        default_action = learn();
    }
    table by_type {
        key = {
            meta.port: exact;
            meta.kind: exact;
            meta.flag: exact;
            meta.problem: exact;
        }
        actions = { to; drop; rename; }
        default_action = drop();
    }
    table by_name {
        key = { meta.name: exact; }
        actions = { drop; NoAction; }
        default_action = NoAction();
    }
    table unreachable {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { drop; }
        default_action = drop();
    }
    action_profile(32w4) unused;
    table balanced {
        key = { hdr.ethernet.dst_addr: exact; hdr.ethernet.src_addr: selector; }
        actions = { to; drop; }
        @name("nested.choice") implementation = action_selector(HashAlgorithm.crc16, 32w128, 32w16);
    }
    apply {
        meta.port = (port_number_t)std.ingress_port;
        meta.kind = kind_t.FIRST;
        meta.problem = std.parser_error;
        renamed.apply();
        by_type.apply();
        by_name.apply();
        balanced.apply();
        if (false) {
            unreachable.apply();
        }
        int<16> word;
        signed_words.read(word, 0);
        signed_words.write(1, word - 1);
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {} }
control TheDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }

V1Switch(TheParser(), Verify(), MyIngress(), MyEgress(), Update(), TheDeparser()) main;
