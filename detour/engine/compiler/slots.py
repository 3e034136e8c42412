# SPDX-License-Identifier: Apache-2.0
"""Layout of a switch's state block (`sw`, an array of 64-bit words) and in a table's records.

Compiled code and `detour.engine.tables` share these numbers.

A table's *record* is a row of words: `ACTION` (index of the action; for indirect tables `member` or
`GROUP_FLAG | group`), `TOUCHED` (time of the last hit) if entries have time-outs, packets and bytes if the table
counts, then the arguments. Row 0 is the default entry; row `handle + 1` is the entry with that handle.

Rows of records and hash slots of at most eight words begin at multiples of a power of two of them, so that each lies in
one line of the processor's cache (`spaced`).

A *hash slot* is `[row of the record, key words...]`, row 0 = empty. Exact tables have one hash table, LPM tables a
*group* for each prefix length, longest first: `[hash base, hash mask, length, mask words...]`.

Ternary and range tables have bit-sliced blocks (`detour.engine.tables.sliced`), in order of their highest rank:
`[address, LEAF or SUMMARY, highest rank]`. A block begins with its nibbles, at most eight: a byte each, which is one
more than `nibble_byte`. In a summary the number of words that have columns follows. Its matrix has, for each nibble and
each of its 16 values, a bit for each column; a row for each column follows. A leaf has rows `[row of the record, rank,
key words, mask words, low words, high words]`, a summary has `[address of a leaf, rank, its nibbles, 0]`.

In front of the slots of a group is its filter (`detour.engine.tables.hashing`), counted backwards: a
key with hash h may be in the group only if bit h >> `FILTER_BIT_SHIFT` of word (h >> `FILTER_WORD_SHIFT`) & m is set,
where m is (hash mask >> `FILTER_SLOTS_SHIFT`) | `FILTER_LEAST`.

`rank` orders entries: priority, then the lower handle, as BMv2 breaks ties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from detour.engine.compiler.model import KeyField, Model, TableIr

NOW: Final = 0  # ticks: the latest ingress or egress timestamp that compiled code has seen
RANDOM: Final = 1  # state of the switch's generator
LOG: Final = 2  # address of the log ring, 0 = nobody listens
RECENT_ERROR: Final = 3  # source line of the last failed assert
TRACE_CONTROL: Final = 4  # address of what traced code shares with Python (compiler.tracing); plain code never looks
COVERAGE: Final = 5  # address of the counters of code compiled with coverage (compiler.covering)
TRACED_COVERAGE: Final = 6  # the same for traced code
DROP_PORT_SLOT: Final = 7  # the port that drops, as the switch was told
FIRST_SLOT: Final = 8

CUSTOM_CRCS: Final = {"crc16_custom": 16, "crc32_custom": 32}
"""algorithms whose parameters can be set while the switch runs, and their widths"""

TABLE_SLOTS: Final = 8
RECORDS, GROUPS, GROUP_COUNT, HASH_BASE, HASH_MASK, METERS = range(6)
ENTRY_COUNT: Final = GROUP_COUNT  # of an exact table

COUNTER_SLOTS: Final = 2
COUNTER_USED: Final = 1  # not 0 since something was counted

PROFILE_SLOTS: Final = 3
MEMBERS, PROFILE_GROUPS, GROUP_MEMBERS = range(3)

TRAIL: Final = 512  # places of the trail (detour.engine.compiler.trail), a power of two
TRAIL_BYTES: Final = 4  # of each

ACTION: Final = 0
TOUCHED: Final = 1
NO_ACTION_ID: Final = 0xFFFFFFFF
GROUP_FLAG: Final = 1 << 32

GROUP_HEAD: Final = 3
HASH_HEAD: Final = 1

WORD_BITS: Final = 64
LINE_WORDS: Final = 8
BLOCK_HEAD: Final = 8  # words before the matrix: a line of the processor's cache
BLOCK_NIBBLES: Final = 8
LEAF_COLUMNS: Final = WORD_BITS
SUMMARY_COLUMNS: Final = 8 * WORD_BITS
SUMMARY_ROW: Final = 4
LEAF, SUMMARY = range(2)  # kinds of blocks
NIBBLE: Final = 16  # values of four bits

_MOST_NIBBLES: Final = 255  # their places fit a byte
ODD_NIBBLES: Final = 128

METER_WORDS: Final = 10  # configured, ticks; peak, then committed: tokens in so many ticks, burst, tokens, last

FILTER_SLOTS_SHIFT: Final = 4  # a word for 16 slots
FILTER_LEAST: Final = 7  # at least eight words, a line of the processor's cache
FILTER_WORD_SHIFT: Final = 32
FILTER_BIT_SHIFT: Final = 58
HASH_MULTIPLIER: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Place of a key field in the packed key: bit `shift` of word `word`, over `words` words."""

    word: int
    shift: int
    words: int
    bits: int


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """Packing of a table's key. Range fields stand apart: they are compared, not hashed. `places` has one entry a key
    field; for range fields it is the place in the low/high words of a node."""

    words: int
    places: tuple[KeyPlace, ...]
    ranges: tuple[int, ...]  # indices of the range fields
    range_words: int


def key_layout(key: tuple[KeyField, ...]) -> KeyLayout:
    """Pack fields of up to 64 bits first-fit into words; wider ones take words of their own."""
    places: dict[int, KeyPlace] = {}
    used: list[int] = []
    ranges = tuple(i for i, f in enumerate(key) if f.match_type == "range")
    range_words = 0
    for i, f in enumerate(key):
        words = (f.bits + 63) // 64
        if f.match_type == "range":
            places[i] = KeyPlace(range_words, 0, words, f.bits)
            range_words += words
        elif words > 1:
            places[i] = KeyPlace(len(used), 0, words, f.bits)
            used.extend([64] * (words - 1) + [f.bits - 64 * (words - 1)])
        else:
            word = next((w for w, n in enumerate(used) if n + f.bits <= 64), len(used))
            if word == len(used):
                used.append(0)
            places[i] = KeyPlace(word, used[word], 1, f.bits)
            used[word] += f.bits
    return KeyLayout(max(len(used), 1), tuple(places[i] for i in range(len(key))), ranges, range_words)


def key_nibbles(layout: KeyLayout, key: tuple[KeyField, ...]) -> tuple[int, ...]:
    """The nibbles that the key's fields touch, as places in the packed key with the words of ranges at its end: wide
    fields first, each from its most significant nibble on, those of the same width by turns. Those of very wide keys
    are not all there."""
    nibbles: dict[int, tuple[int, int, int]] = {}
    for i, (field, place) in enumerate(zip(key, layout.places, strict=True)):
        first = 64 * (place.word + (layout.words if i in layout.ranges else 0)) + place.shift
        for depth, bit in enumerate(reversed(range(first, first + field.bits))):
            nibbles.setdefault(bit // 4, (-field.bits, depth, i))
    return tuple(sorted((place for place in nibbles if place < _MOST_NIBBLES), key=nibbles.__getitem__))


def nibble_byte(place: int) -> int:
    """The byte of the spread key that has the nibble at that place of the packed key: those at even places come first,
    those at odd ones from byte `ODD_NIBBLES` on."""
    return place // 2 + ODD_NIBBLES * (place % 2)


def leaf_row(layout: KeyLayout) -> int:
    """Words of a leaf's row."""
    return 2 + 2 * (layout.words + layout.range_words)


def entry_counter(table: TableIr) -> int:
    """The word with the packets that hit an entry, if they are counted; their bytes follow."""
    return 1 + table.support_timeout


def record_head(table: TableIr) -> int:
    """Words before the arguments."""
    return entry_counter(table) + 2 * table.with_counters


def record_words(table: TableIr) -> int:
    """Length of a table's record in words."""
    return record_head(table) + (0 if table.profile else table.param_words)


def spaced(words: int) -> int:
    """Words from the beginning of one row or hash slot of so many words to that of the next one."""
    return words if words > LINE_WORDS else 1 << (words - 1).bit_length()


@dataclass(frozen=True, slots=True)
class Slots:
    """First slot of every object of a program; `size` words in all, of which packets use `used`."""

    tables: dict[str, int]
    profiles: dict[str, int]
    counters: dict[str, int]
    meters: dict[str, int]
    registers: dict[str, int]
    value_sets: dict[str, int]
    custom_crcs: dict[str, int]
    """of the calculations whose parameters can be set"""
    used: int
    trail: int
    """first word of what packets have touched, at a line of the cache"""
    size: int


def assign_slots(model: Model) -> Slots:
    at = FIRST_SLOT

    def take(names: Iterable[str], count: int) -> dict[str, int]:
        nonlocal at
        taken = {}
        for name in names:
            taken[name] = at
            at += count
        return taken

    tables = take((n for n, t in model.tables.items() if not t.is_statement), TABLE_SLOTS)
    profiles = take(model.profiles, PROFILE_SLOTS)
    counters = take((n for n, a in model.counters.items() if not a.direct), COUNTER_SLOTS)
    meters = take((n for n, a in model.meters.items() if not a.direct), 1)
    registers = take(model.registers, 1)
    value_sets = take(model.value_sets, 2)
    custom_crcs = take((n for n, c in model.calculations.items() if c["algo"] in CUSTOM_CRCS), 1)
    used = at
    tables |= take((n for n, t in model.tables.items() if t.is_statement), TABLE_SLOTS)
    trail = -(-at // LINE_WORDS) * LINE_WORDS
    size = trail + TRAIL * TRAIL_BYTES // 8
    return Slots(tables, profiles, counters, meters, registers, value_sets, custom_crcs, used, trail, size)
