// SPDX-License-Identifier: Apache-2.0
// Headers, metadata and the constants that planners and hosts know too.

#ifndef DETOUR_HEADERS_P4
#define DETOUR_HEADERS_P4

typedef bit<9> port_t;

const port_t RECIRCULATION_PORT = 509; // no interface behind it, hence an empty queue
const port_t CPU_PORT = 510;
const port_t DROP_PORT = 511;
#define MAX_PORTS 512

const bit<32> INSTANCE_INGRESS_CLONE = 1;
const bit<32> INSTANCE_RECIRCULATED = 4;
const bit<8> KEEP_ON_RECIRCULATION = 1;
const bit<8> KEEP_ON_COPY = 2;
const bit<32> CPU_COPY_SESSION = 1;

// What becomes of a packet; also the index of the drop counter and the reason in a packet-in.
const bit<8> FORWARD = 0;
const bit<8> DROP_MALFORMED = 1;       // truncated, or a header that contradicts itself
const bit<8> DROP_NOT_IPV6 = 2;
const bit<8> PUNT_NO_ROUTE = 3;        // the controller answers with Destination Unreachable
const bit<8> DROP_UNKNOWN_SID = 4;     // inside the block, but neither local nor routed
const bit<8> DROP_ACL = 5;
const bit<8> PUNT_HOP_LIMIT = 6;       // the controller answers with Time Exceeded
const bit<8> PUNT_SID_EXHAUSTED = 7;   // the controller answers with Parameter Problem
const bit<8> DROP_SID_LOOP = 8;        // too many uSIDs of one switch in a row
const bit<8> DROP_PUNT_LIMIT = 9;      // meant for the controller, above the rate that it takes
const bit<8> PUNT_ACL = 10;
const bit<8> AGAIN = 11;               // own uSID follows own uSID: look up once more
const bit<8> PUNT_BAD_SRH = 13;        // an SRH for this switch that contradicts itself: Parameter Problem
const bit<8> DROP_SCOPE = 14;          // a source that no router forwards, or multicast without a route
#define REASONS 16

const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<8> PROTO_HOP_BY_HOP = 0;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_IPV6 = 41;
const bit<8> PROTO_ROUTING = 43;
const bit<8> PROTO_DESTINATION_OPTIONS = 60;
const bit<8> ROUTING_TYPE_SRH = 4;

// Transit Measurement option (draft-mzbc-ippm-transit-measurement-option); the layout is provisional.
// Extension header length 0 (eight bytes), option type 0x3e (skip if unknown, may change en route), option length 4.
const bit<24> TRANSIT_MEASUREMENT_ONLY = 0x003e04;

const bit<32> L2_AND_IPV6_BYTES = 54;

// Segments of a routing header that a switch takes apart: more uSIDs than any path has switches, and few enough that packets
// stay small in memory. Likewise the octets of a header of options. What is longer is carried like any payload.
#define MAX_SEGMENTS 8
#define MAX_SEGMENT_BITS 1024
#define MAX_OPTION_BITS 496

const bit<32> USID_BLOCK = 0xfcbbbb00;
const bit<16> HOST_PREFIX = 0xfd00;
// Multicast, link-local, unspecified, loopback: a packet from there is not forwarded (RFC 4291, 2.5.2, 2.5.3, 2.5.6 and 2.7).
#define IS_NO_SOURCE(address) (address[127:120] == 0xff || address[127:118] == 0x3fa || address[127:1] == 0)
const bit<16> USID_LOCAL_FUNCTIONS = 0xe000; // uSIDs from here on are functions (uA), not nodes

// Flow label, adaptive.p4 and the like: bits 19 to 13 belong to the switches (19: a detour lies ahead, 18 to 13: by way of that group),
// bits 12 to 0 to the sender. Hosts see zeros in the upper bits: whoever takes a packet in from a host sets them, the first
// switch outside the source group clears them.
// qcn.p4 keeps bits 19 to 8 (18 to 8: by way of that group or switch) and leaves the sender 7 to 0.
#ifdef QCN
#define MAX_GROUPS 2048
const bit<20> FLOW_LABEL_MASK = 0xff;
#else
const bit<7> DETOUR_AHEAD = 0x40; // bit 19
#define MAX_GROUPS 64
const bit<20> FLOW_LABEL_MASK = 0x1fff;
#endif

// Watched flows (flows.p4): the sender's part of the flow label names them.
#define MAX_WATCHED 256
#define DELAY_CLASSES 32
#define DELAY_SHIFT 4
const bit<32> DELAY_LIMIT = 1 << 19; // ticks from which on there is one class; two an octave below

#ifdef QCN
const bit<32> INSTANCE_EGRESS_CLONE = 2;
const bit<8> KEEP_ON_NOTIFICATION = 3;
const bit<32> NOTIFICATION_SESSION = 2; // to the recirculation port
const bit<8> TAKEN = 12;                // a congestion notification message that this switch was to have
const bit<16> NOTIFICATION_PORT = 4794; // UDP
const bit<6> NOTIFICATION_DSCP = 48;
const bit<16> NOTIFICATION_BYTES = 86;  // Ethernet 14, IPv6 40, UDP 8, PDU 24

// PDU of a congestion notification message (IEEE 802.1Qau, 33.4) without encapsulated MSDU. The eight octets of the
// CPID are ours to fill.
header cnm_t {
    bit<4>  version;
    bit<6>  reserved;
    bit<6>  feedback;     // 1 to 63
    bit<16> node_id;      // CPID: the switch,
    bit<16> in_port;      // where the victim came in,
    bit<16> out_port;     // where it went out,
    bit<16> group;        // and to which group it goes
    bit<16> q_offset;     // in units of 64 octets, signed
    bit<16> q_delta;
    bit<16> priority;     // of the victim: its class in the upper three bits
    bit<48> dst_addr;     // of the victim
    bit<16> length;       // of the MSDU: 0
}
#endif

@controller_header("packet_in")
header packet_in_t {
    bit<16> ingress_port;
    bit<16> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<16> egress_port; // 0: route the packet as if it had come in here
}

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_len;
    bit<8>   next_hdr;
    bit<8>   hop_limit;
    bit<128> src_addr;
    bit<128> dst_addr;
}

// A hop-by-hop header that holds just the Transit Measurement option.
header transit_t {
    bit<8>  next_hdr;
    bit<8>  hdr_ext_len; // 0: eight bytes
    bit<8>  option_type;
    bit<8>  option_len;
    bit<32> delay;       // accumulated queuing delay in ticks
}

// Hop-by-hop or destination options of any kind: looked past, not into.
header options_t {
    bit<8>  next_hdr;
    bit<8>  hdr_ext_len;
    varbit<MAX_OPTION_BITS> content;
}

header srh_t {
    bit<8>  next_hdr;
    bit<8>  hdr_ext_len;
    bit<8>  routing_type;
    bit<8>  segments_left;
    bit<8>  last_entry;
    bit<8>  flags;
    bit<16> tag;
}

// The segment list is cut around the next segment, so that any length up to the maximum costs no header stack.
header segments_t {
    varbit<MAX_SEGMENT_BITS> list;
}

header segment_t {
    bit<128> sid;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// Not in the order of the wire, which is the deparser's business: what most packets have lies together in memory.
struct headers_t {
    ethernet_t   ethernet;
    ipv6_t       ipv6;
    transit_t    transit;
    udp_t        udp;
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ipv6_t       inner_ipv6;
    transit_t    inner_transit;
    options_t    options;         // in front of the SRH or of an inner packet, behind the transit header
    srh_t        srh;
    segment_t    next_segment;    // index Segments Left - 1
    segments_t   segments_before; // indices below Segments Left - 1
    segments_t   segments_after;  // those already visited, and TLVs
#ifdef QCN
    cnm_t        cnm;
#endif
}

struct metadata_t {
    @field_list(KEEP_ON_RECIRCULATION, KEEP_ON_COPY)
    port_t  in_port;        // where the packet came in first; a recirculated one has ingress_port 0
    @field_list(KEEP_ON_RECIRCULATION)
    bit<1>  copied;         // the controller has its copy
    @field_list(KEEP_ON_RECIRCULATION)
    bit<8>  passes;         // times that this packet was sent round
    bit<8>  verdict;
    bit<1>  copy;           // an access rule wants a copy for the controller
    bit<1>  port_chosen;    // egress_spec is final: no routing
    @field_list(KEEP_ON_RECIRCULATION)
    bit<1>  hop_counted;    // the hop limit is already decremented at this switch
    bit<16> group;          // of this switch
    bit<16> groups;         // in the fabric; below 3: no Valiant routing
    bit<16> node_id;        // of this switch
    bit<16> path;           // what the sender chose: the low 15 bits of the UDP source port
    bit<32> spread;         // path and node id, mixed: what the choice among equal paths is hashed from
    bit<1>  detour;         // most significant bit of the UDP source port: a non-shortest path, please
    bit<16> via;            // intermediate group
    bit<1>  marked;         // this switch set the ECN mark
#ifdef QCN
    @field_list(KEEP_ON_NOTIFICATION)
    bit<6>  feedback;       // what the message about a victim is to say
    @field_list(KEEP_ON_NOTIFICATION)
    bit<16> q_offset;
    @field_list(KEEP_ON_NOTIFICATION)
    bit<16> q_delta;
    @field_list(KEEP_ON_NOTIFICATION)
    port_t  victim_in;
    @field_list(KEEP_ON_NOTIFICATION)
    port_t  victim_out;
    @field_list(KEEP_ON_NOTIFICATION)
    bit<16> victim_node;
    bit<1>  turned;         // this switch sent the packet round in transit, and tells its source
#endif
#ifdef RANK
    bit<48> queue_rank;     // by its name, what the engine's traffic manager orders queues by (ranking.p4)
#endif
#ifdef TRIM
    bit<16> trim_to;        // by their names, what the engine's traffic manager reads and sets (trimming.p4)
    bit<3>  trim_priority;
    bit<16> trimmed;
#endif
}

#endif
