# SPDX-License-Identifier: Apache-2.0
"""Binary strings (section 8.3) in every place that has one: a form of the same value is accepted or refused there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from finsy.proto import p4r

from detour.conformance.steps import *
from detour.control.p4runtime.codec import to_bytes

_TOO_WIDE = (OUT_OF_RANGE, INVALID_ARGUMENT)
"""8.3 says OUT_OF_RANGE, the sections on match fields and actions INVALID_ARGUMENT"""


@dataclass(frozen=True)
class StringPlace:
    """`make(string)` is an entity with the string in it, for an update of a type; `bits` is its width."""

    name: str
    make: Callable[[bytes], Recipe]
    bits: Callable[[Samples], int]
    update: str = "INSERT"
    least: int = 0


def _field(kind: str, part: str, least: int, **others: object) -> StringPlace:
    def make(string: bytes) -> Recipe:
        return sample.matching(kind, **{**others, part: string})

    return StringPlace(f"{kind}.{part}", make, lambda s: s.field_of(kind).bitwidth, least=least)


def _highest(bits: int) -> int:
    return (1 << bits) - 1


_ARGUMENT = "action.action.params[0].value"
_FIRST_OF_SET = "action.action_profile_action_set.action_profile_actions[0]"
_PLACES = (
    *(_field(kind, "value", 0) for kind in ("exact", "lpm", "ternary")),
    _field("ternary", "mask", 1, value=b"\0"),
    _field("range", "low", 1, high=_highest),
    _field("range", "high", 1, low=b"\1"),
    _field("optional", "value", 0),
    StringPlace("param", lambda b: sample.entry("exact").but(_ARGUMENT, b), lambda s: s.param_bits("exact")),
    StringPlace("default_param", lambda b: sample.default("exact").but(_ARGUMENT, b), lambda s: s.param_bits("exact"),
                "MODIFY"),
    StringPlace("member_param", lambda b: sample.member().but("action.params[0].value", b),
                lambda s: s.param_bits("selecting")),
    StringPlace("one_shot_param", lambda b: sample.one_shot().but(f"{_FIRST_OF_SET}.action.params[0].value", b),
                lambda s: s.param_bits("selecting")),
    StringPlace("register", lambda b: sample.register(0).but("data.bitstring", b),
                lambda s: s.unsigned_register.type_spec.bitstring.bit.bitwidth, "MODIFY"),
    StringPlace("value_set", lambda b: sample.value_set(1).but("members[0].match[0].exact.value", b),
                lambda s: s.object("value_sets").match[0].bitwidth, "MODIFY"),
)  # fmt: skip


@step
def _round_trip(session: CheckSession, place: StringPlace, sent: Callable[[int, int], bytes]) -> None:
    """Check that the bytes of `sent(bits, least value)` are accepted and come back in their shortest form."""
    string = sent(place.bits(session.samples), place.least)
    shortest = place.make(to_bytes(int.from_bytes(string, "big")))
    stores(place.make(string).update(place.update), shortest, request=shortest.own)(session)


@step
def _refused(session: CheckSession, place: StringPlace, sent: Callable[[int], bytes]) -> None:
    refuse(_TOO_WIDE, place.make(sent(place.bits(session.samples))).update(place.update))(session)


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
    # A full range is none, so the highest value is left out where it could be one.
    ("highest", "the highest value of the width is accepted and read back",
     lambda bits, least: to_bytes(_highest(bits) - 1 or 1)),
)  # fmt: skip
_REFUSED = (
    ("empty", "an empty string is refused", lambda bits: b""),
    ("one_bit_more", "the first value that needs a bit more than the width is refused",
     lambda bits: to_bytes(_highest(bits) + 1)),
    ("one_byte_more", "a value that needs a byte more than the width is refused",
     lambda bits: b"\1" + _highest(bits).to_bytes((bits + 7) // 8, "big")),
)  # fmt: skip


def _signed(string: bytes) -> Recipe:
    """An element of a register of the width of the specification's examples."""

    def make(samples: Samples) -> p4r.Entity:
        register_id = samples.signed_register.preamble.id
        return p4r.Entity(register_entry=p4r.RegisterEntry(register_id=register_id, index=p4r.Index(index=0)))

    return Recipe(make).but("data.bitstring", string)


# Table "Examples of Valid Bytestring Encoding" and the next one, for int<12>: sent, and read back if it is taken.
_SIGNED = (
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
)
checks = [
    *(check for place in _PLACES for check in rows(
        f"bytes.{place.name}",
        *((name, "8.3", text, _round_trip(place, sent)) for name, text, sent in _ACCEPTED),
        *((name, "8.3", text, _refused(place, sent)) for name, text, sent in _REFUSED), title=f"{place.name}: ")),
    *rows(
        "bytes.signed",
        *((name, "8.3", f"{string.hex() or 'an empty string'} is refused", refuse(_TOO_WIDE, _signed(string).modify))
          if back is None else
          (name, "8.3", f"{string.hex()} is accepted and read back in its shortest form",
           stores(_signed(string).modify, _signed(back))) for name, string, back in _SIGNED), title="int<12>: "),
]  # fmt: skip
