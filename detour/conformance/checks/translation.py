# SPDX-License-Identifier: Apache-2.0
"""Types that the server translates (section 18.1, and 8.4.6 on `type_name`): numbers of the controller's width, and
strings. The suite's own program has a table of numbers; strings are tried with programs that have them."""

from __future__ import annotations

from detour.conformance.steps import *


def _of_kind(kind: str) -> list[ConformanceCheck]:
    """`kind`: number or string."""
    entry = sample.translated(kind)
    return rows(
        f"translated.{kind}",
        ("match", "18.1.3", "in a match field is kept and read back as written", stores(entry.insert)),
        ("apart", "18.1.3", "that differs from another one is the key of another entry", prepare(entry),
         stores(sample.translated(kind, 1).insert), holds(entry.key, entry)),
        ("again", "18.1.3", "that an entry has already is refused in an INSERT", prepare(entry),
         refuse(EXISTS, entry.insert)),
        ("modified", "18.1.3", "names the entry that is modified", prepare(entry), accept(entry.modify),
         holds(entry.key, entry)),
        ("deleted", "18.1.3", "names the entry that is deleted", prepare(entry), accept(entry.delete),
         lacks(entry.key)),
        ("unknown", "18.1.3", "that no entry has is not found", refuse(NOT_FOUND, entry.delete)),
        ("param", "18.1.4", "as an action parameter is kept and read back as written",
         stores(sample.translated(kind, 0, "param").insert)),
        ("wildcard", "18.1.3", "is as written in what a request for the whole table gives", prepare(entry),
         holds(entry.own, entry)),
        title=f"a translated {kind} ",
    )  # fmt: skip


checks = [
    *_of_kind("number"),
    *_of_kind("string"),
    *rows(
        "translated",
        ("wide", "18.1.3", "a translated number is as wide as the controller's type: its highest one is no overflow",
         stores(sample.translated("number", highest=True).insert)),
        ("overflow", "8.4.6", "a translated number beyond the controller's width is refused",
         refuse((OUT_OF_RANGE, INVALID_ARGUMENT), sample.translated("number", beyond=True).insert)),
    ),
]  # fmt: skip
