# SPDX-License-Identifier: Apache-2.0
"""Canonical gRPC codes and what becomes of an error: of the engine, of a client, of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from finsy import GRPCStatusCode as Code
from finsy.proto import p4r, rpc_status
from google.protobuf.message import DecodeError

from detour.base.errors import DetourError, InternalError
from detour.base.reports import out_of_memory
from detour.engine.compiler.native import TooSlow
from detour.engine.tables import EntryExists, NoSuchEntry, TableFull

log = logging.getLogger("detour.p4runtime")

SPACE = "detour-v1model"
_TEXT_LIMIT = 500
_TEXTS_BYTES = 2 << 20
_TEXT_COST = 128  # of a kept text, beside its bytes
_SLICE = 256
_TYPE_URL = "type.googleapis.com/p4.v1.Error"


_CODES: tuple[tuple[type[DetourError], Code], ...] = (
    (EntryExists, Code.ALREADY_EXISTS),
    (NoSuchEntry, Code.NOT_FOUND),
    (TableFull, Code.RESOURCE_EXHAUSTED),
    (TooSlow, Code.DEADLINE_EXCEEDED),
    (DetourError, Code.INVALID_ARGUMENT),
)


class Refused(Exception):
    """A request, or a part of one, that is answered with an error status."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text

    @property
    def brief(self) -> str:
        """The text, cut: statuses travel as metadata, which is limited, and texts may quote the client."""
        return self.text if len(self.text) <= _TEXT_LIMIT else self.text[: _TEXT_LIMIT - 3] + "..."


def invalid(text: str) -> Refused:
    """The most common refusal."""
    return Refused(Code.INVALID_ARGUMENT, text)


def refusal(error: BaseException) -> Refused:
    """The status that a client gets for an exception, without its traceback: that has all frames between with all that
    is in them, some kilobytes, and a batch may have 100,000 refusals. What is neither a refusal nor an error of the
    engine is our fault: it is logged with its traceback and must not end the server."""
    refused = _refusal(error)
    for each in (error, refused):  # what follows inside an `except` has the first as its context
        each.__cause__ = each.__context__ = each.__traceback__ = None
    return refused


def _refusal(error: BaseException) -> Refused:
    if isinstance(error, Refused):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Refused(code, str(error))
    if isinstance(error, DecodeError):  # of a message in a stream; gRPC itself answers for other requests
        return Refused(Code.INVALID_ARGUMENT, "the message cannot be decoded")
    if isinstance(error, MemoryError):
        return Refused(Code.RESOURCE_EXHAUSTED, out_of_memory(error))
    log.error("unexpected error", exc_info=error)
    if not isinstance(error, InternalError):
        error = InternalError.of("answering a request", error)
    return Refused(Code.INTERNAL, str(error))


class Outcomes:
    """The outcomes of a batch's elements, by index: None or a refusal. An object for each of 200,000 refusals would be
    80 MB. Here each is a byte for its code, and the texts beyond the first megabytes of them are left out."""

    def __init__(self, count: int) -> None:
        self._codes = bytearray(count)
        self._texts: dict[int, str] = {}
        self._left = _TEXTS_BYTES

    def __len__(self) -> int:
        return len(self._codes)

    def __setitem__(self, index: int, error: Refused) -> None:
        self._codes[index] = error.code
        text = error.brief
        cost = len(text) + _TEXT_COST
        if cost <= self._left:
            self._left -= cost
            self._texts[index] = text

    def __getitem__(self, index: int) -> Refused | None:
        code = self._codes[index]
        return Refused(Code(code), self._texts.get(index, "")) if code else None

    def __iter__(self) -> Iterator[Refused | None]:
        return (self[index] for index in range(len(self)))

    @property
    def failed(self) -> bool:
        """Return whether anything was refused."""
        return any(self._codes)

    def status(self, message: str) -> bytes:
        """google.rpc.Status with one p4.v1.Error an element, OKs included (spec, "Error Reporting")."""
        parts = [rpc_status.Status(code=Code.UNKNOWN, message=message).SerializeToString()]
        for begin in range(0, len(self), _SLICE):
            # What is serialised in parts and put together is the message as a whole.
            status = rpc_status.Status()
            for index, code in enumerate(self._codes[begin : begin + _SLICE], begin):
                error = p4r.Error(canonical_code=code, message=self._texts.get(index, ""), space=SPACE)
                status.details.add(type_url=_TYPE_URL, value=error.SerializeToString() if code else b"")
            parts.append(status.SerializeToString())
        return b"".join(parts)
