// SPDX-License-Identifier: Apache-2.0
// v1model, the architecture of BMv2's simple_switch: see docs/simple_switch.md of p4lang/behavioral-model.
//
// V1MODEL_VERSION is 20180101 unless the program defines it before the include. From 20200408 on, counters, meters and
// registers have any type of index, and ports a type of their own.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif
#if V1MODEL_VERSION < 20180101 || V1MODEL_VERSION > 20200408
#error V1MODEL_VERSION is 20180101 to 20200408
#endif

const bit<32> __v1model_version = V1MODEL_VERSION;

match_kind { range, optional, selector }

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#define DETOUR_PORT PortId_t
#define DETOUR_INDEXED <I>
#define DETOUR_INDEXED_WITH(T) <T, I>
#define DETOUR_INDEX I
#else
#define DETOUR_PORT bit<9>
#define DETOUR_INDEXED
#define DETOUR_INDEXED_WITH(T) <T>
#define DETOUR_INDEX bit<32>
#endif

@metadata @name("standard_metadata")
struct standard_metadata_t {
    DETOUR_PORT ingress_port;
    DETOUR_PORT egress_spec;    // written by ingress: where the packet goes
    DETOUR_PORT egress_port;    // read by egress
    bit<32> instance_type;      // why the packet is here: 0 for one from a port
    bit<32> packet_length;      // in bytes

    @alias("queueing_metadata.enq_timestamp") bit<32> enq_timestamp;    // microseconds since the start
    @alias("queueing_metadata.enq_qdepth") bit<19> enq_qdepth;          // packets in the queue on arrival
    @alias("queueing_metadata.deq_timedelta") bit<32> deq_timedelta;    // microseconds in the queue
    @alias("queueing_metadata.deq_qdepth") bit<19> deq_qdepth;          // packets in the queue on departure

    @alias("intrinsic_metadata.ingress_global_timestamp") bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp") bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp") bit<16> mcast_grp;           // written by ingress; 0: no multicast
    @alias("intrinsic_metadata.egress_rid") bit<16> egress_rid;         // which replica of a multicast this is

    bit<1> checksum_error;      // verify_checksum found a difference
    error parser_error;
    @alias("intrinsic_metadata.priority") bit<3> priority;
}

// ---------------------------------------------------------------- counters, meters, registers

enum CounterType { packets, bytes, packets_and_bytes }

extern counter DETOUR_INDEXED {
    counter(bit<32> size, CounterType type);
    void count(in DETOUR_INDEX index);
}

// A counter for each entry of the table that has it as its property `counters`.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

enum MeterType { packets, bytes }

// Colors that a meter gives.
#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

extern meter DETOUR_INDEXED {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in DETOUR_INDEX index, out T result);
}

// A meter for each entry of the table that has it as its property `meters`.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern register DETOUR_INDEXED_WITH(T) {
    register(bit<32> size);
    @noSideEffects void read(out T result, in DETOUR_INDEX index);
    void write(in DETOUR_INDEX index, in T value);
}

// ---------------------------------------------------------------- values

// A number from lo to hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

// base + hash % max, or base if max is 0.
@pure extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

// ---------------------------------------------------------------- tables

extern action_profile {
    action_profile(bit<32> size);
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// ---------------------------------------------------------------- checksums

@deprecated("use verify_checksum and update_checksum")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@pure extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// The same over data and all of the packet that the parser did not extract.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// ---------------------------------------------------------------- what becomes of a packet

@deprecated("use mark_to_drop(standard_metadata)")
extern void mark_to_drop();
@pure extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// Send data to the controller, in digests.
extern void digest<T>(in bit<32> receiver, in T data);

enum CloneType { I2E, E2E }

extern void clone(in CloneType type, in bit<32> session);
// Fields of metadata with @field_list(index) keep their values in the copy, or in the next round.
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate_preserving_field_list(bit<8> index);

@deprecated("use clone_preserving_field_list")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
@deprecated("use resubmit_preserving_field_list")
extern void resubmit<T>(in T data);
@deprecated("use recirculate_preserving_field_list")
extern void recirculate<T>(in T data);

// Shorten the packet to this many bytes.
extern void truncate(in bit<32> length);

// ---------------------------------------------------------------- for debugging

// Stop the switch if the condition is false.
extern void assert(in bool check);
extern void assume(in bool check);

// Write to the switch's log; `{}` in the message stands for a value of data.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// ---------------------------------------------------------------- the pipeline

parser Parser<H, M>(packet_in b, out H parsedHdr, inout M meta, inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
@pipeline control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
@pipeline control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
@deparser control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(
    Parser<H, M> p,
    VerifyChecksum<H, M> vr,
    Ingress<H, M> ig,
    Egress<H, M> eg,
    ComputeChecksum<H, M> ck,
    Deparser<H> dep
);

#undef DETOUR_PORT
#undef DETOUR_INDEXED
#undef DETOUR_INDEXED_WITH
#undef DETOUR_INDEX

#endif
