# SPDX-License-Identifier: Apache-2.0
"""Reception of requests: as bytes, few at a time, counted, and decoded when it is their turn.

gRPC holds a message as a whole before anybody sees it, and a message taken apart is up to twenty times as large as its
bytes. So a call is not asked for its request before one of a few slots is free (until then flow control keeps
it in the client), requests that wait for their device wait as bytes, few large ones are worked on at once, and what is
taken apart of a batch is a slice, unless it is carried out as a whole.

gRPC's context of a call is part of a reference cycle if the call has callbacks or is aborted, and its iterator of
requests keeps the last one. So messages are read from the context itself, and nobody but a `Batch`, which is closed,
keeps them.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import DecodeError

from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.limits import Budgets

M = TypeVar("M")
Work = Callable[[Callable[[], Any]], Awaitable[Any]]

_SMALL = 16 << 10  # bytes; such requests are taken apart at once
_EXPANSION = 20  # of an empty element, 2 bytes on the wire; an entry's is 8
_STATUS_BYTES = 256  # an element's part of the status: its bytes, and gRPC's copies of them
_ELEMENT_BYTES = 512  # an element's operation, where all of them are kept
_SLICE = 256
_BATCH = {"updates": 4, "entities": 2}  # numbers of the fields


async def received(context: Any) -> bytes | None:
    """The next message of a call, None at its end."""
    message = await context.read()
    return None if message is grpc.aio.EOF else message  # pyright: ignore[reportAttributeAccessIssue]


class Reception:
    """Receives requests, so many at a time and in so much time."""

    def __init__(self, budgets: Budgets) -> None:
        self._calls = asyncio.Semaphore(budgets.limits.receiving)
        self._streams = asyncio.Semaphore(budgets.limits.receiving)
        self._seconds = budgets.limits.receive_s

    async def first(self, context: Any) -> bytes | None:
        """The first message of a stream, None if it ends without one."""
        return await self._receive(context, self._streams)

    async def _receive(self, context: Any, slots: asyncio.Semaphore) -> bytes | None:
        async with slots:
            try:
                async with asyncio.timeout(self._seconds):
                    return await received(context)
            except TimeoutError:
                raise Refused(Code.ABORTED, f"the request did not arrive within {self._seconds:g} s") from None

    async def only(self, context: Any) -> bytes:
        """The request of a call that has one."""
        data = await self._receive(context, self._calls)
        if data is None:
            raise invalid("the call has no request")
        return data


class Batch(Generic[M]):
    """A Write or Read request. `head` is all of it but its batch, unless it is small. Who needs it longer than the call
    `keep`s it; everybody `close`s it."""

    def __init__(self, kind: type[M], field: str, data: bytes, budgets: Budgets) -> None:
        """Take what it needs of the budget for requests (RESOURCE_EXHAUSTED if there is too little left)."""
        self._kind, self._field, self._data, self._budgets = kind, field, data, budgets
        self.small = len(data) <= _SMALL
        """soon taken apart, and never in slices"""
        self._held = len(data) * (_EXPANSION if self.small else 1)
        budgets.requests.require(self._held)
        self._users = 1
        self._parts: Parts | None = None
        self.status = b""
        """what became of it, if anything failed"""
        self.head: M

    async def open(self, work: Work) -> None:
        """Read the head; INVALID_ARGUMENT if the message is none, RESOURCE_EXHAUSTED if its batch is too long."""
        if self.small:
            self.head = parse(self._kind, self._data)
            return

        def take_apart() -> tuple[Any, Parts]:
            head, places = split(self._data, _BATCH[self._field], self._budgets.limits.batch)
            parts = Parts(self._kind, self._field, self._data, places)
            for _ in parts.slices():
                pass  # before anything is carried out: an error in the last one is an error of the message
            return parse(self._kind, head), parts

        self.head, self._parts = await work(take_apart)

    @property
    def sliced_weight(self) -> int:
        """Bytes that it takes while it is worked on slice by slice: 0 for a small one, which waits for nobody."""
        return _STATUS_BYTES * len(self._parts) if self._parts is not None else 0

    @property
    def whole_weight(self) -> int:
        """... and if all of it is taken apart, with an operation for each element."""
        return self.sliced_weight and self.sliced_weight + 8 * len(self._data) + _ELEMENT_BYTES * len(self._parts or ())

    @property
    def elements(self) -> Any:
        """The batch; can be iterated over any number of times, and has a length."""
        return getattr(self.head, self._field) if self._parts is None else self._parts

    def whole(self) -> M:
        """The request, taken apart."""
        return self.head if self.small else parse(self._kind, self._data)

    def keep(self) -> None:
        """One more must close it."""
        self._users += 1

    def close(self) -> None:
        """The request is answered. Then nothing of it is left here, whoever has this object."""
        self._users -= 1
        if not self._users:
            self._data = self.status = b""
            self._parts = None
            self._budgets.requests.give(self._held)


class Parts(Generic[M]):
    """The elements of a batch, taken apart some at a time."""

    def __init__(self, kind: type[M], field: str, data: bytes, places: array[int]) -> None:
        """`places`: as of `split`."""
        self._kind, self._field, self._data, self._places = kind, field, data, places

    def __len__(self) -> int:
        return len(self._places) - 1

    def __iter__(self) -> Iterator[Any]:
        for some in self.slices():
            yield from some

    def slices(self) -> Iterator[list[Any]]:
        """The elements, a few hundred at a time. INVALID_ARGUMENT if they are none."""
        for begin in range(0, len(self), _SLICE):
            end = min(begin + _SLICE, len(self))
            # What stands between them is not of the batch, and is left out of the list.
            part = parse(self._kind, self._data[self._places[begin] : self._places[end]])
            yield list(getattr(part, self._field))


def parse(kind: type[M], data: bytes) -> M:
    """A message; INVALID_ARGUMENT if it is none."""
    try:
        return kind.FromString(data)  # type: ignore[attr-defined]
    except DecodeError:
        raise invalid("the message cannot be decoded") from None


def split(data: bytes, field: int, longest: int) -> tuple[bytes, array[int]]:
    """(a message without one repeated field, where its elements begin and the message ends). RESOURCE_EXHAUSTED
    beyond `longest` elements."""
    rest: list[bytes] = []
    places = array("Q")
    end = 0
    for tag, begin, _, end in fields(data):
        if tag >> 3 != field:
            rest.append(data[begin:end])
            continue
        places.append(begin)
        if len(places) > longest:
            raise Refused(Code.RESOURCE_EXHAUSTED, f"a batch has at most {longest} elements")
    if end > len(data):
        raise invalid("the message cannot be decoded")
    places.append(len(data))
    return b"".join(rest), places


def fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(tag, where the field begins, where its value does, where it ends) of each field of a message; the last one may
    end behind the message. INVALID_ARGUMENT if there are no fields."""
    end = 0
    while end < len(data):
        begin = end
        tag, value = _varint(data, begin)
        match tag & 7:
            case 0:
                _, end = _varint(data, value)
            case 1:
                end = value + 8
            case 2:
                size, value = _varint(data, value)
                end = value + size
            case 5:
                end = value + 4
            case _:
                raise invalid("the message cannot be decoded")
        yield tag, begin, value, end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise invalid("the message cannot be decoded")
