# SPDX-License-Identifier: Apache-2.0
"""Commands that show what tables and action profiles hold."""

from __future__ import annotations

from detour.engine.bmv2api.commands.indirect import by_table
from detour.engine.bmv2api.commands.program import NamedProfile, NamedTable
from detour.engine.bmv2api.commands.registry import CommandScope, CommandWork, Say, at_least, command, exactly, handle
from detour.engine.bmv2api.commands.tables import priority_of, table_of
from detour.engine.bmv2api.commands.values import dumped_param, hexadecimal, match_key
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.types import ActionEntry, ActionType, BmEntry, MatchType, ProfileGroup, ProfileMember

_LINE, _STARS = "==========", "**********"


def _action(say: Say, name: str | None, data: list[bytes] | None) -> None:
    say(f"Action entry: {name} - {', '.join(hexadecimal(each) for each in data or [])}")


def _action_entry(say: Say, entry: ActionEntry) -> None:
    match entry.action_type:
        case ActionType.NONE:
            say("EMPTY")
        case ActionType.ACTION_DATA:
            _action(say, entry.action_name, entry.action_data)
        case ActionType.MBR_HANDLE:
            say(f"Index: member({entry.mbr_handle})")
        case ActionType.GRP_HANDLE:
            say(f"Index: group({entry.grp_handle})")


def _entry(say: Say, table: NamedTable, entry: BmEntry) -> None:
    width = max(20, max((len(f.name) for f in table.key), default=0))
    say(f"Dumping entry {hex(entry.entry_handle)}")
    say("Match key:")
    for param, f in zip(entry.match_key, table.key, strict=False):
        say(f"* {f.name:{width}}: {MatchType(param.type).name:10}{dumped_param(param)}")
    if (entry.options.priority or 0) >= 0:
        say(f"Priority: {entry.options.priority}")
    _action_entry(say, entry.action_entry)
    if entry.life is not None:
        say(f"Life: {entry.life.time_since_hit_ms}ms since hit, timeout is {entry.life.timeout_ms}ms")


def _member(say: Say, member: ProfileMember) -> None:
    say(f"Dumping member {member.mbr_handle}")
    _action(say, member.action_name, member.action_data)


def _group(say: Say, group: ProfileGroup) -> None:
    say(f"Dumping group {group.grp_handle}")
    say(f"Members: [{', '.join(str(member) for member in group.mbr_handles)}]")


def _profile(api: Api, say: Say, profile: NamedProfile) -> None:
    say(_LINE)
    say("MEMBERS")
    for member in api.standard.bm_mt_act_prof_get_members(0, profile.name):
        say(_STARS)
        _member(say, member)
    if profile.with_selection:
        groups = api.standard.bm_mt_act_prof_get_groups(0, profile.name)
        say(_LINE)
        say("GROUPS")
        for group in groups:
            say(_STARS)
            _group(say, group)


@command("table_dump", "TABLE", "show all of a table", "table")
def table_dump(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])

    def work(api: Api, say: Say) -> None:
        entries = api.standard.bm_mt_get_entries(0, table.name)
        say(_LINE)
        say("TABLE ENTRIES")
        for entry in entries:
            say(_STARS)
            _entry(say, table, entry)
        if table.profile is not None:
            _profile(api, say, table.profile)
        default = api.standard.bm_mt_get_default_entry(0, table.name)
        say(_LINE)
        say("Dumping default entry")
        _action_entry(say, default)
        say(_LINE)

    return work


@command("table_dump_entry", "TABLE HANDLE", "show an entry", "table")
def table_dump_entry(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    table, number = table_of(scope, words[0]), handle(words[1], "entry")
    return lambda api, say: _entry(say, table, api.standard.bm_mt_get_entry(0, table.name, number))


@command("table_dump_entry_from_key", "TABLE MATCH... [PRIORITY]", "show the entry with a key", "table")
def table_dump_entry_from_key(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 1)
    table, rest = table_of(scope, words[0]), words[1:]
    options = priority_of(table, rest)
    key = match_key(table, rest)
    return lambda api, say: _entry(say, table, api.standard.bm_mt_get_entry_from_key(0, table.name, key, options))


@command("act_prof_dump", "PROFILE", "show all of an action profile", "profile")
def act_prof_dump(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    profile = scope.program.profiles.find(words[0])
    return lambda api, say: _profile(api, say, profile)


@command("act_prof_dump_member", "PROFILE MEMBER", "show a member", "profile")
def act_prof_dump_member(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    profile, number = scope.program.profiles.find(words[0]), handle(words[1], "member")
    return lambda api, say: _member(say, api.standard.bm_mt_act_prof_get_member(0, profile.name, number))


@command("act_prof_dump_group", "PROFILE GROUP", "show a group", "profile")
def act_prof_dump_group(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    profile, number = scope.program.profiles.find(words[0]), handle(words[1], "group")
    return lambda api, say: _group(say, api.standard.bm_mt_act_prof_get_group(0, profile.name, number))


by_table("table_dump_member", "act_prof_dump_member", groups=False, deprecated=False)
by_table("table_dump_group", "act_prof_dump_group", groups=False, deprecated=False)
