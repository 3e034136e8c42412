// SPDX-License-Identifier: Apache-2.0
// What every P4_16 program may use (specification 1.2.5, appendix "P4 core library").

#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,        // extract, advance or lookahead beyond the end of the packet
    NoMatch,               // no case of a select matches
    StackOutOfBounds,      // next or last of a header stack that has none
    HeaderTooShort,        // extract of more bits than a varbit field takes
    ParserTimeout,         // too many states
    ParserInvalidArgument  // an argument that the target does not take
}

match_kind { exact, ternary, lpm }

// The packet as a parser reads it.
extern packet_in {
    // Read a header of a fixed size, which becomes valid.
    void extract<T>(out T hdr);
    // Read a header with one varbit field, which takes this many bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // The bits that come next; they are not consumed.
    T lookahead<T>();
    // Skip bits.
    void advance(in bit<32> sizeInBits);
    // Length of the packet in bytes.
    bit<32> length();
}

// The packet as a deparser writes it.
extern packet_out {
    // Append a valid header; or all valid ones of a struct, stack or union.
    void emit<T>(in T hdr);
}

// Go to the state reject with an error if the condition is false.
extern void verify(in bool check, in error toSignal);

@noWarn("unused") action NoAction() {}

// Stop the compiler if the condition is false.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
