# SPDX-License-Identifier: Apache-2.0
"""Commands about tables, their entries, and the members and groups of action profiles that entries point to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from detour.engine.bmv2api import types
from detour.engine.bmv2api.commands import values
from detour.engine.bmv2api.commands.arguments import (
    ACTION_NAME,
    ENTRY,
    GROUP,
    MEMBER,
    PARAMETERS,
    PROFILE,
    PROFILE_ACTION,
    TABLE,
    constant,
    integer,
    named,
    split_at_arrow,
    split_priority,
)
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.program import NamedAction, NamedProfile, NamedTable
from detour.engine.bmv2api.commands.registry import COMMANDS, REST, Argument, CommandByTable, Parsed, calls, command
from detour.engine.bmv2api.interface import Api, MatchKey, Standard

# -- what there is


def _shown(named: Mapping[str, NamedTable] | Mapping[str, NamedAction]) -> list[str]:
    return [named[name].shown() for name in sorted(named)]


command("show_tables", "list tables defined in the P4 program", constant(lambda program: program.tables))(
    lambda api, tables: _shown(tables)
)
command("show_actions", "list actions defined in the P4 program", constant(lambda program: program.actions))(
    lambda api, actions: _shown(actions)
)
command("table_show_actions", "list a table's actions", TABLE)(lambda api, table: _shown(table.actions))
command("table_info", "show a table's key and actions", TABLE)(
    lambda api, table: [table.shown(), "*" * 80, *_shown(table.actions)]
)


# -- entries that run actions


def _parse_entry(words: list[str], parsed: Parsed) -> tuple[MatchKey, list[bytes], types.EntryOptions]:
    table, action = parsed.values
    words, options = split_priority(table, words)
    before, after = split_at_arrow(words)
    if len(before) != len(table.key):
        values.match_key(table, before)  # says what is wanted
    data = values.action_data(action, after)
    return values.match_key(table, before), data, options


_NEW_ENTRY = Argument("MATCH... => PARAMETER... [PRIORITY]", _parse_entry, most=REST)


def _shown_action(action: NamedAction, data: list[bytes]) -> Iterable[str]:
    yield "{:20} {}".format("action:", action.asked)
    yield "{:20} {}".format("runtime data:", "\t".join(values.colons(each) for each in data))


@command("table_add", "add an entry", TABLE, ACTION_NAME, _NEW_ENTRY)
def table_add(
    api: Api,
    table: NamedTable,
    action: NamedAction,
    key: MatchKey,
    data: list[bytes],
    options: types.EntryOptions,
) -> Iterable[str]:
    yield f"Adding entry to {table.match_type.name.lower()} match table {table.asked}"
    yield "{:20} {}".format("match key:", "\t".join(values.shown_param(param) for param in key))
    yield from _shown_action(action, data)
    handle = api.standard.bm_mt_add_entry(table.name, key, action.name, data, options)
    yield f"Entry has been added with handle {handle}"


@command("table_set_default", "set a table's default action", TABLE, ACTION_NAME, PARAMETERS)
def table_set_default(api: Api, table: NamedTable, action: NamedAction, data: list[bytes]) -> Iterable[str]:
    yield f"Setting default action of {table.asked}"
    yield from _shown_action(action, data)
    api.standard.bm_mt_set_default_action(table.name, action.name, data)


@command("table_modify", "give an entry another action", TABLE, ACTION_NAME, ENTRY, PARAMETERS)
def table_modify(api: Api, table: NamedTable, action: NamedAction, handle: int, data: list[bytes]) -> Iterable[str]:
    yield f"Modifying entry {handle} for {table.match_type.name.lower()} match table {table.asked}"
    api.standard.bm_mt_modify_entry(table.name, handle, action.name, data)


calls("table_reset_default", "reset a table's default entry to the program's", Standard.bm_mt_reset_default_entry,
      TABLE)  # fmt: skip
calls("table_delete", "delete an entry", Standard.bm_mt_delete_entry, TABLE, ENTRY,
      before="Deleting entry {1} from {0.asked}")  # fmt: skip


def _check_ages(table: NamedTable) -> None:
    if not table.ages:
        raise CommandError(f"Table {table.asked} does not support entry timeouts")


calls("table_set_timeout", "set an entry's time-out, where the table has them", Standard.bm_mt_set_entry_ttl,
      named("TABLE", lambda program: program.tables, _check_ages), ENTRY, integer("MILLISECONDS", "timeout"),
      before="Setting a {2} ms timeout for entry {1}")  # fmt: skip

# -- all tables

calls(
    "table_num_entries", "show how many entries a table has", Standard.bm_mt_get_num_entries, TABLE, result="{answer}"
)
calls("table_clear", "delete all entries but the default entry", Standard.bm_mt_clear_entries, TABLE,
      constant(lambda program: False))  # fmt: skip

# -- members of action profiles

calls("act_prof_create_member", "add a member", Standard.bm_mt_act_prof_add_member, PROFILE, PROFILE_ACTION, PARAMETERS,
      result="Member has been created with handle {answer}")  # fmt: skip
calls("act_prof_delete_member", "delete a member", Standard.bm_mt_act_prof_delete_member, PROFILE, MEMBER)


@command("act_prof_modify_member", "give a member another action", PROFILE, PROFILE_ACTION, MEMBER, PARAMETERS)
def act_prof_modify_member(
    api: Api, profile: NamedProfile, action: NamedAction, member: int, data: list[bytes]
) -> Iterable[str]:
    api.standard.bm_mt_act_prof_modify_member(profile.name, member, action.name, data)
    return ()


# -- groups of action profiles


def _check_selector(profile: NamedProfile) -> None:
    if not profile.with_selection:
        raise CommandError("Cannot run this command on an action profile without selector")


_SELECTOR = named("PROFILE", lambda program: program.profiles, _check_selector)

calls("act_prof_create_group", "add a group without members", Standard.bm_mt_act_prof_create_group, _SELECTOR,
      result="Group has been created with handle {answer}")  # fmt: skip
calls("act_prof_delete_group", "delete a group", Standard.bm_mt_act_prof_delete_group, _SELECTOR, GROUP)
calls("act_prof_add_member_to_group", "put a member into a group", Standard.bm_mt_act_prof_add_member_to_group,
      _SELECTOR, MEMBER, GROUP)  # fmt: skip
calls("act_prof_remove_member_from_group", "take a member out of a group",
      Standard.bm_mt_act_prof_remove_member_from_group, _SELECTOR, MEMBER, GROUP)  # fmt: skip

# -- dumps of action profiles


def _dumped_member(member: types.ProfileMember, *_: object) -> Iterable[str]:
    yield f"Dumping member {member.mbr_handle}"
    yield values.dumped_action(member.action_name, member.action_data)


def _dumped_group(group: types.ProfileGroup, *_: object) -> Iterable[str]:
    yield f"Dumping group {group.grp_handle}"
    yield f"Members: [{', '.join(str(member) for member in group.mbr_handles)}]"


@command("act_prof_dump", "show all of an action profile", PROFILE)
def act_prof_dump(api: Api, profile: NamedProfile) -> Iterable[str]:
    yield values.LINE
    yield "MEMBERS"
    for member in api.standard.bm_mt_act_prof_get_members(profile.name):
        yield values.STARS
        yield from _dumped_member(member)
    if profile.with_selection:
        groups = api.standard.bm_mt_act_prof_get_groups(profile.name)
        yield values.LINE
        yield "GROUPS"
        for group in groups:
            yield values.STARS
            yield from _dumped_group(group)


calls(
    "act_prof_dump_member", "show a member", Standard.bm_mt_act_prof_get_member, PROFILE, MEMBER, result=_dumped_member
)
calls("act_prof_dump_group", "show a group", Standard.bm_mt_act_prof_get_group, PROFILE, GROUP, result=_dumped_group)

# -- entries that point to members and groups


def _check_indirect(table: NamedTable) -> None:
    if table.profile is None:
        raise CommandError("Cannot run this command on non-indirect table")


def _check_groups(table: NamedTable) -> None:
    _check_indirect(table)
    if not table.with_groups:
        raise CommandError("Cannot run this command on non-indirect table, or on indirect table with no selector")


_INDIRECT = named("TABLE", lambda program: program.tables, _check_indirect)
_WITH_GROUPS = named("TABLE", lambda program: program.tables, _check_groups)


def _pointing(target: Argument) -> Argument:
    def parse(words: list[str], parsed: Parsed) -> tuple[MatchKey, int, types.EntryOptions]:
        table = parsed.values[0]
        words, options = split_priority(table, words)
        before, after = split_at_arrow(words)
        if len(after) != 1:
            raise CommandError("Invalid arguments, could not find handle", "one handle comes after =>")
        handle = target.parse(after, parsed)
        return values.match_key(table, before), handle, options

    return Argument(f"MATCH... => {target.usage} [PRIORITY]", parse, most=REST)


_ADDING, _ADDED = "Adding entry to indirect match table {0.name}", "Entry has been added with handle {answer}"
calls("table_indirect_add", "add an entry that points to a member", Standard.bm_mt_indirect_add_entry, _INDIRECT,
      _pointing(MEMBER), before=_ADDING, result=_ADDED)  # fmt: skip
calls("table_indirect_add_with_group", "add an entry that points to a group", Standard.bm_mt_indirect_ws_add_entry,
      _WITH_GROUPS, _pointing(GROUP), before=_ADDING, result=_ADDED)  # fmt: skip
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
    """Declare a command that takes a table in place of its action profile."""
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

# -- dumps


def _action_entry(entry: types.ActionEntry) -> Iterable[str]:
    match entry.action_type:
        case types.ActionType.NONE:
            yield "EMPTY"
        case types.ActionType.ACTION_DATA:
            yield values.dumped_action(entry.action_name, entry.action_data)
        case types.ActionType.MBR_HANDLE:
            yield f"Index: member({entry.mbr_handle})"
        case types.ActionType.GRP_HANDLE:
            yield f"Index: group({entry.grp_handle})"


def _entry(entry: types.BmEntry, table: NamedTable, *_: object) -> Iterable[str]:
    width = max(20, max((len(f.name) for f in table.key), default=0))
    yield f"Dumping entry {hex(entry.entry_handle)}"
    yield "Match key:"
    for param, f in zip(entry.match_key, table.key, strict=False):
        yield f"* {f.name:{width}}: {types.MatchType(param.type).name:10}{values.dumped_param(param)}"
    if (entry.options.priority or 0) >= 0:
        yield f"Priority: {entry.options.priority}"
    yield from _action_entry(entry.action_entry)
    if entry.life is not None:
        yield f"Life: {entry.life.time_since_hit_ms}ms since hit, timeout is {entry.life.timeout_ms}ms"


@command("table_dump", "show all of a table", TABLE)
def table_dump(api: Api, table: NamedTable) -> Iterable[str]:
    entries = api.standard.bm_mt_get_entries(table.name)
    yield values.LINE
    yield "TABLE ENTRIES"
    for entry in entries:
        yield values.STARS
        yield from _entry(entry, table)
    if table.profile is not None:
        yield from act_prof_dump(api, table.profile)
    default = api.standard.bm_mt_get_default_entry(table.name)
    yield values.LINE
    yield "Dumping default entry"
    yield from _action_entry(default)
    yield values.LINE


calls("table_dump_entry", "show an entry", Standard.bm_mt_get_entry, TABLE, ENTRY, result=_entry)


def _parse_key(words: list[str], parsed: Parsed) -> tuple[MatchKey, types.EntryOptions]:
    table = parsed.values[0]
    words, options = split_priority(table, words)
    return values.match_key(table, words), options


_KEY = Argument("MATCH... [PRIORITY]", _parse_key, least=0, most=REST)
calls("table_dump_entry_from_key", "show the entry with a key", Standard.bm_mt_get_entry_from_key, TABLE, _KEY,
      result=_entry)  # fmt: skip
