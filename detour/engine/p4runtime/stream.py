# SPDX-License-Identifier: Apache-2.0
"""The StreamChannel RPC: reads what a client sends, writes what waits for it (spec, "P4Runtime Stream Messages")."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
from finsy.proto import p4r

from detour.engine.p4runtime.device import P4Device
from detour.engine.p4runtime.errors import SPACE, Code, Refused, invalid, log, refusal
from detour.engine.p4runtime.limits import Budgets
from detour.engine.p4runtime.requests import Reception, received
from detour.engine.p4runtime.session import StreamSession

FindDevice = Callable[[int], P4Device]

_REFUSED_BYTES_A_SECOND = 4 << 20
_SHOWN_BYTES = 1024
_GRACE_S = 1.0  # for what waits to be sent when a stream ends
# The oneof `update` by the first byte of a message: its tag (1 to 4), length-delimited.
_KINDS = {0x0A: "arbitration", 0x12: "packet", 0x1A: "digest_ack", 0x22: "other"}


class Stream(StreamSession):
    """A session, and the device that it is for once its first arbitration update is accepted."""

    device: P4Device | None = None


async def serve(context: Any, find: FindDevice, sessions: set[Stream], budgets: Budgets, reception: Reception) -> None:
    """Serve one stream until either side ends it. It is in `sessions` meanwhile. Messages come and go as bytes."""
    session = Stream(context.peer(), budgets)
    sessions.add(session)
    reader = asyncio.ensure_future(_read(session, context, find, reception, budgets))
    writer = asyncio.ensure_future(_write(session, context))
    try:
        await session.closed()
        # A client that reads gets what waits for it; one that does not may have gone.
        await asyncio.wait((writer,), timeout=_GRACE_S)
        if session.reason is not None:
            raise session.reason
        if reader.done():
            reader.result()  # its error, if any, ends the stream
    finally:
        sessions.discard(session)
        if session.dropped:
            log.warning("%s did not read: %d messages were dropped", session.peer, session.dropped)
        reader.cancel()
        writer.cancel()
        session.discard()
        if session.device is not None:
            session.device.arbiter.leave(session)


async def _write(session: Stream, context: Any) -> None:
    try:
        while (message := await session.next()) is not None:
            await context.write(message)
    except grpc.aio.InternalError:  # the client has cancelled the call
        pass
    finally:
        session.close()


async def _read(session: Stream, context: Any, find: FindDevice, reception: Reception, budgets: Budgets) -> None:
    try:
        # What an unknown client says first may be as long as any request.
        request = await reception.first(context)
        while request is not None:
            await _handle(session, request, find)
            del request  # not while the next one is awaited
            # Received also while much is unsent, or nobody would see that the client has half-closed.
            request = await received(context)
            if request is not None and len(request) <= session.limits.stream_message:
                with budgets.requests.holding(len(request)):
                    await session.drained()
    finally:
        session.close()


async def _handle(session: Stream, data: bytes, find: FindDevice) -> None:
    longest = session.limits.stream_message
    if len(data) > longest:
        kind = _KINDS.get(data[0], "")
        error = invalid(f"a stream message of {len(data)} bytes; they have at most {longest}")
        if kind == "arbitration":
            raise error
        await _refuse(session, _stream_error(error, kind), data)
        return
    request = p4r.StreamMessageRequest.FromString(data)
    kind = request.WhichOneof("update") or ""
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
        await _refuse(session, _stream_error(refusal(e), kind, request), data)


async def _refuse(session: Stream, error: p4r.StreamMessageResponse, data: bytes) -> None:
    """Say so, and listen to the stream no more for as long as the message was large: who is refused and goes on
    would else keep the event loop busy with receiving."""
    session.send(error)
    await asyncio.sleep(len(data) / _REFUSED_BYTES_A_SECOND)


async def _arbitrate(session: Stream, update: p4r.MasterArbitrationUpdate, find: FindDevice) -> None:
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


def _stream_error(
    error: Refused, kind: str, request: p4r.StreamMessageRequest | None = None
) -> p4r.StreamMessageResponse:
    """The message that says what was refused (spec, "Stream Error Reporting"): its kind and, where they are short,
    the metadata of a packet or the acknowledgement. Never a payload: a client that does not read must not cost what
    it has sent."""
    response = p4r.StreamMessageResponse()
    out = response.error
    out.canonical_code, out.message, out.space = error.code, error.brief, SPACE
    match kind:
        case "packet":
            out.packet_out.SetInParent()
            if request is not None and sum(m.ByteSize() for m in request.packet.metadata) <= _SHOWN_BYTES:
                out.packet_out.packet_out.metadata.extend(request.packet.metadata)
        case "digest_ack":
            out.digest_list_ack.SetInParent()
            if request is not None:
                out.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
        case _:
            out.other.SetInParent()
    return response
