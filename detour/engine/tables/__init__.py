# SPDX-License-Identifier: Apache-2.0
"""Match-action state of a switch: tables, action profiles, counters, meters, registers, value sets.

Everything that native code reads lies in NumPy arrays owned by these objects; when one grows, its new address
is written to the switch's state block. So state is changed only while the loop does not run this switch.
"""

from detour.engine.tables.arrays import CounterArray, MeterArray, MeterRates, RegisterArray, ValueSet
from detour.engine.tables.errors import EntryExists, NoSuchEntry, TableError, TableFull
from detour.engine.tables.match import Entry, GroupRef, MatchTable, MemberRef
from detour.engine.tables.profile import ActionProfile, GroupMember

__all__ = [
    "ActionProfile",
    "CounterArray",
    "Entry",
    "EntryExists",
    "GroupMember",
    "GroupRef",
    "MatchTable",
    "MemberRef",
    "MeterArray",
    "MeterRates",
    "NoSuchEntry",
    "RegisterArray",
    "TableError",
    "TableFull",
    "ValueSet",
]
