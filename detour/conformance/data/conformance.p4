// SPDX-License-Identifier: Apache-2.0
// One object of every kind that P4Runtime can name, and ways to the controller that need no port: a packet-out to port 0
// goes through the tables, one to port 510 comes back, and so does every copy that is made for port 510.
// p4c-bm2-ss --arch v1model --Wdisable -I ../../../tests/programs/corpus --p4runtime-files conformance.p4info.txtpb
//     -o conformance.json conformance.p4
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<1> is_clone;
    bit<6> _pad;
    bit<32> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> _pad;
}

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv6_t {
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src_addr;
    bit<128> dst_addr;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    ipv6_t ipv6;
}

@p4runtime_translation("conformance/place", 32)
type bit<9> place_t;

struct meta_t {
    bit<8> colour;
    bit<12> vlan;
    bit<1> flag;
    bit<32> word;
    place_t place;
}

struct learn_t {
    bit<48> address;
    bit<9> port;
}

parser TheParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) ipv6_types;
    state start {
        transition select(std.ingress_port) {
            510: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ipv6_types: parse_ipv6;
            0x86dd: parse_ipv6;
            default: accept;
        }
    }
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) { apply {} }
control Update(inout headers_t hdr, inout meta_t meta) { apply {} }

control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    counter(64, CounterType.packets_and_bytes) port_counter;
    counter(16, CounterType.packets) packet_counter;
    meter(8, MeterType.bytes) rate;
    register<bit<48>>(32) words;
    register<bit<8>>(4) octets;
    register<int<12>>(4) temperatures;
    direct_counter(CounterType.packets_and_bytes) route_counter;
    direct_counter(CounterType.packets) fixed_counter;
    direct_meter<bit<8>>(MeterType.packets) acl_meter;

    action drop() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action route(bit<9> port, bit<48> mac) {
        std.egress_spec = port;
        hdr.ethernet.dst_addr = mac;
    }
    action metered() { acl_meter.read(meta.colour); }
    action to_cpu(bit<32> reason) {
        std.egress_spec = 510;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = std.ingress_port;
        hdr.packet_in.is_clone = 0;
        hdr.packet_in._pad = 0;
        hdr.packet_in.reason = reason;
    }
    action replicate(bit<16> group) { std.mcast_grp = group; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); }
    action learn() { digest<learn_t>(1, { hdr.ethernet.src_addr, std.ingress_port }); }
    action set_vlan(bit<12> vlan) { meta.vlan = vlan; }

    table exact_two {
        key = {
            hdr.ethernet.dst_addr: exact @name("mac");
            meta.vlan: exact;
        }
        actions = { forward; drop; replicate; mirror; to_cpu; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    table lpm_route {
        key = { hdr.ipv6.dst_addr: lpm; }
        actions = { route; to_cpu; @tableonly forward; @defaultonly drop; }
        default_action = drop();
        counters = route_counter;
        size = 131072;
    }

    table acl {
        key = {
            hdr.ipv6.src_addr: ternary;
            hdr.ipv6.next_header: optional;
            std.ingress_port: range;
            hdr.ethernet.ether_type: exact;
        }
        actions = { metered; drop; NoAction; }
        default_action = NoAction();
        meters = acl_meter;
        size = 1024;
    }

    table fixed {
        key = { hdr.ethernet.ether_type: ternary; meta.flag: exact; }
        actions = { set_vlan; NoAction; }
        const default_action = set_vlan(1);
        const entries = {
            (0x0800 &&& 0xff00, 1): set_vlan(2);
            (0x86dd, 0): set_vlan(3);
            (_, 0): NoAction();
        }
        counters = fixed_counter;
    }

    table preset {
        key = { std.ingress_port: exact; }
        actions = { set_vlan; NoAction; }
        default_action = NoAction();
        entries = {
            7: set_vlan(70);
            8: set_vlan(80);
        }
        size = 16;
    }

    table ageing {
        key = { hdr.ethernet.src_addr: exact; }
        actions = { NoAction; learn; }
        default_action = learn();
        support_timeout = true;
        size = 1024;
    }

    @name("ecmp") action_selector(HashAlgorithm.crc16, 32w64, 32w16) ecmp;
    table balanced {
        key = {
            hdr.ipv6.dst_addr: lpm;
            hdr.ipv6.src_addr: selector;
            hdr.ipv6.flow_label: selector;
        }
        actions = { forward; drop; NoAction; }
        implementation = ecmp;
        size = 256;
    }

    action_profile(32w8) next_hops;
    table indirect {
        key = { meta.vlan: exact; }
        actions = { forward; set_vlan; NoAction; }
        implementation = next_hops;
    }

    action place(place_t at) { meta.place = at; }
    table places {
        key = { meta.place: exact; }
        actions = { place; drop; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    table keyless {
        actions = { forward; drop; }
        default_action = drop();
    }

    apply {
        bit<48> seen;
        int<12> degrees;
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            if (std.egress_spec != 0) {
                return;
            }
            mark_to_drop(std);
        }
        fixed.apply();
        preset.apply();
        ageing.apply();
        keyless.apply();
        places.apply();
        exact_two.apply();
        if (hdr.ipv6.isValid()) {
            lpm_route.apply();
            acl.apply();
            balanced.apply();
            indirect.apply();
        }
        port_counter.count((bit<32>)std.ingress_port);
        packet_counter.count(0);
        rate.execute_meter(32w0, meta.colour);
        words.read(seen, 0);
        meta.word = (bit<32>)seen;
        words.write(1, hdr.ethernet.dst_addr);
        octets.write(0, meta.colour);
        temperatures.read(degrees, 0);
        temperatures.write(1, degrees);
    }
}

control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 510 && !hdr.packet_in.isValid()) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in.is_clone = (bit<1>)(std.instance_type == 1 ? 1w1 : 1w0);
            hdr.packet_in._pad = 0;
            hdr.packet_in.reason = (bit<32>)std.egress_rid;
        }
    }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
    }
}

V1Switch(TheParser(), Verify(), MyIngress(), MyEgress(), Update(), TheDeparser()) main;
