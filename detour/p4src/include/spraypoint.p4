// SPDX-License-Identifier: Apache-2.0
// Spraypoint (arXiv 2604.15261, section 5): what comes from a host is sprayed over all neighbours, what comes from another
// switch goes where the routes point to. No bit of the packet says which, the port that it came in by does, as with the
// paper's two VRFs. Paths that the sender lists (uSIDs) are followed as they are.
//
// How often the choice is made anew is the controller's: once for a flow, for each of its flowlets (Vanini et al., "Let it
// flow", NSDI 2017), or for every packet. It holds for spraying and for pointing.

#ifndef DETOUR_SPRAYPOINT_P4
#define DETOUR_SPRAYPOINT_P4

#define FLOWLETS 4096

control Spraypoint(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<48>>(FLOWLETS) last_packet; // index: hash of the flow; time of its last packet
    register<bit<32>>(FLOWLETS) flowlet;     // number of its flowlet
    direct_counter(CounterType.packets_and_bytes) spray_counter;
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 4096, 16) spray_selector;
    bit<48> destination_switch = hdr.ipv6.dst_addr[127:80];
    bit<32> flow = 0;
    bit<32> number = 0;
    bit<48> last = 0;
    bit<1> from_host = 0;

    action by_packet() {
        random<bit<32>>(meta.spread, 0, 0x7fffffff);
    }

    // gap: a flow that pauses for longer may take another path. In the target's ticks.
    action by_flowlet(bit<48> gap) {
        hash(flow, HashAlgorithm.crc32, 32w0, { hdr.ipv6.src_addr, hdr.ipv6.dst_addr, meta.path }, 32w4096);
        last_packet.read(last, flow);
        flowlet.read(number, flow);
        number = std.ingress_global_timestamp - last > gap ? number + 1 : number;
        last_packet.write(flow, std.ingress_global_timestamp);
        flowlet.write(flow, number);
        meta.spread = meta.spread ^ (number * 0x9e3779b1);
    }

    // By flow unless the controller says otherwise.
    table granularity {
        actions = { by_packet; by_flowlet; NoAction; }
        default_action = NoAction();
    }

    action host() {
        from_host = 1;
    }

    table host_ports {
        key = { meta.in_port: exact; }
        actions = { host; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Prefix of this switch's own hosts, which nothing is sprayed for.
    table own_hosts {
        key = { destination_switch: exact @name("destination_switch"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 16;
    }

    action towards(port_t port) {
        std.egress_spec = port;
    }

    // One entry, for packets from hosts: all ports to other switches.
    table spray {
        key = {
            from_host: exact @name("from_host");
            meta.spread: selector;
        }
        actions = { towards; }
        implementation = spray_selector;
        counters = spray_counter;
        size = 16;
    }

    apply {
        if (hdr.ipv6.dst_addr[127:112] == HOST_PREFIX) {
            granularity.apply();
            host_ports.apply();
            if (from_host == 1 && !own_hosts.apply().hit) {
                if (meta.hop_counted == 0 && hdr.ipv6.hop_limit <= 1) {
                    meta.verdict = PUNT_HOP_LIMIT;
                } else if (spray.apply().hit) {
                    if (meta.hop_counted == 0) {
                        hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                    }
                    meta.port_chosen = 1;
                }
            }
        }
    }
}

#endif
