// SPDX-License-Identifier: Apache-2.0
// Externs that PSA and PNA share: see psa.p4 and pna.p4, which say with DETOUR_NAMED what their types are called.
// DETOUR_DPDK adds the methods that the programs of DPDK's SoftNIC use.

match_kind { range, selector, optional }

extern Hash<O> {
    Hash(DETOUR_NAMED(HashAlgorithm_t) algo);
    @pure O get_hash<D>(in D data);
    // base + hash % max
    @pure O get_hash<T, D>(in T base, in D data, in T max);
}

extern Checksum<W> {
    Checksum(DETOUR_NAMED(HashAlgorithm_t) hash);
    void clear();
    void update<T>(in T data);
    @noSideEffects W get();
}

// The checksum of IPv4, UDP and TCP, which can be updated by what changes.
extern InternetChecksum {
    InternetChecksum();
    void clear();
    void add<T>(in T data);
    void subtract<T>(in T data);
    @noSideEffects bit<16> get();
    @noSideEffects bit<16> get_state();
    void set_state(in bit<16> checksum_state);
}

enum DETOUR_NAMED(CounterType_t) { PACKETS, BYTES, PACKETS_AND_BYTES }

@noWarn("unused")
extern Counter<W, S> {
    Counter(bit<32> n_counters, DETOUR_NAMED(CounterType_t) type);
#ifdef DETOUR_OPTIONAL_LENGTH
    void count(in S index, @optional in bit<32> increment);
#else
    void count(in S index);
#endif
#ifdef DETOUR_DPDK
    void count(in S index, in bit<32> pkt_len);
#endif
}

// A counter for each entry of the table that has it as its property.
@noWarn("unused")
extern DirectCounter<W> {
    DirectCounter(DETOUR_NAMED(CounterType_t) type);
#ifdef DETOUR_OPTIONAL_LENGTH
    void count(@optional in bit<32> increment);
#else
    void count();
#endif
#ifdef DETOUR_DPDK
    void count(in bit<32> pkt_len);
#endif
}

enum DETOUR_NAMED(MeterType_t) { PACKETS, BYTES }
enum DETOUR_NAMED(MeterColor_t) { RED, GREEN, YELLOW }

extern Meter<S> {
    Meter(bit<32> n_meters, DETOUR_NAMED(MeterType_t) type);
    // With the color that the packet has already (RFC 2698, color-aware), or without.
    DETOUR_NAMED(MeterColor_t) execute(in S index, in DETOUR_NAMED(MeterColor_t) color);
    DETOUR_NAMED(MeterColor_t) execute(in S index);
#ifdef DETOUR_DPDK
    DETOUR_NAMED(MeterColor_t) dpdk_execute(in S index, in DETOUR_NAMED(MeterColor_t) color, in bit<32> pkt_len);
    DETOUR_NAMED(MeterColor_t) dpdk_execute(in S index, in bit<32> pkt_len);
#endif
}

extern DirectMeter {
    DirectMeter(DETOUR_NAMED(MeterType_t) type);
#ifdef DETOUR_OPTIONAL_LENGTH
    DETOUR_NAMED(MeterColor_t) execute(in DETOUR_NAMED(MeterColor_t) color, @optional in bit<32> pkt_len);
    DETOUR_NAMED(MeterColor_t) execute(@optional in bit<32> pkt_len);
#else
    DETOUR_NAMED(MeterColor_t) execute(in DETOUR_NAMED(MeterColor_t) color);
    DETOUR_NAMED(MeterColor_t) execute();
#endif
#ifdef DETOUR_DPDK
    DETOUR_NAMED(MeterColor_t) dpdk_execute(in DETOUR_NAMED(MeterColor_t) color, in bit<32> pkt_len);
    DETOUR_NAMED(MeterColor_t) dpdk_execute(in bit<32> pkt_len);
#endif
}

extern Register<T, S> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    @noSideEffects T read(in S index);
    void write(in S index, in T value);
}

// A number from min to max, both included.
extern Random<T> {
    Random(T min, T max);
    T read();
}

extern ActionProfile {
    ActionProfile(bit<32> size);
}

extern ActionSelector {
    ActionSelector(DETOUR_NAMED(HashAlgorithm_t) algo, bit<32> size, bit<32> outputWidth);
}

extern Digest<T> {
    Digest();
    void pack(in T data);
}
