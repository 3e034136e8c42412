# SPDX-License-Identifier: Apache-2.0
"""Plugins: topologies, patterns, schemes, congestion control, workloads, planners.

A `Registry` finds one of them by its name: a name of detour's own, an entry point of an installed package (group
`detour.topologies` and so on), or `FILE.py:NAME`, an attribute of a file. What is built in goes through the same
registry: it is the value, or the text `package.module:attribute` of an entry point, by which it is imported when asked
for.

Behind any of these names values may follow: `NAME:key=value,key=value` (`split`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from detour.base.errors import DetourError
from detour.base.files import read_bytes
from detour.base.quantities import bytes_of, number_of, whole_number_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")
P = TypeVar("P", bound="WithParameters")

_IN_FILE = re.compile(
    r"(?P<file>.*?\.py)(:(?P<name>[^:=,/#]*))?(#(?P<digest>[0-9a-f]{16}))?(:(?P<rest>.*))?", re.DOTALL
)
_PIN = re.compile(r"#[0-9a-f]{16}\b")
_PREFIX = "detour_file_"
_MOST = 10**15
_SHOWN = 48
"""names in an error"""
_MODULES: dict[Path, tuple[str, ModuleType]] = {}
_FILES: set[str] = set()
"""files of others: those that `load` has executed, and modules of entry points"""


class PluginError(DetourError):
    """An error in a plug-in, with file and line."""


class PlacedError(DetourError):
    """An error at a place in a plug-in that has no traceback."""

    def __init__(self, text: str, filename: str, lineno: int) -> None:
        super().__init__(text)
        self.filename, self.lineno = filename, lineno


class Registry(Generic[T]):
    """Things of one kind, by name. See the module."""

    def __init__(
        self,
        plural: str,
        what: str,
        built_in: Mapping[str, T | str],
        adopt: Callable[[str, Any], T],
        *,
        any_case: bool = False,
        former: Mapping[str, str] | None = None,
    ) -> None:
        """`plural`: behind `detour.` in the name of the group; `what`: one of them, in errors. `adopt(name, found)`
        turns what others bring into a T, or raises `DetourError`. `any_case`: names count in any. `former`: names that
        were given before, in small letters, and those of today."""
        self.plural, self.what, self.group = plural, what, f"detour.{plural.replace(' ', '_')}"
        self._built_in, self._adopt, self._any_case = dict(built_in), adopt, any_case
        self._former = former or {}

    @property
    def built_in(self) -> tuple[str, ...]:
        """Names of detour's own."""
        return tuple(self._built_in)

    def names(self) -> tuple[str, ...]:
        """Names of detour's own, then those of installed packages."""
        return (*self._built_in, *sorted({point.name for point in self._installed()} - self._built_in.keys()))

    def knows(self, name: str) -> bool:
        """Return whether `find` would look at anything; it may still be wrong in itself."""
        return in_file(name) or self._own_name(name) is not None or bool(self._points(name))

    def find(self, name: str) -> T:
        """Return the thing with that name. Raises `DetourError`: there is none; the file or package cannot be imported;
        it is of another kind."""
        if in_file(name):
            value: Any = load(name, self.what)
            with blaming(name):
                return self._adopt(name, value)
        own = self._own_name(name)
        if own is not None:
            value = self._built_in[own]
            return resolve_name(value) if isinstance(value, str) else value
        return self._of_package(name)

    def _own_name(self, name: str) -> str | None:
        today = self._former.get(name.casefold(), name)
        return next((own for own in self._built_in if self._same(own, today)), None)

    def _same(self, one: str, other: str) -> bool:
        return one == other or (self._any_case and one.casefold() == other.casefold())

    def _points(self, name: str) -> dict[str, EntryPoint]:
        """Entry points of a name, by what they name."""
        return {point.value: point for point in self._installed() if self._same(point.name, name)}

    def _installed(self) -> tuple[EntryPoint, ...]:
        return tuple(_entry_points(self.group, tuple((place, _modified(place)) for place in sys.path)))

    def _of_package(self, name: str) -> T:
        points = self._points(name)
        if not points:
            raise DetourError(
                f"there is no {self.what} {name!r}; {near(name, self.names())}, and FILE.py:NAME for one of your own"
            )
        if len(points) > 1:
            raise DetourError(
                f"{self.what} {name!r}: {' and '.join(sorted(points))} of installed packages both claim it"
            )
        point = next(iter(points.values()))
        with blaming(f"{self.what} {name!r}, {point.value} of {_package(point)}"):
            spec = importlib.util.find_spec(point.module)
            _FILES.add(str(spec.origin if spec else None))
            return self._adopt(point.name, point.load())


@lru_cache(maxsize=32)
def _entry_points(group: str, places: tuple[tuple[str, int | None], ...]) -> EntryPoints:
    """Entry points of a group, of packages that are installed in places. To read them takes 10 ms, so this is done
    again only when a place has changed."""
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _modified(place: str) -> int | None:
    with suppress(OSError):
        return os.stat(place or os.curdir).st_mtime_ns
    return None


@cache
def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "a package"


class WithParameters:
    """A plugin that is a dataclass with these fields. `parameters`: an instance of a dataclass of numbers, None: it has
    none; `given`: those that were given with its name."""

    parameters: Any
    name: str
    given: tuple[str, ...]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def check_parameters(self) -> None:
        """Raise `DetourError`: parameters are not of that kind."""
        if self.parameters is not None and (not is_dataclass(self.parameters) or isinstance(self.parameters, type)):
            raise DetourError(f"parameters are an instance of a dataclass, not {self.parameters!r:.60}")
        for name, value in self.values.items():
            if not isinstance(value, (int, float)):
                raise DetourError(f"the parameter {name} is not a number: {value!r:.60}")

    @property
    def values(self) -> dict[str, Any]:
        """Its own parameters by name."""
        return {} if self.parameters is None else asdict(self.parameters)

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """The same with other parameters.

        Raises:
            DetourError: there is no such parameter, or it is another kind of number.
        """
        if not values:
            return self
        before = self.values
        for name, value in values.items():
            if name not in before:
                raise DetourError(f"{self.name}: there is no parameter {name}; allowed: {', '.join(before) or 'none'}")
            if isinstance(value, str) or (isinstance(before[name], int) and value != int(value)):
                kind = "whole number" if isinstance(before[name], int) else "number"
                raise DetourError(f"{self.name}: {name} is a {kind}, not {value!r}")
        typed = {name: type(before[name])(value) for name, value in values.items()}
        changes: Any = {"parameters": replace(self.parameters, **typed), "given": (*self.given, *typed)}
        return replace(self, **changes)


class PluginRegistry(Registry[P]):
    """Plugins of a kind by name."""

    def __init__(self, plural: str, what: str, kind: type[P], built_in: Mapping[str, P | str], **names: Any) -> None:
        """`kind`: what others must bring; the rest as for `Registry`."""

        def adopt(name: str, plugin: Any) -> P:
            if not isinstance(plugin, kind):
                raise DetourError(f"it is a {type(plugin).__name__}, and not a {kind.__name__}")
            return replace(plugin, name=pinned(name))

        super().__init__(plural, what, built_in, adopt, **names)

    def chosen(self, what: str | P) -> P:
        """The plugin of a name (a built-in one, an entry point or `FILE.py:NAME`), with parameters if some follow it:
        `FILE.py:NAME:weight=3`; or the plugin itself.

        Raises:
            DetourError: there is none, or no such parameter.
        """
        if not isinstance(what, str):
            return what
        name, rest = split(what)
        return self.find(name).with_values(values_of(what, rest))


def in_file(text: str) -> bool:
    """Return whether a name is of the form FILE.py:NAME."""
    match = _IN_FILE.fullmatch(text)
    return match is not None and match["rest"] is None


def split(text: str) -> tuple[str, str]:
    """A name and what follows behind its colon ("" for nothing)."""
    match = _IN_FILE.fullmatch(text.strip())
    if match is None:
        name, _, rest = text.partition(":")
        return name.strip(), rest
    end = match.end() if match["rest"] is None else match.start("rest") - 1
    return match.string[:end], match["rest"] or ""


def absolute(text: str) -> str:
    """The same text for a process that may be in another folder."""
    match = _IN_FILE.fullmatch(text.strip())
    return text if match is None else f"{Path(match['file']).absolute()}{text.strip()[match.end('file') :]}"


def near(name: str, names: Iterable[str]) -> str:
    """`did you mean this? allowed: ...`, for errors."""
    candidates = list(names)
    import difflib

    like = difflib.get_close_matches(name.casefold(), [one.casefold() for one in candidates], 2)
    close = [one for one in candidates if one.casefold() in like]
    shown = ", ".join(candidates[:_SHOWN]) + (", ..." if candidates[_SHOWN:] else "")
    return (f"did you mean {' or '.join(close)}? " if close else "") + f"allowed: {shown or 'none'}"


def load(text: str, what: str = "what is named") -> Any:
    """The attribute that FILE.py:NAME names. A file is executed once, and again when it has changed. With a digest
    behind it (`pinned`) a file that has changed is refused. Raises `DetourError`: no such file, no such name, it has
    changed, or what its code raised, with the line."""
    match = _IN_FILE.fullmatch(text)
    if match is None or match["rest"] is not None:
        raise DetourError(f"{text!r} is not of the form FILE.py:NAME")
    path, name = Path(match["file"]), match["name"]
    if match["digest"] not in (None, _digest(read_bytes(path))):
        raise DetourError(f"{path} has changed since {text!r} was its state")
    module = _module(path)
    public = [key for key in vars(module) if not key.startswith("_") and _is_its_own(module, key)]
    if not name:
        raise DetourError(f"{text}: which {what} of it? Say {path}:NAME; {near('', public)}")
    if not hasattr(module, name):
        raise DetourError(f"{path} has no {name!r}; {near(name, public)}")
    return getattr(module, name)


def _is_its_own(module: ModuleType, key: str) -> bool:
    value = getattr(module, key)
    if inspect.isclass(value) or callable(value):
        return getattr(value, "__module__", None) == module.__name__
    return not inspect.ismodule(value) and type(value).__module__ != "__future__"


def pinned(text: str) -> str:
    """FILE.py:NAME with a digest of the file, by which results of other versions are told apart; other names as they
    are. Raises `DetourError`: the file cannot be read."""
    match = _IN_FILE.fullmatch(text)
    if match is None or match["digest"] is not None:
        return text
    return f"{match['file']}:{match['name']}#{_digest(read_bytes(Path(match['file'])))}"


def unpinned(text: str) -> str:
    """A text for people: without the digests behind names of files in it, which are for programs."""
    return _PIN.sub("", text)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _module(path: Path) -> ModuleType:
    content, where = read_bytes(path), path.absolute()
    digest = _digest(content)
    loaded = _MODULES.get(where)
    if loaded is not None and loaded[0] == digest:
        return loaded[1]
    # A name by which pickled values find it again, and the file's folder as with `python FILE.py`.
    name = f"{_PREFIX}{path.stem}_{hashlib.sha256(bytes(where)).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(where)
    _FILES.add(str(where))
    before = sys.modules.get(name)
    sys.modules[name] = module
    sys.path.insert(0, str(where.parent))
    try:
        with blaming(str(path)):
            exec(compile(content, str(where), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    finally:
        sys.path.remove(str(where.parent))
    _MODULES[where] = (digest, module)
    return module


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Report errors inside in one line with the place in the plug-in: the last line of it that was executed,
    else where its name is given a value. `what`: how it is called. Raises `PluginError`: that line."""
    try:
        yield
    except (PluginError, KeyboardInterrupt):
        raise
    except (Exception, SystemExit) as error:
        match, place, text = _IN_FILE.fullmatch(what), _place(error), _text(error).removeprefix(f"{what}: ")
        if match is None:
            raise PluginError(": ".join(filter(None, (what, place, text)))) from error
        raise PluginError(f"{place or _beginning(match['file'], match['name'])}: {text}") from error


def _text(error: BaseException) -> str:
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    if isinstance(error, (DetourError, SyntaxError)):
        return text
    if isinstance(error, SystemExit):
        return f"it ended the program ({text})"
    return f"{type(error).__name__}{': ' if text else ''}{text}"


def _place(error: BaseException) -> str | None:
    """`FILE:LINE`, of the last line of others that had a part in an error."""
    if isinstance(error, (SyntaxError, PlacedError)) and error.filename:
        return _shown(error.filename, error.lineno)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in _FILES]
    return _shown(frames[-1].filename, frames[-1].lineno) if frames else None


def _beginning(file: str, name: str | None) -> str:
    """Return where a name of a file is defined, as far as that can be told."""
    lines = read_bytes(Path(file)).decode(errors="replace").splitlines() if name else []
    defined = re.compile(rf"(?:(?:async )?def |class )?{re.escape(name or '')}\b")
    line = next((number for number, line in enumerate(lines, 1) if defined.match(line)), None)
    return file if line is None else _shown(os.path.abspath(file), line)


def _shown(file: str, line: int | None) -> str:
    """A place by the path from the current folder, if the file is in it."""
    near = os.path.relpath(file)
    return f"{file if near.startswith(os.pardir) else near}:{line}"


def function_of(value: Any, of: str) -> Callable[..., Any]:
    """Return the value if it can be called. `of`: the arguments that it takes, in words. Raises `DetourError`: it
    cannot be called."""
    if not callable(value):
        raise DetourError(f"it is a {type(value).__name__}, and not a function of {of}")
    return value


def call(what: str, function: Callable[..., Any], *first: Any, **values: Any) -> Any:
    """Call what others have written: `first` by position, then values that its signature takes. Raises `DetourError`:
    a value is missing or not known, or what the function raised, with the line."""
    try:
        inspect.signature(function).bind(*first, **values)
    except TypeError as error:
        takes = parameters_text(function, len(first))
        with blaming(what):
            raise DetourError(f"{_name(function)}: {error}; it takes {takes}") from None
    with blaming(what):
        return function(*first, **values)


def _name(function: Any) -> str:
    return getattr(function, "__name__", "it")


def parameters_text(function: Callable[..., Any], first: int = 0) -> str:
    """`x=, y=, [seed=]`, or `no parameters`, behind the `first` ones, which are given by position."""
    parts = [
        p.name if number < first else f"{p.name}=" if p.default is p.empty else f"[{p.name}=]"
        for number, p in enumerate(inspect.signature(function).parameters.values())
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    return ", ".join(parts) or "no parameters"


def values_of(text: str, rest: str) -> dict[str, Any]:
    """`key=value,key=value` behind a name: whole numbers (`7`, `1e6`, `4MB`), other numbers and words, as they look.
    Raises `DetourError`: a part is not of that form, or a key appears twice."""
    values: dict[str, Any] = {}
    for part in rest.split(",") if rest.strip() else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key.isidentifier() and equals and value):
            raise DetourError(f"{text!r}: {part.strip()!r} is not of the form key=value")
        if key in values:
            raise DetourError(f"{text!r}: {key} is given twice")
        values[key] = _value(value)
    return values


def _value(text: str) -> Any:
    for read in (int, partial(whole_number_of, most=_MOST, least=-_MOST), number_of):
        with suppress(ValueError, DetourError):
            return read(text)
    with suppress(DetourError):
        return bytes_of(text)
    return text
