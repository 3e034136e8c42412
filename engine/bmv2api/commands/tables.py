# SPDX-License-Identifier: Apache-2.0
"""Commands about tables and their entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from detour.engine.bmv2api.commands import values
from detour.engine.bmv2api.commands.arguments import (
    ACTION_NAME,
    ENTRY,
    PARAMETERS,
    TABLE,
    constant,
    integer,
    named,
    split_at_arrow,
    split_priority,
)
from detour.engine.bmv2api.commands.errors import CommandError
from detour.engine.bmv2api.commands.indirect import act_prof_dump
from detour.engine.bmv2api.commands.program import NamedAction, NamedTable
from detour.engine.bmv2api.commands.registry import REST, Argument, Parsed, calls, command
from detour.engine.bmv2api.interface import Api, Standard
from detour.engine.bmv2api.types import ActionEntry, ActionType, BmEntry, EntryOptions, MatchParam, MatchType

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


def _parse_entry(words: list[str], parsed: Parsed) -> tuple[list[MatchParam], list[bytes], EntryOptions]:
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
    api: Api, table: NamedTable, action: NamedAction, key: list[MatchParam], data: list[bytes], options: EntryOptions
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

calls("table_num_entries", "show how many entries a table has", Standard.bm_mt_get_num_entries, TABLE, result="{}")
calls("table_clear", "delete all entries but the default entry", Standard.bm_mt_clear_entries, TABLE,
      constant(lambda program: False))  # fmt: skip

# -- dumps


def _action_entry(entry: ActionEntry) -> Iterable[str]:
    match entry.action_type:
        case ActionType.NONE:
            yield "EMPTY"
        case ActionType.ACTION_DATA:
            yield values.dumped_action(entry.action_name, entry.action_data)
        case ActionType.MBR_HANDLE:
            yield f"Index: member({entry.mbr_handle})"
        case ActionType.GRP_HANDLE:
            yield f"Index: group({entry.grp_handle})"


def _entry(table: NamedTable, entry: BmEntry) -> Iterable[str]:
    width = max(20, max((len(f.name) for f in table.key), default=0))
    yield f"Dumping entry {hex(entry.entry_handle)}"
    yield "Match key:"
    for param, f in zip(entry.match_key, table.key, strict=False):
        yield f"* {f.name:{width}}: {MatchType(param.type).name:10}{values.dumped_param(param)}"
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
        yield from _entry(table, entry)
    if table.profile is not None:
        yield from act_prof_dump(api, table.profile)
    default = api.standard.bm_mt_get_default_entry(table.name)
    yield values.LINE
    yield "Dumping default entry"
    yield from _action_entry(default)
    yield values.LINE


@command("table_dump_entry", "show an entry", TABLE, ENTRY)
def table_dump_entry(api: Api, table: NamedTable, handle: int) -> Iterable[str]:
    return _entry(table, api.standard.bm_mt_get_entry(table.name, handle))


def _parse_key(words: list[str], parsed: Parsed) -> tuple[list[MatchParam], EntryOptions]:
    table = parsed.values[0]
    words, options = split_priority(table, words)
    return values.match_key(table, words), options


_KEY = Argument("MATCH... [PRIORITY]", _parse_key, least=0, most=REST)


@command("table_dump_entry_from_key", "show the entry with a key", TABLE, _KEY)
def table_dump_entry_from_key(
    api: Api, table: NamedTable, key: list[MatchParam], options: EntryOptions
) -> Iterable[str]:
    return _entry(table, api.standard.bm_mt_get_entry_from_key(table.name, key, options))
