# SPDX-License-Identifier: Apache-2.0
"""The StreamChannel RPC: reads what a client sends, writes what waits for it (spec, "P4Runtime Stream Messages")."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from finsy.proto import p4r

from detour.engine.p4runtime.device import Device
from detour.engine.p4runtime.errors import SPACE, Code, Refused, log, refusal
from detour.engine.p4runtime.session import Session

FindDevice = Callable[[int], Device]


async def serve(
    requests: AsyncIterator[p4r.StreamMessageRequest], context: Any, find: FindDevice, sessions: set[Session]
) -> None:
    """Serves one stream until either side ends it. It is in `sessions` meanwhile."""
    session = Session(context.peer())
    sessions.add(session)
    reader = asyncio.ensure_future(_read(session, requests, find))
    try:
        while (message := await session.next()) is not None:
            await context.write(message)
        if session.reason is not None:
            raise session.reason
        await reader  # its error, if any, ends the stream
    finally:
        sessions.discard(session)
        if session.dropped:
            log.warning("%s did not read: %d messages were dropped", session.peer, session.dropped)
        reader.cancel()
        if session.device is not None:
            session.device.arbiter.leave(session)


async def _read(session: Session, requests: AsyncIterator[p4r.StreamMessageRequest], find: FindDevice) -> None:
    try:
        async for request in requests:
            await _handle(session, request, find)
            await session.drained()
    finally:
        session.close()


async def _handle(session: Session, request: p4r.StreamMessageRequest, find: FindDevice) -> None:
    kind = request.WhichOneof("update")
    if kind == "arbitration":
        await _arbitrate(session, request.arbitration, find)
        return
    try:
        device = session.device
        if device is None:
            raise Refused(Code.PERMISSION_DENIED, "the stream's first message must be an arbitration update")
        match kind:
            case "packet":
                await device.packet_out(session, request.packet)
            case "digest_ack":
                device.digest_ack(session, request.digest_ack)
            case "other":
                raise Refused(Code.UNIMPLEMENTED, "v1model has no messages of its own")
            case _:
                raise Refused(Code.INVALID_ARGUMENT, "the message is empty")
    except Exception as e:
        session.send(_stream_error(refusal(e), request))


async def _arbitrate(session: Session, update: p4r.MasterArbitrationUpdate, find: FindDevice) -> None:
    """Errors end the stream; they are never StreamErrors."""
    first = session.device is None
    if first:
        device = find(update.device_id)
    else:
        device = session.device
        assert device is not None
        if device.id != update.device_id:
            raise Refused(Code.FAILED_PRECONDITION, f"this stream is for device {device.id}, not {update.device_id}")
    session.device = device  # before update() waits: a stream that breaks meanwhile must leave
    await device.arbiter.update(session, update, first)


def _stream_error(error: Refused, request: p4r.StreamMessageRequest) -> p4r.StreamMessageResponse:
    """The message that names the request (spec, "Stream Error Reporting")."""
    response = p4r.StreamMessageResponse()
    out = response.error
    out.canonical_code, out.message, out.space = error.code, error.brief, SPACE
    match request.WhichOneof("update"):
        case "packet":
            out.packet_out.packet_out.CopyFrom(request.packet)
        case "digest_ack":
            out.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
        case "other":
            out.other.other.CopyFrom(request.other)
        case _:
            out.other.SetInParent()
    return response
