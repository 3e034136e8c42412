# SPDX-License-Identifier: Apache-2.0
"""Commands about tables and their entries."""

from __future__ import annotations

from detour.engine.bmv2api.commands.errors import CommandError, allowed
from detour.engine.bmv2api.commands.program import NamedAction, NamedProfile, NamedTable
from detour.engine.bmv2api.commands.registry import (
    CommandScope,
    CommandWork,
    Say,
    at_least,
    command,
    exactly,
    handle,
    whole,
)
from detour.engine.bmv2api.commands.values import action_data, colons, match_key, shown_param
from detour.engine.bmv2api.interface import Api
from detour.engine.bmv2api.types import EntryOptions, MatchParam


def table_of(scope: CommandScope, name: str) -> NamedTable:
    """The table that a command names."""
    return scope.program.tables.find(name)


def action_of(owner: NamedTable | NamedProfile, name: str, asked: str) -> NamedAction:
    """The action of a table or profile that a command names; `asked`: how it names the owner. simple_switch_CLI wants
    the name to be that of one action in the whole program; here it may be, of the owner's alone."""
    suited = [action for full, action in owner.actions.items() if full == name or full.endswith(f".{name}")]
    found = owner.actions.get(name, suited[0] if len(suited) == 1 else None)
    if found is None:
        what = f"Table {asked} has" if isinstance(owner, NamedTable) else f"Action profile '{asked}' has"
        raise CommandError(f"{what} no action {name}", allowed(owner.actions))
    return found


def priority_of(table: NamedTable, words: list[str]) -> EntryOptions:
    """Takes the priority, the last word, where entries have one."""
    if not table.prioritised:
        return EntryOptions(0)
    try:
        return EntryOptions(whole(words[-1], "priority", 0))
    except (CommandError, IndexError):
        raise CommandError(
            "Table is ternary, but could not extract a valid priority from args",
            "give it as the last word, from 0",
        ) from None
    finally:
        if words:
            words.pop()


def split_at_arrow(words: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `=>` and after it."""
    if "=>" not in words:
        raise CommandError("Missing =>", "put it between the match fields and what follows")
    at = words.index("=>")
    return words[:at], words[at + 1 :]


def without_arrow(words: list[str]) -> list[str]:
    """Parameters, if somebody put `=>` in front of them."""
    return words[1:] if words[:1] == ["=>"] else words


# -- what there is


@command("show_tables", "", "list tables defined in the P4 program")
def show_tables(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)
    tables = scope.program.tables

    def work(api: Api, say: Say) -> None:
        for name in sorted(tables):
            say(tables[name].shown())

    return work


@command("show_actions", "", "list actions defined in the P4 program")
def show_actions(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 0)
    actions = scope.program.actions

    def work(api: Api, say: Say) -> None:
        for name in sorted(actions):
            say(actions[name].shown())

    return work


@command("table_show_actions", "TABLE", "list a table's actions", "table")
def table_show_actions(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])

    def work(api: Api, say: Say) -> None:
        for name in sorted(table.actions):
            say(table.actions[name].shown())

    return work


@command("table_info", "TABLE", "show a table's key and actions", "table")
def table_info(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])

    def work(api: Api, say: Say) -> None:
        say(table.shown())
        say("*" * 80)
        for name in sorted(table.actions):
            say(table.actions[name].shown())

    return work


# -- entries that run actions


def say_added(say: Say, key: list[MatchParam], action: str, data: list[bytes]) -> None:
    """Shows what is being added."""
    say("{:20} {}".format("match key:", "\t".join(shown_param(param) for param in key)))
    say("{:20} {}".format("action:", action))
    say("{:20} {}".format("runtime data:", "\t".join(colons(each) for each in data)))


@command("table_add", "TABLE ACTION MATCH... => PARAMETER... [PRIORITY]", "add an entry", "table", "action")
def table_add(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 3)
    table = table_of(scope, words[0])
    action = action_of(table, words[1], words[0])
    rest = words[2:]
    options = priority_of(table, rest)
    before, after = split_at_arrow(rest)
    if len(before) != len(table.key):
        match_key(table, before)  # says what is wanted
    data = action_data(action, after)
    key = match_key(table, before)

    def work(api: Api, say: Say) -> None:
        say(f"Adding entry to {table.match_type.name.lower()} match table {words[0]}")
        say_added(say, key, words[1], data)
        made = api.standard.bm_mt_add_entry(0, table.name, key, action.name, data, options)
        say(f"Entry has been added with handle {made}")

    return work


@command("table_set_default", "TABLE ACTION PARAMETER...", "set a table's default action", "table", "action")
def table_set_default(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 2)
    table = table_of(scope, words[0])
    action = action_of(table, words[1], words[0])
    data = action_data(action, without_arrow(words[2:]))

    def work(api: Api, say: Say) -> None:
        say(f"Setting default action of {words[0]}")
        say("{:20} {}".format("action:", words[1]))
        say("{:20} {}".format("runtime data:", "\t".join(colons(each) for each in data)))
        api.standard.bm_mt_set_default_action(0, table.name, action.name, data)

    return work


@command("table_reset_default", "TABLE", "reset a table's default entry to the program's", "table")
def table_reset_default(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])
    return lambda api, say: api.standard.bm_mt_reset_default_entry(0, table.name)


@command("table_modify", "TABLE ACTION HANDLE PARAMETER...", "give an entry another action", "table", "action")
def table_modify(words: list[str], scope: CommandScope) -> CommandWork:
    at_least(words, 3)
    table = table_of(scope, words[0])
    action = action_of(table, words[1], words[0])
    number = handle(words[2], "entry")
    data = action_data(action, without_arrow(words[3:]))

    def work(api: Api, say: Say) -> None:
        say(f"Modifying entry {number} for {table.match_type.name.lower()} match table {words[0]}")
        api.standard.bm_mt_modify_entry(0, table.name, number, action.name, data)

    return work


@command("table_delete", "TABLE HANDLE", "delete an entry", "table")
def table_delete(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 2)
    table, number = table_of(scope, words[0]), handle(words[1], "entry")

    def work(api: Api, say: Say) -> None:
        say(f"Deleting entry {number} from {words[0]}")
        api.standard.bm_mt_delete_entry(0, table.name, number)

    return work


@command("table_set_timeout", "TABLE HANDLE MILLISECONDS", "set an entry's time-out, where the table has them", "table")
def table_set_timeout(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 3)
    table = table_of(scope, words[0])
    if not table.ages:
        raise CommandError(f"Table {words[0]} does not support entry timeouts")
    number, timeout = handle(words[1], "entry"), whole(words[2], "timeout", 0)

    def work(api: Api, say: Say) -> None:
        say(f"Setting a {timeout} ms timeout for entry {number}")
        api.standard.bm_mt_set_entry_ttl(0, table.name, number, timeout)

    return work


# -- all tables


@command("table_num_entries", "TABLE", "show how many entries a table has", "table")
def table_num_entries(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])
    return lambda api, say: say(str(api.standard.bm_mt_get_num_entries(0, table.name)))


@command("table_clear", "TABLE", "delete all entries but the default entry", "table")
def table_clear(words: list[str], scope: CommandScope) -> CommandWork:
    exactly(words, 1)
    table = table_of(scope, words[0])
    return lambda api, say: api.standard.bm_mt_clear_entries(0, table.name, False)
