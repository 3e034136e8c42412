# SPDX-License-Identifier: Apache-2.0
"""Binary strings (section 8.3) in every place that has one: a form of the same value is accepted or refused there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from finsy.proto import p4i, p4r

from detour.control.conformance.checks.entities import duplicate, inner
from detour.control.conformance.link import Canonical
from detour.control.conformance.model import add
from detour.control.conformance.samples import EXACT, LPM, OPTIONAL, RANGE, TERNARY, MissingObject, Samples
from detour.control.conformance.session import CheckSession, insert, modify
from detour.control.p4runtime.codec import to_bytes

_TOO_WIDE = (Canonical.OUT_OF_RANGE, Canonical.INVALID_ARGUMENT)
"""8.3 says OUT_OF_RANGE, the sections on match fields and actions INVALID_ARGUMENT"""


@dataclass(frozen=True)
class StringPlace:
    """`make(samples, string)` is an update with the string in it; `bits` is its width. `read` is the request that shows
    it. `others` beside it depend on its value: only forms of one value can be tried there (`one_value`)."""

    name: str
    make: Callable[[Samples, bytes], p4r.Update]
    bits: Callable[[Samples], int]
    needs: Callable[[Samples], list[p4r.Entity]] = lambda _: []
    least: int = 0


def _in_match(kind: int, part: str) -> Callable[[Samples, bytes], p4r.Update]:
    name = p4i.MatchField.MatchType.Name(kind).lower()  # pyright: ignore[reportArgumentType]

    def make(samples: Samples, string: bytes) -> p4r.Update:
        entity = samples.entry(samples.table_of(kind))
        chosen = samples.field_of(kind)
        for m in entity.table_entry.match:
            if m.field_id == chosen.id:
                match = getattr(m, name)
                full = (1 << chosen.bitwidth) - 1
                if part == "mask":
                    match.value = b"\0"
                if part == "high":
                    match.low = b"\1"
                if part == "low":
                    match.high = to_bytes(full)
                setattr(match, part, string)
        return insert(entity)

    return make


def _in_entry(samples: Samples, string: bytes) -> p4r.Update:
    entity = samples.entry(samples.exact)
    entity.table_entry.action.action.params[0].value = string
    return insert(entity)


def _entry_bits(samples: Samples) -> int:
    params = samples.params(samples.usable(samples.exact)[0].id)
    if not params:
        raise MissingObject("the exact table has no action with parameters")
    return params[0].bitwidth


def _in_default(samples: Samples, string: bytes) -> p4r.Update:
    entity = samples.default(samples.exact)
    if not entity.table_entry.action.action.params:
        raise MissingObject("the exact table has no default action with parameters")
    entity.table_entry.action.action.params[0].value = string
    return modify(entity)


def _in_member(samples: Samples, string: bytes) -> p4r.Update:
    entity = samples.member()
    entity.action_profile_member.action.params[0].value = string
    return insert(entity)


def _in_one_shot(samples: Samples, string: bytes) -> p4r.Update:
    entity = samples.one_shot()
    entity.table_entry.action.action_profile_action_set.action_profile_actions[0].action.params[0].value = string
    return insert(entity)


def _member_bits(samples: Samples) -> int:
    params = samples.params(samples.usable(samples.selecting)[0].id)
    if not params:
        raise MissingObject("the table with a selector has no action with parameters")
    return params[0].bitwidth


def _in_register(samples: Samples, string: bytes) -> p4r.Update:
    entity = samples.register(0)
    entity.register_entry.data.bitstring = string
    return modify(entity)


def _in_value_set(samples: Samples, string: bytes) -> p4r.Update:
    entity = samples.value_set(1)
    entity.value_set_entry.members[0].match[0].exact.value = string
    return modify(entity)


_PLACES = (
    *(
        StringPlace(f"{name}.{part}", _in_match(kind, part), lambda s, kind=kind: s.field_of(kind).bitwidth, least=low)
        for kind, name, part, low in (
            (EXACT, "exact", "value", 0), (LPM, "lpm", "value", 0), (TERNARY, "ternary", "value", 0),
            (TERNARY, "ternary", "mask", 1), (RANGE, "range", "low", 1), (RANGE, "range", "high", 1),
            (OPTIONAL, "optional", "value", 0),
        )
    ),
    StringPlace("param", _in_entry, _entry_bits),
    StringPlace("default_param", _in_default, _entry_bits),
    StringPlace("member_param", _in_member, _member_bits),
    StringPlace("one_shot_param", _in_one_shot, _member_bits),
    StringPlace("register", _in_register, lambda s: s.unsigned_register.type_spec.bitstring.bit.bitwidth),
    StringPlace("value_set", _in_value_set, lambda s: s.object("value_sets").match[0].bitwidth),
)  # fmt: skip


def _request(update: p4r.Update) -> p4r.Entity:
    """The request that shows what an update has written: in a fresh table there is nothing else."""
    request = duplicate(update.entity)
    message = inner(request)
    for f, _ in message.ListFields():
        if f.name not in ("table_id", "is_default_action", "action_profile_id", "member_id", "register_id", "index",
                          "value_set_id"):  # fmt: skip
            message.ClearField(f.name)
    return request


def _round_trip(place: StringPlace, sent: Callable[[int, int], bytes], session: CheckSession) -> None:
    """What `sent(bits, least value)` gives must be accepted and come back in its shortest form."""
    string = sent(place.bits(session.samples), place.least)
    session.prepare(*place.needs(session.samples))
    update = place.make(session.samples, string)
    session.accept(update)
    canonical = place.make(session.samples, to_bytes(int.from_bytes(string, "big")))
    session.holds(_request(update), canonical.entity)


def _refused(place: StringPlace, sent: Callable[[int], bytes], codes: tuple[int, ...], session: CheckSession) -> None:
    string = sent(place.bits(session.samples))
    session.prepare(*place.needs(session.samples))
    session.refuse(codes, place.make(session.samples, string))


def _highest(bits: int) -> int:
    return (1 << bits) - 1


def _second_highest(bits: int, _: int) -> int:
    """A full range is none, so it is left out where it could be one."""
    return _highest(bits) - 1 or 1


_ACCEPTED = (
    ("shortest", "the shortest string of a value is accepted and read back",
     lambda bits, least: to_bytes(min(5, _highest(bits)))),
    ("padded", "a string with a zero byte in front is accepted and read back in its shortest form",
     lambda bits, least: b"\0" + to_bytes(min(5, _highest(bits)))),
    ("long", "a string of 64 bytes is accepted if its value fits, and read back in its shortest form",
     lambda bits, least: to_bytes(min(5, _highest(bits))).rjust(64, b"\0")),
    ("lowest", "the lowest value is accepted and read back as one byte", lambda bits, least: to_bytes(least)),
    ("lowest_padded", "the lowest value in full width is accepted and read back as one byte",
     lambda bits, least: least.to_bytes((bits + 7) // 8 + 1, "big")),
    ("highest", "the highest value of the width is accepted and read back",
     lambda bits, least: to_bytes(_second_highest(bits, least))),
)  # fmt: skip
_REFUSED = (
    ("empty", "an empty string is refused", lambda bits: b""),
    ("one_bit_more", "the first value that needs a bit more than the width is refused",
     lambda bits: to_bytes(_highest(bits) + 1)),
    ("one_byte_more", "a value that needs a byte more than the width is refused",
     lambda bits: b"\1" + _highest(bits).to_bytes((bits + 7) // 8, "big")),
)  # fmt: skip


for _place in _PLACES:
    for _name, _text, _sent in _ACCEPTED:
        add(f"bytes.{_place.name}.{_name}", "8.3", f"{_place.name}: {_text}", partial(_round_trip, _place, _sent))
    for _name, _text, _sent in _REFUSED:
        add(f"bytes.{_place.name}.{_name}", "8.3", f"{_place.name}: {_text}",
            partial(_refused, _place, _sent, _TOO_WIDE))  # fmt: skip


def _signed(string: bytes, canonical: bytes | None, session: CheckSession) -> None:
    """A string for a signed register: refused without `canonical`. Bits: those of the specification's examples."""
    register = session.samples.signed_register
    entity = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=register.preamble.id, index=p4r.Index(index=0)))
    request = duplicate(entity)
    entity.register_entry.data.bitstring = string
    if canonical is None:
        session.refuse(_TOO_WIDE, modify(entity))
        return
    session.accept(modify(entity))
    entity.register_entry.data.bitstring = canonical
    session.holds(request, entity)


# Table "Examples of Valid Bytestring Encoding" and the next one, for int<12>.
for _name, _string, _back in (
    ("positive", b"\x63", b"\x63"),
    ("zero_padded", b"\0\0", b"\0"),
    ("negative", b"\xfd\x1d", b"\xfd\x1d"),
    ("negative_short", b"\x9d", b"\x9d"),
    ("sign_extended", b"\xff\xff\x9d", b"\x9d"),
    ("lowest", b"\xf8\x00", b"\xf8\x00"),
    ("highest", b"\x07\xff", b"\x07\xff"),
    ("positive_with_high_bit", b"\x00\x9d", b"\x00\x9d"),
    ("too_low", b"\x8d\x1d", None),
    ("too_high", b"\x08\x00", None),
    ("empty", b"", None),
):
    _text = "is refused" if _back is None else "is accepted and read back in its shortest form"
    add(f"bytes.signed.{_name}", "8.3", f"int<12>: {_string.hex() or 'an empty string'} {_text}",
        partial(_signed, _string, _back))  # fmt: skip
