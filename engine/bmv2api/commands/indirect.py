# SPDX-License-Identifier: Apache-2.0
"""Commands about tables whose entries point to members and groups, and about action profiles."""

from __future__ import annotations

from collections.abc import Iterable

from detour.engine.bmv2api.commands.arguments import (
    ACTION_NAME,
    ENTRY,
    GROUP,
    MEMBER,
    PARAMETERS,
    PROFILE,
    PROFILE_ACTION,
    TABLE,
    named,
    split_at_arrow,
    split_priority,
)
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import NamedAction, NamedProfile, NamedTable
from detour.engine.bmv2api.commands.registry import COMMANDS, REST, Argument, CommandByTable, Parsed, calls, command
from detour.engine.bmv2api.commands.values import LINE, STARS, dumped_action, match_key
from detour.engine.bmv2api.interface import Api, Standard
from detour.engine.bmv2api.types import EntryOptions, MatchParam, ProfileGroup, ProfileMember

# -- members

calls("act_prof_create_member", "add a member", Standard.bm_mt_act_prof_add_member, PROFILE, PROFILE_ACTION, PARAMETERS,
      result="Member has been created with handle {}")  # fmt: skip
calls("act_prof_delete_member", "delete a member", Standard.bm_mt_act_prof_delete_member, PROFILE, MEMBER)


@command("act_prof_modify_member", "give a member another action", PROFILE, PROFILE_ACTION, MEMBER, PARAMETERS)
def act_prof_modify_member(
    api: Api, profile: NamedProfile, action: NamedAction, member: int, data: list[bytes]
) -> Iterable[str]:
    api.standard.bm_mt_act_prof_modify_member(profile.name, member, action.name, data)
    return ()


# -- groups


def _check_selector(profile: NamedProfile) -> None:
    if not profile.with_selection:
        raise CommandError("Cannot run this command on an action profile without selector")


_SELECTOR = named("PROFILE", lambda program: program.profiles, _check_selector)

calls("act_prof_create_group", "add a group without members", Standard.bm_mt_act_prof_create_group, _SELECTOR,
      result="Group has been created with handle {}")  # fmt: skip
calls("act_prof_delete_group", "delete a group", Standard.bm_mt_act_prof_delete_group, _SELECTOR, GROUP)
calls("act_prof_add_member_to_group", "put a member into a group", Standard.bm_mt_act_prof_add_member_to_group,
      _SELECTOR, MEMBER, GROUP)  # fmt: skip
calls("act_prof_remove_member_from_group", "take a member out of a group",
      Standard.bm_mt_act_prof_remove_member_from_group, _SELECTOR, MEMBER, GROUP)  # fmt: skip

# -- dumps


def _member(member: ProfileMember) -> Iterable[str]:
    yield f"Dumping member {member.mbr_handle}"
    yield dumped_action(member.action_name, member.action_data)


def _group(group: ProfileGroup) -> Iterable[str]:
    yield f"Dumping group {group.grp_handle}"
    yield f"Members: [{', '.join(str(member) for member in group.mbr_handles)}]"


@command("act_prof_dump", "show all of an action profile", PROFILE)
def act_prof_dump(api: Api, profile: NamedProfile) -> Iterable[str]:
    yield LINE
    yield "MEMBERS"
    for member in api.standard.bm_mt_act_prof_get_members(profile.name):
        yield STARS
        yield from _member(member)
    if profile.with_selection:
        groups = api.standard.bm_mt_act_prof_get_groups(profile.name)
        yield LINE
        yield "GROUPS"
        for group in groups:
            yield STARS
            yield from _group(group)


calls("act_prof_dump_member", "show a member", Standard.bm_mt_act_prof_get_member, PROFILE, MEMBER, result=_member)
calls("act_prof_dump_group", "show a group", Standard.bm_mt_act_prof_get_group, PROFILE, GROUP, result=_group)

# -- entries


def _check_indirect(table: NamedTable) -> None:
    if table.profile is None:
        raise CommandError("Cannot run this command on non-indirect table")


def _check_groups(table: NamedTable) -> None:
    _check_indirect(table)
    if not table.with_groups:
        raise CommandError("Cannot run this command on non-indirect table, or on indirect table with no selector")


_INDIRECT = named("TABLE", lambda program: program.tables, _check_indirect)
_WITH_GROUPS = named("TABLE", lambda program: program.tables, _check_groups)


def _new_entry(target: Argument) -> Argument:
    def parse(words: list[str], parsed: Parsed) -> tuple[list[MatchParam], int, EntryOptions]:
        table = parsed.values[0]
        words, options = split_priority(table, words)
        before, after = split_at_arrow(words)
        if len(after) != 1:
            raise CommandError("Invalid arguments, could not find handle", "one handle comes after =>")
        handle = target.parse(after, parsed)
        return match_key(table, before), handle, options

    return Argument(f"MATCH... => {target.usage} [PRIORITY]", parse, most=REST)


_ADDING, _ADDED = "Adding entry to indirect match table {0.name}", "Entry has been added with handle {}"
calls("table_indirect_add", "add an entry that points to a member", Standard.bm_mt_indirect_add_entry, _INDIRECT,
      _new_entry(MEMBER), before=_ADDING, result=_ADDED)  # fmt: skip
calls("table_indirect_add_with_group", "add an entry that points to a group", Standard.bm_mt_indirect_ws_add_entry,
      _WITH_GROUPS, _new_entry(GROUP), before=_ADDING, result=_ADDED)  # fmt: skip
calls("table_indirect_delete", "delete an entry of an indirect table", Standard.bm_mt_indirect_delete_entry, _INDIRECT,
      ENTRY, before="Deleting entry {1} from {0.asked}")  # fmt: skip
calls("table_indirect_set_default", "let the default entry point to a member",
      Standard.bm_mt_indirect_set_default_member, _INDIRECT, MEMBER)  # fmt: skip
calls("table_indirect_set_default_with_group", "let the default entry point to a group",
      Standard.bm_mt_indirect_ws_set_default_group, _WITH_GROUPS, GROUP)  # fmt: skip
calls("table_indirect_reset_default", "reset the default entry of an indirect table",
      Standard.bm_mt_indirect_reset_default_entry, TABLE)  # fmt: skip

# -- the same by the table's name, as it was before profiles had names


def by_table(name: str, substitute: str, table: Argument = _INDIRECT, deprecated: bool = True) -> None:
    """Declares a command that takes a table in place of its action profile."""
    of = COMMANDS[substitute]
    text = f"{of.text} (deprecated: use {substitute})" if deprecated else of.text
    arguments = (table, *(ACTION_NAME if each is PROFILE_ACTION else each for each in of.arguments[1:]))
    COMMANDS[name] = CommandByTable(name, text, arguments, of.run, of, deprecated)


by_table("table_indirect_create_member", "act_prof_create_member")
by_table("table_indirect_delete_member", "act_prof_delete_member")
by_table("table_indirect_modify_member", "act_prof_modify_member")
by_table("table_indirect_create_group", "act_prof_create_group", _WITH_GROUPS)
by_table("table_indirect_delete_group", "act_prof_delete_group", _WITH_GROUPS)
by_table("table_indirect_add_member_to_group", "act_prof_add_member_to_group", _WITH_GROUPS)
by_table("table_indirect_remove_member_from_group", "act_prof_remove_member_from_group", _WITH_GROUPS)
by_table("table_dump_member", "act_prof_dump_member", deprecated=False)
by_table("table_dump_group", "act_prof_dump_group", deprecated=False)
