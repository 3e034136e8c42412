# SPDX-License-Identifier: Apache-2.0
"""How requests come in: as bytes, few at a time, counted, and taken apart when it is their turn.

gRPC holds a message as a whole before anybody sees it, and a message taken apart is up to twenty times as large as its
bytes. So a call is not asked for its request before one of a few slots is free (until then flow control keeps
it in the client), requests that wait for their device wait as bytes, and few large ones are worked on at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, TypeVar

from google.protobuf.message import DecodeError

from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.limits import Budgets

M = TypeVar("M")
Work = Callable[[Callable[[], Any]], Awaitable[Any]]

_SMALL = 16 << 10  # bytes; such requests are taken apart at once
_EXPANSION = 20  # of an empty element, 2 bytes on the wire; an entry's is 8
_ELEMENT_BYTES = 512  # an element's part of what is worked on: its operation or its error
_BATCH = {"updates": 4, "entities": 2}  # numbers of the fields


class Reception:
    """Receives requests, so many at a time and in so much time."""

    def __init__(self, budgets: Budgets) -> None:
        self._calls = asyncio.Semaphore(budgets.limits.receiving)
        self._streams = asyncio.Semaphore(budgets.limits.receiving)
        self._seconds = budgets.limits.receive_s

    async def first(self, requests: AsyncIterator[bytes]) -> bytes | None:
        """The first message of a stream, None if it ends without one."""
        return await self._receive(requests, self._streams)

    async def _receive(self, requests: AsyncIterator[bytes], slots: asyncio.Semaphore) -> bytes | None:
        async with slots:
            try:
                async with asyncio.timeout(self._seconds):
                    return await anext(aiter(requests), None)
            except TimeoutError:
                raise Refused(Code.ABORTED, f"the request did not arrive within {self._seconds:g} s") from None

    async def only(self, requests: AsyncIterator[bytes]) -> bytes:
        """The request of a call that has one."""
        data = await self._receive(requests, self._calls)
        if data is None:
            raise invalid("the call has no request")
        return data


class Batch(Generic[M]):
    """A Write or Read request. `head` is all of it but its batch, unless it is small."""

    def __init__(self, kind: type[M], field: str, data: bytes, budgets: Budgets) -> None:
        """Takes what it needs of the budget for requests (RESOURCE_EXHAUSTED if there is too little left)."""
        self._kind, self._field, self._data, self._budgets = kind, field, data, budgets
        self._small = len(data) <= _SMALL
        self._held = len(data) * (_EXPANSION if self._small else 1)
        if not budgets.requests.take(self._held):
            self._held = 0
            raise Refused(Code.RESOURCE_EXHAUSTED, "too many requests wait for an answer; try again")
        self.weight = 0
        """bytes that it takes, taken apart"""
        self.head: M

    async def open(self, work: Work) -> None:
        """Reads the head; INVALID_ARGUMENT if the message is none, RESOURCE_EXHAUSTED if its batch is too long."""
        if self._small:
            self.head = self.whole()
            return
        head, count = await work(lambda: split(self._data, _BATCH[self._field], self._budgets.limits.batch))
        self.head = parse(self._kind, head)
        self.weight = 8 * len(self._data) + count * _ELEMENT_BYTES

    def whole(self) -> M:
        """The request, taken apart."""
        return self.head if hasattr(self, "head") and self._small else parse(self._kind, self._data)

    def close(self) -> None:
        """The request is answered."""
        held, self._held = self._held, 0
        self._budgets.requests.give(held)


def parse(kind: type[M], data: bytes) -> M:
    """A message; INVALID_ARGUMENT if it is none."""
    try:
        return kind.FromString(data)  # type: ignore[attr-defined]
    except DecodeError:
        raise invalid("the message cannot be decoded") from None


def split(data: bytes, field: int, longest: int) -> tuple[bytes, int]:
    """(a message without one repeated field, number of elements of that). RESOURCE_EXHAUSTED beyond `longest`."""
    rest: list[bytes] = []
    at = count = 0
    while at < len(data):
        begin = at
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                _, at = _varint(data, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(data, at)
                at += size
            case 5:
                at += 4
            case _:
                raise invalid("the message cannot be decoded")
        if tag >> 3 != field:
            rest.append(data[begin:at])
            continue
        count += 1
        if count > longest:
            raise Refused(Code.RESOURCE_EXHAUSTED, f"a batch has at most {longest} elements")
    if at > len(data):
        raise invalid("the message cannot be decoded")
    return b"".join(rest), count


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
