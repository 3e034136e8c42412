# SPDX-License-Identifier: Apache-2.0
"""Commands about tables whose entries point to members and groups, and about action profiles."""

from __future__ import annotations

import sys

from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import NamedProfile, NamedTable
from detour.engine.bmv2api.commands.registry import (
    COMMANDS,
    CommandScope,
    CommandWork,
    Say,
    at_least,
    command,
    exactly,
    handle,
)
from detour.engine.bmv2api.commands.tables import action_of, priority_of, split_at_arrow, table_of, without_arrow
from detour.engine.bmv2api.commands.values import action_data, match_key
from detour.engine.bmv2api.interface import Api

# -- members


def _profile(scope: CommandScope, name: str) -> NamedProfile:
    return scope.program.profiles.find(name)


def _selector(scope: CommandScope, name: str) -> NamedProfile:
    found = _profile(scope, name)
    if not found.with_selection:
        raise CommandError("Cannot run this command on an action profile without selector")
    return found


@command("act_prof_create_member", "PROFILE ACTION PARAMETER...", "add a member", "profile", "profile action")
def act_prof_create_member(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 2)
    profile = _profile(scope, words[0])
    action = action_of(profile, words[1], words[0])
    data = action_data(action, without_arrow(words[2:]))

    def work(api: Api, say: Say) -> None:
        made = api.standard.bm_mt_act_prof_add_member(0, profile.name, action.name, data)
        say(f"Member has been created with handle {made}")

    return work


@command("act_prof_delete_member", "PROFILE MEMBER", "delete a member", "profile")
def act_prof_delete_member(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    profile, member = _profile(scope, words[0]), handle(words[1], "member")
    return lambda api, say: api.standard.bm_mt_act_prof_delete_member(0, profile.name, member)


@command(
    "act_prof_modify_member", "PROFILE ACTION MEMBER PARAMETER...", "give a member another action",
    "profile", "profile action",
)  # fmt: skip
def act_prof_modify_member(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 3)
    profile = _profile(scope, words[0])
    action = action_of(profile, words[1], words[0])
    member = handle(words[2], "member")
    data = action_data(action, without_arrow(words[3:]))
    return lambda api, say: api.standard.bm_mt_act_prof_modify_member(0, profile.name, member, action.name, data)


# -- groups


@command("act_prof_create_group", "PROFILE", "add a group without members", "profile")
def act_prof_create_group(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    profile = _selector(scope, words[0])

    def work(api: Api, say: Say) -> None:
        say(f"Group has been created with handle {api.standard.bm_mt_act_prof_create_group(0, profile.name)}")

    return work


@command("act_prof_delete_group", "PROFILE GROUP", "delete a group", "profile")
def act_prof_delete_group(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    profile, group = _selector(scope, words[0]), handle(words[1], "group")
    return lambda api, say: api.standard.bm_mt_act_prof_delete_group(0, profile.name, group)


@command("act_prof_add_member_to_group", "PROFILE MEMBER GROUP", "put a member into a group", "profile")
def act_prof_add_member_to_group(words: list[str], scope: CommandScope) -> CommandWork:
    profile, member, group = _pair(words, scope)
    return lambda api, say: api.standard.bm_mt_act_prof_add_member_to_group(0, profile.name, member, group)


@command("act_prof_remove_member_from_group", "PROFILE MEMBER GROUP", "take a member out of a group", "profile")
def act_prof_remove_member_from_group(words: list[str], scope: CommandScope) -> CommandWork:
    profile, member, group = _pair(words, scope)
    return lambda api, say: api.standard.bm_mt_act_prof_remove_member_from_group(0, profile.name, member, group)


def _pair(words: list[str], scope: CommandScope) -> tuple[NamedProfile, int, int]:
    exactly(words, 3)
    return _selector(scope, words[0]), handle(words[1], "member"), handle(words[2], "group")


# -- entries


def _indirect(scope: CommandScope, name: str, groups: bool) -> NamedTable:
    table = table_of(scope, name)
    if table.profile is None:
        raise CommandError("Cannot run this command on non-indirect table")
    if groups and not table.with_groups:
        raise CommandError("Cannot run this command on non-indirect table, or on indirect table with no selector")
    return table


def _add(words: list[str], scope: CommandScope, groups: bool) -> CommandWork:
    at_least(words, 2)
    table = _indirect(scope, words[0], groups)
    rest = words[1:]
    options = priority_of(table, rest)
    before, after = split_at_arrow(rest)
    if len(after) != 1:
        raise CommandError("Invalid arguments, could not find handle", "one handle comes after =>")
    number, key = handle(after[0], "group" if groups else "member"), match_key(table, before)

    def work(api: Api, say: Say) -> None:
        say(f"Adding entry to indirect match table {table.name}")
        add = api.standard.bm_mt_indirect_ws_add_entry if groups else api.standard.bm_mt_indirect_add_entry
        say(f"Entry has been added with handle {add(0, table.name, key, number, options)}")

    return work


@command("table_indirect_add", "TABLE MATCH... => MEMBER [PRIORITY]", "add an entry that points to a member", "table")
def table_indirect_add(words: list[str], scope: CommandScope) -> CommandWork:
    return _add(words, scope, groups=False)


@command(
    "table_indirect_add_with_group",
    "TABLE MATCH... => GROUP [PRIORITY]",
    "add an entry that points to a group",
    "table",
)
def table_indirect_add_with_group(words: list[str], scope: CommandScope) -> CommandWork:
    return _add(words, scope, groups=True)


@command("table_indirect_delete", "TABLE HANDLE", "delete an entry of an indirect table", "table")
def table_indirect_delete(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    table, number = _indirect(scope, words[0], False), handle(words[1], "entry")

    def work(api: Api, say: Say) -> None:
        say(f"Deleting entry {number} from {words[0]}")
        api.standard.bm_mt_indirect_delete_entry(0, table.name, number)

    return work


@command("table_indirect_set_default", "TABLE MEMBER", "let the default entry point to a member", "table")
def table_indirect_set_default(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    table, member = _indirect(scope, words[0], False), handle(words[1], "member")
    return lambda api, say: api.standard.bm_mt_indirect_set_default_member(0, table.name, member)


@command("table_indirect_set_default_with_group", "TABLE GROUP", "let the default entry point to a group", "table")
def table_indirect_set_default_with_group(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    table, group = _indirect(scope, words[0], True), handle(words[1], "group")
    return lambda api, say: api.standard.bm_mt_indirect_ws_set_default_group(0, table.name, group)


@command("table_indirect_reset_default", "TABLE", "reset the default entry of an indirect table", "table")
def table_indirect_reset_default(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])
    return lambda api, say: api.standard.bm_mt_indirect_reset_default_entry(0, table.name)


# -- the same by the table's name, as it was before profiles had names

_BY_TABLE = {
    "table_indirect_create_member": ("act_prof_create_member", False),
    "table_indirect_delete_member": ("act_prof_delete_member", False),
    "table_indirect_modify_member": ("act_prof_modify_member", False),
    "table_indirect_create_group": ("act_prof_create_group", True),
    "table_indirect_delete_group": ("act_prof_delete_group", True),
    "table_indirect_add_member_to_group": ("act_prof_add_member_to_group", True),
    "table_indirect_remove_member_from_group": ("act_prof_remove_member_from_group", True),
}


def by_table(name: str, substitute: str, groups: bool, deprecated: bool = True) -> None:
    """Declares a command that takes a table in place of its action profile."""
    of = COMMANDS[substitute]
    text = f"{of.text} (deprecated: use {substitute})" if deprecated else of.text
    takes = tuple({"profile": "table", "profile action": "action"}.get(each, each) for each in of.takes)

    @command(name, of.usage.replace("PROFILE", "TABLE"), text, *takes)
    def understand(words: list[str], scope: CommandScope) -> CommandWork:
        at_least(words, 1)
        profile = _indirect(scope, words[0], groups).profile
        assert profile is not None
        if deprecated and profile.tables > 1:
            raise CommandError("Legacy command does not work with shared action profiles", f"use {substitute}")
        work = of.understand([profile.name, *words[1:]], scope)

        def warned(api: Api, say: Say) -> None:
            print(f"This is a deprecated command, use '{substitute}' instead", file=sys.stderr)
            work(api, say)

        return warned if deprecated else work


for _name, (_substitute, _groups) in _BY_TABLE.items():
    by_table(_name, _substitute, _groups)
