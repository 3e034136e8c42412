# SPDX-License-Identifier: Apache-2.0
"""Table lookups: the key is packed into words, then the memory that `detour.engine.tables` keeps is searched.

Every table gets a function of its own, specialised to its key. It returns the address of the record that
matched, or of record 0, the default entry.
"""

from __future__ import annotations

from detour.engine.compiler import slots, trail
from detour.engine.compiler.context import CompilationUnit, FunctionContext
from detour.engine.compiler.ir import Function, Value, const
from detour.engine.compiler.load import find_field
from detour.engine.compiler.model import KeyField, TableIr
from detour.engine.compiler.runtime import loop
from detour.engine.compiler.slots import KeyLayout, Slots, key_layout, record_words, spaced


def pack_key(ctx: FunctionContext, table: TableIr, layout: KeyLayout) -> list[Value]:
    """The words of the packet's key, hashed ones first, then those that ranges are compared with."""
    words: dict[int, Value] = {}
    for field, place in zip(table.key, layout.places, strict=True):
        v = key_value(ctx, field)
        base = place.word + (layout.words if field.match_type == "range" else 0)
        for i in range(place.words):
            part = ctx.f.resize(ctx.f.lshr(v, 64 * i), 64)
            part = ctx.f.shl(part, place.shift)
            before = words.get(base + i)
            words[base + i] = ctx.f.op("or", before, part) if before else part
    return [words.get(i, const(64, 0)) for i in range(layout.words + layout.range_words)]


def key_value(ctx: FunctionContext, field: KeyField) -> Value:
    """A key field's value: zero while its header is invalid, and masked if the program says so."""
    ref = ctx.header(field.header)
    if field.field == "$valid$":
        return ctx.is_valid(ref)
    spec = find_field(ref.header, field.field)
    v = ctx.f.resize(ctx.load_field(ref, spec), spec.bits)
    if field.mask is not None:
        v = ctx.f.op("and", v, const(v.bits, field.mask))
    return ctx.f.select(ctx.is_valid(ref), v, const(v.bits, 0))


def lookup_function(program: CompilationUnit, table: TableIr) -> str:
    """Write the table's lookup and return its name; arguments are `sw` and the key's words."""
    name = f"lookup_{table.index}"
    layout = key_layout(table.key)
    count = layout.words + layout.range_words
    args = "".join(f", i64 %k{i}" for i in range(count))
    f = program.module.function(f"internal ptr @{name}(ptr %sw{args}) nounwind")
    writer = _Lookup(f, program.slots, program.slots.tables[table.name], table, layout)
    if table.match_type == "exact":
        writer.exact()
    elif table.match_type == "lpm":
        writer.longest()
    else:
        writer.best()
    return name


def hash_words(f: Function, words: list[Value]) -> Value:
    """As `detour.engine.tables.hashing.hash_key`."""
    h = const(64, 0)
    for word in words:
        h = f.op("xor", h, word)
        h = f.op("mul", f.op("xor", h, f.lshr(h, 32)), const(64, slots.HASH_MULTIPLIER))
        h = f.op("xor", h, f.lshr(h, 32))
    return h


def _straddling(words: int) -> int:
    """Bytes to the last word of a row, if that may be in another line of the cache than the first one."""
    return 8 * (words - 1) if words > slots.LINE_WORDS else 0


class _Lookup:
    def __init__(self, f: Function, own: Slots, slot: int, table: TableIr, layout: KeyLayout) -> None:
        self.f, self.own, self.slot, self.table, self.layout = f, own, slot, table, layout
        self.hashed = layout.words + layout.range_words
        self.key = [Value(64, f"%k{i}") for i in range(self.hashed)]
        self.records = f.load_pointer(f.at("%sw", 8 * (slot + slots.RECORDS)))

    def _word(self, slot: int) -> Value:
        return self.f.load(64, self.f.at("%sw", 8 * (self.slot + slot)), 8)

    def _record(self, row: Value) -> str:
        return self.f.at(self.records, self.f.op("mul", row, const(64, 8 * spaced(record_words(self.table)))))

    def _sift(self, base: str, mask: Value, h: Value, missing: str) -> None:
        """Jump to `missing` if the filter in front of the slots says so."""
        f = self.f
        last = f.op("or", f.lshr(mask, slots.FILTER_SLOTS_SHIFT), const(64, slots.FILTER_LEAST))
        number = f.op("and", f.lshr(h, slots.FILTER_WORD_SHIFT), last)
        back = f.op("sub", const(64, -8 % (1 << 64)), f.shl(number, 3))
        bits = f.raw("lshr", f.load(64, f.at(base, back), 8), f.lshr(h, slots.FILTER_BIT_SHIFT))
        maybe = f.block("maybe")
        f.branch(f.compare("eq", f.op("and", bits, const(64, 1)), const(64, 0)), missing, maybe)
        f.enter(maybe)

    def _probe(self, base: str, mask: Value, key: list[Value], hit: str, missing: str, sift: bool = True) -> str:
        """Search one hash table; jump to `hit` or `missing`. Return the pointer variable of the slot. `sift`:
        looks at the filter first, which pays where most searches are in vain."""
        f = self.f
        position, where = f.alloca("i64"), f.alloca("ptr")
        h = hash_words(f, key)
        if sift:
            self._sift(base, mask, h, missing)
        f.store(f.op("and", h, mask), position, 8)
        again, filled, no = f.block("probe"), f.block("filled"), f.block("no")
        f.enter(again)
        i = f.load(64, position, 8)
        words = slots.HASH_HEAD + len(key)
        at = f.at(base, f.op("mul", i, const(64, 8 * spaced(words))))
        f.line(f"store ptr {at}, ptr {where}, align 8")
        trail.leave(f, self.own, at, _straddling(words))
        f.branch(f.compare("eq", f.load(64, at, 8), const(64, 0)), missing, filled)
        f.enter(filled)
        differ = const(64, 0)
        for w, word in enumerate(key):
            have = f.load(64, f.at(at, 8 * (slots.HASH_HEAD + w)), 8)
            differ = f.op("or", differ, f.op("xor", have, word))
        f.branch(f.compare("eq", differ, const(64, 0)), hit, no)
        f.enter(no)
        f.store(f.op("and", f.op("add", i, const(64, 1)), mask), position, 8)
        f.jump(again)
        return where

    def _found(self, where: str) -> None:
        """Return the record of the slot that a pointer variable has."""
        f = self.f
        slot = f.load_pointer(where)
        record = self._record(f.load(64, slot, 8))
        trail.leave(f, self.own, record, _straddling(record_words(self.table)))
        f.ret(f"ptr {record}")

    def exact(self) -> None:
        """One hash table over the whole key."""
        f = self.f
        hit, miss = f.block("hit"), f.block("miss")
        base = f.load_pointer(f.at("%sw", 8 * (self.slot + slots.HASH_BASE)))
        where = self._probe(base, self._word(slots.HASH_MASK), self.key, hit, miss, sift=False)
        f.enter(hit)
        self._found(where)
        f.enter(miss)
        f.ret(f"ptr {self.records}")

    def _ordered(self, words: int) -> tuple[str, str, str]:
        """Open the loop over groups or blocks, with so many words: (row, label of the next round, label after the
        loop)."""
        f = self.f
        index = f.variable(64)
        rows = f.load_pointer(f.at("%sw", 8 * (self.slot + slots.GROUPS)))
        count = self._word(slots.GROUP_COUNT)
        head, body, following, done = f.block("rows"), f.block("row"), f.block("next"), f.block("done")
        f.enter(head)
        i = f.load(64, index, 8)
        f.branch(f.compare("ult", i, count), body, done)
        f.enter(following)
        f.store(f.op("add", f.load(64, index, 8), const(64, 1)), index, 8)
        f.jump(head)
        f.enter(body)
        return f.at(rows, f.op("mul", i, const(64, 8 * words))), following, done

    def longest(self) -> None:
        """LPM: groups are in order of prefix length, so the first hit is the longest."""
        f = self.f
        row, following, done = self._ordered(slots.GROUP_HEAD + self.hashed)
        masks = (f.load(64, f.at(row, 8 * (slots.GROUP_HEAD + w)), 8) for w in range(self.hashed))
        key = [f.op("and", word, mask) for word, mask in zip(self.key, masks, strict=True)]
        hit = f.block("hit")
        where = self._probe(f.load_pointer(row), f.load(64, f.at(row, 8), 8), key, hit, following)
        f.enter(hit)
        self._found(where)
        f.enter(done)
        f.ret(f"ptr {self.records}")

    def best(self) -> None:
        """Ternary and range: the highest rank of all blocks; one that cannot beat it ends the search."""
        f = self.f
        best, rank = f.variable(64), f.variable(64)
        keys = f.alloca(f"[{2 * slots.ODD_NIBBLES} x i8]")
        low = const(64, 0x0F0F0F0F0F0F0F0F)
        for w, value in enumerate(self.key[: slots.ODD_NIBBLES // 8]):
            f.store(f.op("and", value, low), f.at(keys, 8 * w), 8)
            f.store(f.op("and", f.lshr(value, 4), low), f.at(keys, slots.ODD_NIBBLES + 8 * w), 8)
        row, following, done = self._ordered(slots.GROUP_HEAD)
        search = f.block("search")
        top = f.load(64, f.at(row, 16), 8)
        f.branch(f.compare("ugt", top, f.load(64, rank, 8)), search, done)
        f.enter(search)
        is_leaf = f.compare("eq", f.load(64, f.at(row, 8), 8), const(64, slots.LEAF))
        self._block(f.load_pointer(row), is_leaf, keys, best, rank)
        f.jump(following)
        f.enter(done)
        f.ret(f"ptr {self._record(f.load(64, best, 8))}")

    def _block(self, base: str, is_leaf: Value, keys: str, best: str, rank: str) -> None:
        """Search a leaf, or the leaves of a summary that may match. What their matrices leave is stored for all of
        them before it is looked at, so that the processor waits for their memory at once."""
        f = self.f
        leaves = f.alloca(f"[{16 * slots.SUMMARY_COLUMNS} x i8]")  # pairs: address of rows, columns
        count = f.variable(64)
        f.store(const(64, 0), count, 8)
        single, summary, compare = (f.block(n) for n in ("single", "summary", "compare"))
        f.branch(is_leaf, single, summary)
        f.enter(single)
        self._leaf(base, f.load(64, base, 8), keys, leaves, count)
        f.jump(compare)
        f.enter(summary)
        self._summary(base, keys, leaves, count, rank)
        f.enter(compare)
        self._compare(leaves, count, best, rank)

    def _summary(self, base: str, keys: str, leaves: str, count: str, rank: str) -> None:
        """Store what is left in the leaves of a summary."""
        f, size = self.f, slots.SUMMARY_COLUMNS
        columns, rows = self._columns(base, f.load(64, base, 8), keys, size)
        bits = f.variable(64)

        def word_of_columns(w: Value) -> None:
            f.store(f.load(64, f.at(columns, f.shl(w, 3)), 8), bits, 8)
            again, one, high, done = (f.block(n) for n in ("again", "one", "high", "done"))
            f.enter(again)
            f.branch(f.compare("eq", f.load(64, bits, 8), const(64, 0)), done, one)
            f.enter(one)
            at = f.at(rows, f.op("mul", f.op("add", f.shl(w, 6), self._lowest(bits)), const(64, 8 * slots.SUMMARY_ROW)))
            f.branch(f.compare("ugt", f.load(64, f.at(at, 8), 8), f.load(64, rank, 8)), high, again)
            f.enter(high)
            self._leaf(f.load_pointer(at), f.load(64, f.at(at, 16), 8), keys, leaves, count)
            f.jump(again)
            f.enter(done)

        loop(f, f.load(64, f.at(base, 8), 8), word_of_columns)

    def _leaf(self, base: str, nibbles: Value, keys: str, leaves: str, count: str) -> None:
        """Store what a leaf's matrix leaves of its columns."""
        f = self.f
        columns, rows = self._columns(base, nibbles, keys, slots.LEAF_COLUMNS)
        n, some = f.load(64, count, 8), f.load(64, columns, 8)
        at = f.at(leaves, f.shl(n, 4))
        f.line(f"store ptr {rows}, ptr {at}, align 8")
        f.store(some, f.at(at, 8), 8)
        f.store(f.op("add", n, f.resize(f.compare("ne", some, const(64, 0)), 64)), count, 8)

    def _columns(self, base: str, nibbles: Value, keys: str, size: int) -> tuple[str, str]:
        """Return where the columns of a block are that its matrix leaves, as bits, and where its rows are."""
        f = self.f
        kind, ones = "i64", "-1"
        if size > slots.WORD_BITS:
            kind, ones = f"<{size // slots.WORD_BITS} x i64>", f"<{', '.join(['i64 -1'] * (size // slots.WORD_BITS))}>"
        ahead, offset = f.variable(64), f.variable(64)
        together, columns = f.alloca(f"[{size // 8} x i8]"), f.alloca(f"[{size // 8} x i8]")
        f.store(nibbles, ahead, 8)
        f.store(const(64, 8 * slots.BLOCK_HEAD), offset, 8)
        f.line(f"store {kind} {ones}, ptr {together}, align 8")
        again, one, done = (f.block(n) for n in ("nibbles", "nibble", "left"))
        f.enter(again)
        left = f.load(64, ahead, 8)
        f.branch(f.compare("eq", left, const(64, 0)), done, one)
        f.enter(one)
        place = f.op("sub", f.op("and", left, const(64, 0xFF)), const(64, 1))
        nibble = f.resize(f.load(8, f.at(keys, place)), 64)
        value = f.op("mul", nibble, const(64, size // 8))
        at = f.load(64, offset, 8)
        row = f.value(f"load {kind}, ptr {f.at(f.at(base, at), value)}, align 8")
        before = f.value(f"load {kind}, ptr {together}, align 8")
        f.line(f"store {kind} {f.value(f'and {kind} {before}, {row}')}, ptr {together}, align 8")
        f.store(f.op("add", at, const(64, size // 8 * slots.NIBBLE)), offset, 8)
        f.store(f.lshr(left, 8), ahead, 8)
        f.jump(again)
        f.enter(done)
        f.line(f"store {kind} {f.value(f'load {kind}, ptr {together}, align 8')}, ptr {columns}, align 8")
        return columns, f.at(base, 8 * slots.BLOCK_HEAD + size // 8 * slots.NIBBLE * slots.BLOCK_NIBBLES)

    def _compare(self, leaves: str, count: str, best: str, rank: str) -> None:
        """Take the highest rank of the entries that match of those that are left."""
        f = self.f
        bits = f.variable(64)

        def leaf(i: Value) -> None:
            at = f.at(leaves, f.shl(i, 4))
            rows = f.load_pointer(at)
            f.store(f.load(64, f.at(at, 8), 8), bits, 8)
            again, some, higher, take, done = (f.block(n) for n in ("again", "some", "higher", "take", "done"))
            f.enter(again)
            f.branch(f.compare("eq", f.load(64, bits, 8), const(64, 0)), done, some)
            f.enter(some)
            row = f.at(rows, f.op("mul", self._lowest(bits), const(64, 8 * slots.leaf_row(self.layout))))
            r = f.load(64, f.at(row, 8), 8)
            f.branch(f.compare("ugt", r, f.load(64, rank, 8)), higher, again)
            f.enter(higher)
            f.branch(self._matches(f.at(row, 16)), take, again)
            f.enter(take)
            f.store(f.load(64, row, 8), best, 8)
            f.store(r, rank, 8)
            f.jump(again)
            f.enter(done)

        loop(f, f.load(64, count, 8), leaf)

    def _lowest(self, bits: str) -> Value:
        """Take the lowest bit out of a variable and return its number."""
        f = self.f
        b = f.load(64, bits, 8)
        f.store(f.op("and", b, f.op("sub", b, const(64, 1))), bits, 8)
        return f.trailing_zeros(b)

    def _matches(self, at: str) -> Value:
        """Compare the key with that of an entry under its mask, and with its bounds."""
        f, n = self.f, self.layout.words
        differ = const(64, 0)
        for w in range(n):
            masked = f.op("and", self.key[w], f.load(64, f.at(at, 8 * (n + w)), 8))
            differ = f.op("or", differ, f.op("xor", masked, f.load(64, f.at(at, 8 * w), 8)))
        inside = f.compare("eq", differ, const(64, 0))
        for i in self.layout.ranges:
            place = self.layout.places[i]
            v = self._range_value(place.word, place.words)
            for bound, how in ((0, "uge"), (self.layout.range_words, "ule")):
                limit = f.load(64 * place.words, f.at(at, 8 * (2 * n + bound + place.word)), 8)
                inside = f.op("and", inside, f.compare(how, v, limit))
        return inside

    def _range_value(self, word: int, words: int) -> Value:
        f = self.f
        v = const(64 * words, 0)
        for i in range(words):
            part = f.resize(self.key[self.layout.words + word + i], 64 * words)
            v = f.op("or", v, f.shl(part, 64 * i))
        return v
