# SPDX-License-Identifier: Apache-2.0
"""JSON whose objects and arrays know the line in which they begin, so that what is wrong with one can be told by it."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import read_text


class JsonObject(dict[str, Any]):
    """An object; `line`: where its brace is."""

    line = 1


class JsonArray(list[Any]):
    """An array; `line`: where its bracket is."""

    line = 1


class _Decoder(json.JSONDecoder):
    """The library's own scanner in Python, told to remember where it was."""

    def __init__(self, text: str) -> None:
        super().__init__(object_pairs_hook=_object)
        whole, array = json.decoder.JSONObject, json.decoder.JSONArray  # pyright: ignore[reportAttributeAccessIssue]

        def located(parse: Callable[..., Any], kind: type) -> Callable[..., Any]:
            def parsed(s_and_end: tuple[str, int], *rest: Any, **options: Any) -> tuple[Any, int]:
                line = text.count("\n", 0, s_and_end[1]) + 1
                try:
                    value, end = parse(s_and_end, *rest, **options)
                except _Twice as error:
                    raise json.JSONDecodeError(str(error), text, s_and_end[1]) from None
                located = kind(value)
                located.line = line
                return located, end

            return parsed

        self.parse_object = located(whole, JsonObject)
        self.parse_array = located(array, JsonArray)
        self.scan_once = json.scanner.py_make_scanner(self)  # pyright: ignore[reportAttributeAccessIssue]


class _Twice(Exception):
    """A name that an object has twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(f"{next(name for name in names if names.count(name) > 1)!r} appears twice in this object")
    return members


def read_json_object(path: Path) -> JsonObject:
    """The object that a file holds. Raises `DetourError`: it cannot be read, or holds something else; with file and
    line."""
    text = read_text(path)
    try:
        document = _Decoder(text).decode(text)
    except json.JSONDecodeError as error:
        raise DetourError(f"{path}, line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise DetourError(f"{path}: this is nested too deep") from None
    if not isinstance(document, JsonObject):
        raise DetourError(f"{path}, line 1: expected an object in braces")
    return document


class JsonFile:
    """A file, for errors: each names file, line and what is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = read_json_object(path)

    def error(self, at: Any, text: str) -> DetourError:
        """`at`: the object or array that is wrong, or a line."""
        line = at if isinstance(at, int) else getattr(at, "line", 1)
        return DetourError(f"{self.path}, line {line}: {text}")

    @contextmanager
    def blaming(self, at: Any) -> Iterator[None]:
        """Report any error raised inside as an error of that object, array or line."""
        try:
            yield
        except DetourError as error:
            raise self.error(at, str(error)) from None

    def require(self, where: JsonObject, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """The value of a key that must be there, of a kind that `what` names."""
        if key not in where:
            raise self.error(where, f"{key!r} is missing; expected {what}")
        return self.typed(where, key, where[key], kind, what)

    def optional(self, where: JsonObject, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """The same for one that may be missing (None)."""
        return self.typed(where, key, where[key], kind, what) if where.get(key) is not None else None

    def typed(self, where: Any, name: str, value: Any, kind: type | tuple[type, ...], what: str) -> Any:
        """The value, if it is of that kind."""
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kind) or (isinstance(value, bool) and bool not in kinds):
            raise self.error(where, f"{name} is {json.dumps(value):.60}; expected {what}")
        return value

    def objects(self, where: JsonObject) -> Iterator[tuple[str, JsonObject]]:
        """The values of an object by their names; they must be objects as well."""
        for name, value in where.items():
            yield name, self.typed(where, name, value, JsonObject, "an object in braces")

    def only(self, where: JsonObject, allowed: Collection[str], of: str) -> None:
        """See that there are no keys but these."""
        for key in where:
            if key not in allowed:
                raise self.error(where, f"{of} has no {key!r}; allowed: {', '.join(allowed)}")
