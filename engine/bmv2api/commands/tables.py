# SPDX-License-Identifier: Apache-2.0
"""Commands about tables and their entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from detour.engine.bmv2api.commands.arguments import (
    ACTION,
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
from detour.engine.bmv2api.commands.program import NamedAction, NamedTable
from detour.engine.bmv2api.commands.registry import REST, Argument, Parsed, calls, command
from detour.engine.bmv2api.commands.values import action_data, colons, match_key, shown_param
from detour.engine.bmv2api.interface import Api, Standard
from detour.engine.bmv2api.types import EntryOptions, MatchParam

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
        match_key(table, before)  # says what is wanted
    data = action_data(action, after)
    return match_key(table, before), data, options


_NEW_ENTRY = Argument("MATCH... => PARAMETER... [PRIORITY]", _parse_entry, most=REST)


def _shown_action(action: NamedAction, data: list[bytes]) -> Iterable[str]:
    yield "{:20} {}".format("action:", action.asked)
    yield "{:20} {}".format("runtime data:", "\t".join(colons(each) for each in data))


@command("table_add", "add an entry", TABLE, ACTION, _NEW_ENTRY)
def table_add(
    api: Api, table: NamedTable, action: NamedAction, key: list[MatchParam], data: list[bytes], options: EntryOptions
) -> Iterable[str]:
    yield f"Adding entry to {table.match_type.name.lower()} match table {table.asked}"
    yield "{:20} {}".format("match key:", "\t".join(shown_param(param) for param in key))
    yield from _shown_action(action, data)
    handle = api.standard.bm_mt_add_entry(0, table.name, key, action.name, data, options)
    yield f"Entry has been added with handle {handle}"


@command("table_set_default", "set a table's default action", TABLE, ACTION, PARAMETERS)
def table_set_default(api: Api, table: NamedTable, action: NamedAction, data: list[bytes]) -> Iterable[str]:
    yield f"Setting default action of {table.asked}"
    yield from _shown_action(action, data)
    api.standard.bm_mt_set_default_action(0, table.name, action.name, data)


@command("table_modify", "give an entry another action", TABLE, ACTION, ENTRY, PARAMETERS)
def table_modify(api: Api, table: NamedTable, action: NamedAction, handle: int, data: list[bytes]) -> Iterable[str]:
    yield f"Modifying entry {handle} for {table.match_type.name.lower()} match table {table.asked}"
    api.standard.bm_mt_modify_entry(0, table.name, handle, action.name, data)


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
