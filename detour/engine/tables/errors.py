# SPDX-License-Identifier: Apache-2.0
"""Errors of changes to tables."""

from detour.base.errors import DetourError


class TableError(DetourError):
    """A key, action, argument or index that does not fit the table or array."""


class TableFull(TableError):
    """The table, action profile or group has as many entries as the program allows."""


class EntryExists(TableError):
    """An entry with this key (and priority), or a member or group with this id, is there already."""


class NoSuchEntry(TableError):
    """No entry, member or group with this key, handle or id."""
