# SPDX-License-Identifier: Apache-2.0
"""Thrift's structures and messages from typed declarations, so that no code has to be generated from an IDL file.

A structure is a class with annotated fields, a service one with annotated methods (`types`, `interface`). Fields and
parameters are numbered from 1 in their order, as in all of BMv2's interface. The same declaration serves the server
that carries calls out and the client that makes them; encoding is the `thrift` package's.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_args, get_origin, get_type_hints

from thrift.protocol.TBase import TBase, TExceptionBase
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TType

I16 = Annotated[int, TType.I16]
I32 = Annotated[int, TType.I32]
I64 = Annotated[int, TType.I64]

C = TypeVar("C", bound=type)
M = TypeVar("M", bound=Callable[..., Any])

Spec = tuple[Any, ...]
"""how the thrift package describes a field: number, type, name, details of the type, default"""

_PLAIN: dict[Any, tuple[int, Any]] = {
    bool: (TType.BOOL, None),
    float: (TType.DOUBLE, None),
    str: (TType.STRING, "UTF8"),
    bytes: (TType.STRING, "BINARY"),
}
_ZERO: dict[int, Any] = {TType.BOOL: False, TType.DOUBLE: 0.0, TType.I16: 0, TType.I32: 0, TType.I64: 0}


_LONGEST_STRING = 64 << 20
"""bytes: a program's JSON is the longest"""
_MOST_ELEMENTS = 1 << 20


def signed(value: int, bits: int) -> int:
    """The lower bits of a number as Thrift carries them, which has signed numbers only."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


@dataclass_transform(eq_default=True, field_specifiers=(field,))
class Struct(TBase):
    """A Thrift struct. Classes derived from it are dataclasses."""

    thrift_spec: ClassVar[tuple[Spec | None, ...]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(dataclass(cls), include_extras=True)
        cls.thrift_spec = _numbered([(each.name, hints[each.name]) for each in fields(typing.cast(Any, cls))])


class ServiceError(TExceptionBase):
    """An exception that a service declares; `subject` is what BMv2's command line calls it."""

    CODES: ClassVar[type[IntEnum]]
    SUBJECT: ClassVar[str]
    thrift_spec: ClassVar[tuple[Spec | None, ...]] = (None, (1, TType.I32, "code", None, None))

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code

    @property
    def name(self) -> str:
        """The code in words, as BMv2's command line shows it."""
        try:
            return self.CODES(self.code).name
        except ValueError:
            return str(self.code)

    def __str__(self) -> str:
        return f"{type(self).__name__}: {self.name}"

    def __hash__(self) -> int:
        return hash((type(self), self.code))


def raises(error: type[ServiceError]) -> Callable[[M], M]:
    """Say that a method of a service, or each that a class declares, may answer with this exception."""
    return lambda declared: _mark(declared, "thrift_error", error)


def in_context(declared: M) -> M:
    """Say the same of a first parameter that Python does not show: a context of BMv2's. simple_switch has one, 0."""
    return _mark(declared, "thrift_context", True)


def _mark(declared: Any, name: str, value: object) -> Any:
    for function in _functions(declared).values() if inspect.isclass(declared) else (declared,):
        setattr(function, name, value)
    return declared


def _functions(cls: type) -> dict[str, Any]:
    """Return the functions that a class declares itself; Protocol adds methods with underscores."""
    return {name: f for name, f in vars(cls).items() if inspect.isfunction(f) and name[0] != "_"}


class _Message(TBase):
    """Arguments, or a result."""

    thrift_spec: ClassVar[tuple[Spec | None, ...]]


@dataclass
class Method:
    """One function of a service."""

    name: str
    function: Callable[..., Any]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)

    @property
    def error(self) -> type[ServiceError] | None:
        """The exception that it may answer with."""
        return getattr(self.function, "thrift_error", None)

    @cached_property
    def parameters(self) -> list[str]:
        """Their names in order."""
        return [name for name in inspect.signature(self.function).parameters if name != "self"]

    @property
    def returns(self) -> bool:
        """Return whether it has a result."""
        return self._hints["return"] is not types.NoneType

    @cached_property
    def arguments(self) -> type[_Message]:
        """The message with its arguments; what a client leaves out is zero or empty, as in C++."""
        named = [(name, self._hints[name]) for name in self.parameters]
        spec = _numbered([("cxt_id", I32), *named] if hasattr(self.function, "thrift_context") else named)
        zeros = {each[2]: _zero(each) for each in spec if each is not None}
        return type(f"{self.name}_args", (_Message,), {"thrift_spec": spec, **zeros})

    @cached_property
    def result(self) -> type[_Message]:
        """The message with its result, or the exception in its place."""
        kind, detail = _wire(self._hints["return"]) if self.returns else (0, None)
        spec = [(0, kind, "success", detail, None) if self.returns else None]
        if self.error is not None:
            spec.append((1, TType.STRUCT, "error", [self.error, self.error.thrift_spec], None))
        return type(f"{self.name}_result", (_Message,), {"thrift_spec": tuple(spec), "success": None, "error": None})

    def call(self, handler: Any, message: Any) -> Any:
        """Let a handler carry it out; the result message."""
        result = self.result()
        try:
            value = getattr(handler, self.name)(*(getattr(message, name) for name in self.parameters))
            if self.returns:
                result.success = value  # type: ignore[attr-defined]
        except ServiceError as error:
            if self.error is None or not isinstance(error, self.error):
                raise
            result.error = error  # type: ignore[attr-defined]
        return result


def methods(service: type) -> Mapping[str, Method]:
    """The functions of a service by name."""
    declared = service.__dict__.get("_thrift_methods")
    if declared is None:
        declared = {name: Method(name, f) for cls in service.__mro__ for name, f in _functions(cls).items()}
        service._thrift_methods = declared  # type: ignore[attr-defined]
    return declared


def _numbered(named: list[tuple[str, Any]]) -> tuple[Spec | None, ...]:
    spec: list[Spec | None] = [None]
    for number, (name, hint) in enumerate(named, 1):
        kind, detail = _wire(hint)
        spec.append((number, kind, name, detail, None))
    return tuple(spec)


def _wire(hint: Any) -> tuple[int, Any]:
    """Thrift's type of an annotation, and what else it wants to know of it."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return arguments[1], None
    if origin in (types.UnionType, typing.Union):
        return _wire(next(each for each in arguments if each is not types.NoneType))
    if origin is list:
        return TType.LIST, (*_wire(arguments[0]), False)
    if origin is dict:
        return TType.MAP, (*_wire(arguments[0]), *_wire(arguments[1]), False)
    if isinstance(hint, type) and issubclass(hint, TBase):
        return TType.STRUCT, [hint, hint.thrift_spec]  # type: ignore[attr-defined]
    raise TypeError(f"{hint} has no counterpart in Thrift")


def _zero(spec: Spec) -> Any:
    kind, detail = spec[1], spec[3]
    if kind == TType.STRING:
        return b"" if detail == "BINARY" else ""
    if kind == TType.LIST:
        return ()
    if kind == TType.STRUCT:
        return detail[0]()
    return _ZERO.get(kind)


def protocol(transport: Any) -> Any:
    """Thrift's binary protocol, with limits of ours."""
    return TBinaryProtocolAccelerated(
        transport, string_length_limit=_LONGEST_STRING, container_length_limit=_MOST_ELEMENTS
    )
