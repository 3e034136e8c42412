# SPDX-License-Identifier: Apache-2.0
"""Commands that show what tables and action profiles hold."""

from __future__ import annotations

from collections.abc import Iterable

from detour.engine.bmv2api import types
from detour.engine.bmv2api.commands.arguments import ENTRY, GROUP, MEMBER, PROFILE, TABLE, split_priority
from detour.engine.bmv2api.commands.indirect import by_table
from detour.engine.bmv2api.commands.program import NamedProfile, NamedTable
from detour.engine.bmv2api.commands.registry import REST, Argument, Parsed, command
from detour.engine.bmv2api.commands.values import dumped_param, match_key
from detour.engine.bmv2api.interface import Api

_LINE, _STARS = "==========", "**********"


def _action(name: str | None, data: list[bytes] | None) -> str:
    return f"Action entry: {name} - {', '.join(each.hex() for each in data or [])}"


def _action_entry(entry: types.ActionEntry) -> Iterable[str]:
    match entry.action_type:
        case types.ActionType.NONE:
            yield "EMPTY"
        case types.ActionType.ACTION_DATA:
            yield _action(entry.action_name, entry.action_data)
        case types.ActionType.MBR_HANDLE:
            yield f"Index: member({entry.mbr_handle})"
        case types.ActionType.GRP_HANDLE:
            yield f"Index: group({entry.grp_handle})"


def _entry(table: NamedTable, entry: types.BmEntry) -> Iterable[str]:
    width = max(20, max((len(f.name) for f in table.key), default=0))
    yield f"Dumping entry {hex(entry.entry_handle)}"
    yield "Match key:"
    for param, f in zip(entry.match_key, table.key, strict=False):
        yield f"* {f.name:{width}}: {types.MatchType(param.type).name:10}{dumped_param(param)}"
    if (entry.options.priority or 0) >= 0:
        yield f"Priority: {entry.options.priority}"
    yield from _action_entry(entry.action_entry)
    if entry.life is not None:
        yield f"Life: {entry.life.time_since_hit_ms}ms since hit, timeout is {entry.life.timeout_ms}ms"


def _member(member: types.ProfileMember) -> Iterable[str]:
    yield f"Dumping member {member.mbr_handle}"
    yield _action(member.action_name, member.action_data)


def _group(group: types.ProfileGroup) -> Iterable[str]:
    yield f"Dumping group {group.grp_handle}"
    yield f"Members: [{', '.join(str(member) for member in group.mbr_handles)}]"


@command("table_dump", "show all of a table", TABLE)
def table_dump(api: Api, table: NamedTable) -> Iterable[str]:
    entries = api.standard.bm_mt_get_entries(0, table.name)
    yield _LINE
    yield "TABLE ENTRIES"
    for entry in entries:
        yield _STARS
        yield from _entry(table, entry)
    if table.profile is not None:
        yield from act_prof_dump(api, table.profile)
    default = api.standard.bm_mt_get_default_entry(0, table.name)
    yield _LINE
    yield "Dumping default entry"
    yield from _action_entry(default)
    yield _LINE


@command("table_dump_entry", "show an entry", TABLE, ENTRY)
def table_dump_entry(api: Api, table: NamedTable, handle: int) -> Iterable[str]:
    return _entry(table, api.standard.bm_mt_get_entry(0, table.name, handle))


def _parse_key(words: list[str], parsed: Parsed) -> tuple[list[types.MatchParam], types.EntryOptions]:
    table = parsed.values[0]
    words, options = split_priority(table, words)
    return match_key(table, words), options


_KEY = Argument("MATCH... [PRIORITY]", _parse_key, least=0, most=REST)


@command("table_dump_entry_from_key", "show the entry with a key", TABLE, _KEY)
def table_dump_entry_from_key(
    api: Api, table: NamedTable, key: list[types.MatchParam], options: types.EntryOptions
) -> Iterable[str]:
    return _entry(table, api.standard.bm_mt_get_entry_from_key(0, table.name, key, options))


@command("act_prof_dump", "show all of an action profile", PROFILE)
def act_prof_dump(api: Api, profile: NamedProfile) -> Iterable[str]:
    yield _LINE
    yield "MEMBERS"
    for member in api.standard.bm_mt_act_prof_get_members(0, profile.name):
        yield _STARS
        yield from _member(member)
    if profile.with_selection:
        groups = api.standard.bm_mt_act_prof_get_groups(0, profile.name)
        yield _LINE
        yield "GROUPS"
        for group in groups:
            yield _STARS
            yield from _group(group)


@command("act_prof_dump_member", "show a member", PROFILE, MEMBER)
def act_prof_dump_member(api: Api, profile: NamedProfile, member: int) -> Iterable[str]:
    return _member(api.standard.bm_mt_act_prof_get_member(0, profile.name, member))


@command("act_prof_dump_group", "show a group", PROFILE, GROUP)
def act_prof_dump_group(api: Api, profile: NamedProfile, group: int) -> Iterable[str]:
    return _group(api.standard.bm_mt_act_prof_get_group(0, profile.name, group))


by_table("table_dump_member", "act_prof_dump_member", deprecated=False)
by_table("table_dump_group", "act_prof_dump_group", deprecated=False)
