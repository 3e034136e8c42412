// SPDX-License-Identifier: Apache-2.0
// Congestion notification messages (IEEE 802.1Qau, as Benito et al. use them): congestion points that sample their buffers and
// tell the source of a victim, and switches that take these messages instead of the source and adapt their probabilities.
//
// An egress clone of the victim becomes the message: the clone goes round by the recirculation port, loses all but the PDU of
// 802.1Qau behind a UDP header (the fabric is routed by IPv6 addresses), and is routed to the victim's source. The switch that
// the source hangs on takes it.

#ifndef DETOUR_NOTIFICATION_P4
#define DETOUR_NOTIFICATION_P4

// Bytes in a port's input buffer, all lossless classes. The engine keeps it up to date; on BMv2, where packets wait in
// output queues only, congestion points are set up on those.
register<bit<32>>(MAX_PORTS) buffered;

// A congestion point, as the control plane sets it up (detour/control/qcn.py has the same names).
struct sampling_t {
    bit<32> period;     // packets between samples, 0: no congestion point
    bit<32> q_eq;       // bytes
    bit<8>  w;
    bit<32> fb_max;     // (2w + 1) * Q_eq, bytes: the Fb that is 63 when quantised
    bit<64> scale;      // ceil(63 * 2^40 / fb_max)
    bit<32> wait_ticks; // waiting time from which on every packet may be the victim
    bit<8>  classes;    // bit c: packets of class c may be victims
}

// Samples a buffer every so many packets and computes Fb = Q_off + w * Q_delta (section II-D; positive here).
control CongestionPoint(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // By input port, and from MAX_PORTS on by output port.
    register<bit<32>>(2 * MAX_PORTS) since_sample; // packets
    register<bit<32>>(2 * MAX_PORTS) q_old;        // bytes when the last message was made
    counter(2 * MAX_PORTS, CounterType.packets) notified;

    bit<32> point = 0;
    bit<32> queue = 0;       // bytes
    sampling_t sampling = { 0, 0, 0, 0, 0, 0, 0 };
    bit<32> count = 0;
    bit<32> draw = 0;

    // Sampling of what came in by a port and waits in the switch (the paper's congestion points).
    action input_buffer(bit<16> period, bit<32> q_eq, bit<8> w, bit<32> fb_max, bit<48> scale, bit<32> wait_ticks,
                        bit<8> classes) {
        point = (bit<32>)meta.in_port;
        buffered.read(queue, point);
        sampling = { (bit<32>)period, q_eq, w, fb_max, (bit<64>)scale, wait_ticks, classes };
    }

    table input_points {
        key = { meta.in_port: exact; }
        actions = { input_buffer; @defaultonly NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Sampling of an output queue: the packets that the victim found there, times their size.
    action output_queue(bit<16> period, bit<32> q_eq, bit<8> w, bit<32> fb_max, bit<48> scale, bit<32> wait_ticks,
                        bit<8> classes, bit<16> packet_bytes) {
        point = MAX_PORTS + (bit<32>)std.egress_port;
        queue = (bit<32>)std.enq_qdepth * (bit<32>)packet_bytes;
        sampling = { (bit<32>)period, q_eq, w, fb_max, (bit<64>)scale, wait_ticks, classes };
    }

    table output_points {
        key = { std.egress_port: exact; }
        actions = { output_queue; @defaultonly NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // Fb, cut to 0 .. fb_max and quantised to six bits. 32 bits signed: buffers have less than 2^26 bytes.
    action feed_back() {
        bit<32> before;
        q_old.read(before, point);
        int<32> off = (int<32>)queue - (int<32>)sampling.q_eq;
        int<32> delta = (int<32>)queue - (int<32>)before;
        int<32> fb = off + (int<32>)(bit<32>)sampling.w * delta;
        meta.q_offset = (bit<16>)(bit<32>)(off >> 6); // units of 64 octets, as in 802.1Qau
        meta.q_delta = (bit<16>)(bit<32>)(delta >> 6);
        if (fb < 0) {
            fb = 0;
        }
        if (fb > (int<32>)sampling.fb_max) {
            fb = (int<32>)sampling.fb_max;
        }
        meta.feedback = (bit<6>)(((bit<64>)(bit<32>)fb * sampling.scale) >> 40);
    }

    // A packet that leaves is taken as victim with a chance that is proportional to the time that it waited: that is the law of
    // a packet drawn from those in the buffer.
    action roll() {
        random<bit<32>>(draw, 0, 0xffff);
        draw = (bit<32>)(((bit<64>)draw * (bit<64>)sampling.wait_ticks) >> 16);
    }

    action take_as_victim() {
        since_sample.write(point, 0);
        q_old.write(point, queue);
        notified.count(point);
        meta.victim_in = meta.in_port;
        meta.victim_out = std.egress_port;
        meta.victim_node = meta.node_id;
        clone_preserving_field_list(CloneType.E2E, NOTIFICATION_SESSION, KEEP_ON_NOTIFICATION);
    }

    // A packet that this switch turned: its source's switch hears of it (conditional.p4).
    action tell_of_turn() {
        point = MAX_PORTS + (bit<32>)std.egress_port;
        meta.q_offset = 0;
        meta.q_delta = 0;
        take_as_victim();
    }

    apply {
        if (meta.turned == 1) {
            tell_of_turn();
        } else if (hdr.ipv6.isValid() && !hdr.cnm.isValid() && hdr.ipv6.src_addr[127:112] == HOST_PREFIX) {
            if (!input_points.apply().hit) {
                output_points.apply();
            }
            if (sampling.period != 0) {
                since_sample.read(count, point);
                count = count + 1;
                if (count < sampling.period) {
                    since_sample.write(point, count);
                } else if (((8w1 << hdr.ipv6.dscp[2:0]) & sampling.classes) != 0) {
                    roll();
                    if (draw <= std.deq_timedelta) {
                        feed_back();
                        if (meta.feedback != 0) {
                            take_as_victim();
                        } else {
                            since_sample.write(point, 0);
                        }
                    }
                }
            }
        }
    }
}

// Turns the clone of a victim into a message to its source.
control Notification(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.cnm.setValid();
        hdr.cnm.version = 0;
        hdr.cnm.reserved = 0;
        hdr.cnm.feedback = meta.feedback;
        hdr.cnm.node_id = meta.victim_node;
        hdr.cnm.in_port = (bit<16>)meta.victim_in;
        hdr.cnm.out_port = (bit<16>)meta.victim_out;
        hdr.cnm.group = hdr.ipv6.dst_addr[111:96];
        hdr.cnm.q_offset = meta.q_offset;
        hdr.cnm.q_delta = meta.q_delta;
        hdr.cnm.priority = hdr.ipv6.dscp[2:0] ++ 13w0;
        hdr.cnm.dst_addr = hdr.ethernet.dst_addr;
        hdr.cnm.length = 0;
        hdr.ethernet.dst_addr = hdr.ethernet.src_addr;
        hdr.transit.setInvalid();
        hdr.options.setInvalid();
        hdr.srh.setInvalid();
        hdr.segments_before.setInvalid();
        hdr.next_segment.setInvalid();
        hdr.segments_after.setInvalid();
        hdr.inner_ipv6.setInvalid();
        hdr.inner_transit.setInvalid();
        hdr.ipv6.dst_addr = hdr.ipv6.src_addr;
        hdr.ipv6.src_addr = USID_BLOCK ++ meta.victim_node ++ 80w0;
        hdr.ipv6.dscp = NOTIFICATION_DSCP;
        hdr.ipv6.ecn = 0;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.next_hdr = PROTO_UDP;
        hdr.ipv6.payload_len = NOTIFICATION_BYTES - 54;
        hdr.udp.setValid();
        hdr.udp.src_port = NOTIFICATION_PORT;
        hdr.udp.dst_port = NOTIFICATION_PORT;
        hdr.udp.length = NOTIFICATION_BYTES - 54;
        hdr.udp.checksum = 0; // tunnel-like: no host reads it (RFC 6935)
    }
}

// How a switch reacts, as the control plane sets it (detour/control/qcn.py has the same names).
struct adaptation_t {
    bit<2>  source;   // messages of this switch's own congestion points count as well, for the port that the victim left by; 2: not
                      // compared, and only if the victim is for another group
    bit<8>  ports;    // n, transit ports; 1 if Fb is not compared
    bit<8>  versus;   // Fb is compared with so many times the mean over those ports; 0: with 0
    bit<8>  smooth;   // Fb is averaged, a message has the weight 2^-smooth (0: the last message alone)
    bit<32> decrease; // L_f / n * 2^32
    bit<32> increase; // A_i * 2^24
    bit<32> quiet;    // PC_l, packets; 0: nothing is adapted
    bit<1>  steady;   // every PC_l packets raise the probability, and nothing else does; otherwise PC_l packets without a
                      // message, and messages below what they are compared with
    bit<8>  fade;     // every PC_l packets take 2^-fade from the port's Fb (0: nothing)
    bit<8>  classes;  // bit c: messages about packets of class c count
    bit<8>  gentle;   // a probability p rises by A_i * (p + (1 - p) * 2^-gentle) (0: by A_i)
}

// Takes messages for hosts of this switch and moves the probabilities of its transit ports (section III); counts what transit
// ports send, for the way back up.
control Reaction(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(MAX_PORTS) sent;       // packets since the last message
    register<bit<32>>(MAX_PORTS) last;       // Fb of the last message, or a moving average, times 16
    register<bit<32>>(1) last_sum;           // over all transit ports
    counter(MAX_PORTS, CounterType.packets) received;

    bit<32> minimal = 0;       // the port's probability
    bit<32> old = 0;
    bit<32> sum = 0;
    bit<32> count = 0;
    bit<32> port = 0;
    bit<32> others = 0;        // what Fb is compared with
    bit<32> mine = 0;
    bit<1> enabled = 0;
    bit<8> fading = 0;
    adaptation_t adaptation = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

    action adapt(bit<2> source, bit<8> ports, bit<8> versus, bit<8> smooth, bit<32> decrease, bit<32> increase, bit<32> quiet,
                 bit<1> steady, bit<8> fade, bit<8> classes, bit<8> gentle) {
        enabled = 1;
        adaptation = { source, ports, versus, smooth, decrease, increase, quiet, steady, fade, classes, gentle };
    }

    // Messages are about destination groups, and say which share of the packets for them is too much; ticks as in by_queues.
    action avoid(bit<8> fade) {
        fading = fade;
    }

    table mechanism {
        actions = { adapt; avoid; @defaultonly NoAction; }
        default_action = NoAction();
    }

    // Ports of hosts of this switch: what is sent there has arrived.
    table host_ports {
        key = { std.egress_spec: exact; }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action remember() {
        last.write(port, mine);
        last_sum.read(sum, 0);
        sum = sum + mine - old;
        last_sum.write(0, sum);
    }

    action lower() {
        minimal = minimal - (bit<32>)(((bit<64>)minimal * (bit<64>)(mine - others) * (bit<64>)adaptation.decrease) >> 36);
    }

    action raise() {
        bit<32> weight = minimal + ((ONE - minimal) >> adaptation.gentle);
        minimal = minimal + (bit<32>)(((bit<64>)adaptation.increase * (bit<64>)weight) >> 24);
        if (minimal > ONE) {
            minimal = ONE;
        }
    }

    action fetch() {
        detoured.read(minimal, port);
        minimal = ONE - minimal;
    }

    action store() {
        detoured.write(port, ONE - minimal);
    }

    action react() {
        last.read(old, port);
        int<32> change = ((int<32>)(bit<32>)hdr.cnm.feedback << 4) - (int<32>)old;
        mine = old + (bit<32>)(change >> adaptation.smooth);
        remember();
        mine = mine * (bit<32>)adaptation.ports;
        others = sum * (bit<32>)adaptation.versus;
        fetch();
        if (mine > others) {
            lower();
        } else if (adaptation.steady == 0) {
            raise();
        }
        store();
        if (adaptation.steady == 0) {
            sent.write(port, 0);
        }
        received.count(port);
    }

    action lower_alone() {
        mine = ((bit<32>)hdr.cnm.feedback << 4) * (bit<32>)adaptation.ports;
        fetch();
        lower();
        store();
        received.count(port);
    }

    action avoid_group() {
        bit<32> share;
        bit<32> since;
        avoided.read(share, (bit<32>)hdr.cnm.group);
        avoided_at.read(since, (bit<32>)hdr.cnm.group);
        since = std.ingress_global_timestamp[31:0] - since;
        FADE(share, since, fading)
        share = share + ((ONE - share) >> 6) * (bit<32>)hdr.cnm.feedback;
        avoided.write((bit<32>)hdr.cnm.group, share);
        avoided_at.write((bit<32>)hdr.cnm.group, std.ingress_global_timestamp[31:0]);
        received.count(port);
    }

    action grow_quiet() {
        count = 0;
        fetch();
        raise();
        store();
        last.read(old, port);
        mine = old - (old >> adaptation.fade);
    }

    apply {
        if (meta.verdict == FORWARD) {
            mechanism.apply();
            if (hdr.cnm.isValid()) {
                bit<1> arrived = 0;
                bit<1> fresh = 0;
                bit<1> counts = 0;
                bit<1> alone = 0;
                if (host_ports.apply().hit) {
                    arrived = 1;
                }
                if (std.instance_type == INSTANCE_RECIRCULATED) {
                    truncate((bit<32>)NOTIFICATION_BYTES);
                    fresh = 1;
                }
                // By which port did the victim leave? Its own source's switch asks by which one the message came in.
                port = (bit<32>)meta.in_port;
                counts = arrived;
                if (fresh == 1) {
                    port = (bit<32>)hdr.cnm.out_port;
                    counts = (bit<1>)(adaptation.source == 1);
                    alone = (bit<1>)(adaptation.source == 2 && hdr.cnm.group != meta.group);
                }
                if (((8w1 << hdr.cnm.priority[15:13]) & adaptation.classes) == 0) {
                    counts = 0;
                }
                if (enabled == 1 && counts == 1) {
                    react();
                } else if (alone == 1) {
                    lower_alone();
                }
                if (fading != 0 && arrived == 1 && hdr.cnm.group < meta.groups) {
                    avoid_group();
                }
                if (arrived == 1) {
                    meta.verdict = TAKEN;
                }
            } else if (adaptation.quiet != 0) {
                port = (bit<32>)std.egress_spec;
                sent.read(count, port);
                count = count + 1;
                if (count >= adaptation.quiet) {
                    grow_quiet();
                    if (adaptation.fade != 0) {
                        remember();
                    }
                }
                sent.write(port, count);
            }
        }
    }
}

#endif
