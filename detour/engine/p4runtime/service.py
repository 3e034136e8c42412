# SPDX-License-Identifier: Apache-2.0
"""The six RPCs of p4.v1.P4Runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

import grpc
from finsy.proto import p4r

from detour.engine.p4runtime import pipeline, snapshot, stream
from detour.engine.p4runtime.atomic import write_atomically
from detour.engine.p4runtime.collector import HELD_OFF
from detour.engine.p4runtime.config import Compiled, Compiler
from detour.engine.p4runtime.device import Device
from detour.engine.p4runtime.errors import Code, Refused, batch_status, refusal
from detour.engine.p4runtime.limits import Budgets, Limits
from detour.engine.p4runtime.read import CHUNK_BYTES, Reader
from detour.engine.p4runtime.requests import Batch, Reception, Work
from detour.engine.p4runtime.roles import RoleConfig
from detour.engine.p4runtime.session import Session
from detour.engine.p4runtime.write import write

API_VERSION = "1.5.0"
"""The version of P4Runtime whose messages (finsy's stubs) and rules this server has."""

_STATUS = {c.value[0]: c for c in grpc.StatusCode}
_WRITE = {
    p4r.WriteRequest.CONTINUE_ON_ERROR: write,
    p4r.WriteRequest.ROLLBACK_ON_ERROR: write_atomically,
    p4r.WriteRequest.DATAPLANE_ATOMIC: write_atomically,
}


class Service:
    """Handlers run in the event loop's thread; whatever takes time goes to a worker thread by `work`.

    Long answers are made by `read_work`, so that Reads hold up nobody but each other.
    """

    def __init__(self, work: Work, read_work: Work | None = None, limits: Limits | None = None) -> None:
        self.devices: dict[int, Device] = {}
        self._limits = limits or Limits()
        self.begin()
        self._read_work = read_work or work
        self._sessions: set[Session] = set()
        self._compiler = Compiler()
        self._work = work

    def begin(self) -> None:
        """Before the server starts, also anew: nothing is held."""
        self.budgets = Budgets(self._limits)
        self.reception = Reception(self.budgets)

    def device(self, device_id: int) -> Device:
        """A device by id; NOT_FOUND if there is none."""
        found = self.devices.get(device_id)
        if found is None:
            raise Refused(Code.NOT_FOUND, f"there is no device {device_id}")
        return found

    def close(self) -> None:
        """Compiles no more."""
        self._compiler.close()

    def end_streams(self, reason: Refused, device: Device | None = None) -> None:
        """Ends the streams of a device, or all streams."""
        for session in self._sessions:
            if device is None or session.device is device:
                session.close(reason)

    def _authorise(self, request: Any) -> tuple[Device, RoleConfig]:
        """Checks device, role and election id of a request that changes something, in the spec's order."""
        device = self.device(request.device_id)
        role = request.role or (str(request.role_id) if request.role_id else "")
        election = request.election_id if request.HasField("election_id") else None
        return device, device.arbiter.authorise(role, election)

    # -- RPCs

    async def Write(self, data: bytes, context: Any) -> p4r.WriteResponse:
        batch = None
        try:
            batch = Batch(p4r.WriteRequest, "updates", data, self.budgets)
            context.add_done_callback(lambda _: batch.close())
            await batch.open(self._work)
            device, _ = self._authorise(batch.head)
            failed = await device.exclusively(lambda: self._write(batch))
        except Exception as e:
            await abort(context, refusal(e))
        if failed:
            await _abort_batch(context, "write failed", failed)
        return p4r.WriteResponse()

    async def _write(self, batch: Batch[p4r.WriteRequest]) -> bytes:
        # Again, since the primary may have changed while the request waited for its turn.
        device, config = self._authorise(batch.head)
        store = device.pipelines.store
        if batch.head.atomicity not in _WRITE:
            raise Refused(Code.INVALID_ARGUMENT, f"atomicity {batch.head.atomicity} is unknown")
        carry_out = _WRITE[batch.head.atomicity]

        def work() -> bytes:
            return _status("write failed", carry_out(store, batch.whole().updates, config.ids))

        await self.budgets.working.enter(batch.weight)
        try:
            return await self._work(work)
        finally:
            self.budgets.working.leave(batch.weight)

    async def Read(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        """The answer is of one moment, before or after any Write, and made while it is sent: from the state itself if
        it is short, else from a snapshot, so that a client that takes its time holds up nobody."""
        reading = None
        try:
            batch = Batch(p4r.ReadRequest, "entities", data, self.budgets)
            context.add_done_callback(lambda _: batch.close())
            await batch.open(self._work)
            reading = _Reading(self.device(batch.head.device_id), batch, self.budgets, self._work)
            context.add_done_callback(lambda _: reading.close())
            pieces = await reading.begin()
            while (piece := await self._read_work(lambda: _next(pieces))) is not None:
                if piece:
                    yield piece
            failed = await self._read_work(reading.status)
        except Exception as e:
            await abort(context, refusal(e))
        if failed:
            await _abort_batch(context, "read failed", failed)

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.SetForwardingPipelineConfigResponse:
        try:
            device, config = self._authorise(request)
            if not config.can_push_pipeline:
                raise Refused(Code.PERMISSION_DENIED, f"role '{request.role}' may not push pipelines")
            compiled = None
            if pipeline.check(request):
                compiled = await self._compiler.compiled(request.config)
            await device.exclusively(lambda: self._set(request, compiled))
        except Exception as e:
            await abort(context, refusal(e))
        return p4r.SetForwardingPipelineConfigResponse()

    async def _set(self, request: p4r.SetForwardingPipelineConfigRequest, compiled: Compiled | None) -> None:
        device, _ = self._authorise(request)
        cookie = request.config.cookie.cookie if request.config.HasField("cookie") else None
        await self._work(lambda: device.pipelines.set(request.action, compiled, cookie))

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Any
    ) -> p4r.GetForwardingPipelineConfigResponse:
        try:
            return self.device(request.device_id).pipelines.get(request.response_type)
        except Exception as e:
            await abort(context, refusal(e))

    async def StreamChannel(self, request_iterator: AsyncIterator[bytes], context: Any) -> None:
        try:
            await stream.serve(request_iterator, context, self.device, self._sessions, self.budgets, self.reception)
        except Exception as e:
            await abort(context, refusal(e))

    async def Capabilities(self, request: p4r.CapabilitiesRequest, context: Any) -> p4r.CapabilitiesResponse:
        try:
            if request.device_id:
                self.device(request.device_id)
        except Exception as e:
            await abort(context, refusal(e))
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)


class _Reading:
    """A Read under way."""

    def __init__(self, device: Device, batch: Batch[p4r.ReadRequest], budgets: Budgets, work: Work) -> None:
        self._device, self._batch, self._budgets, self._work = device, batch, budgets, work
        self._reader: Reader | None = None
        self._held = self._answer = 0

    async def begin(self) -> Iterator[bytes]:
        """The pieces of the answer, to be made one after the other."""
        await self._hold(self._batch.weight)  # nothing for a small request, which waits for nobody
        short = await self._device.exclusively(self._short)
        if isinstance(short, bytes):
            if not self._budgets.requests.take(len(short)):
                raise Refused(Code.RESOURCE_EXHAUSTED, "too many requests wait for an answer; try again")
            self._answer = len(short)
            return iter((short,))
        # What is held is given back before more is waited for, lest Reads wait for each other.
        self._release()
        await self._hold(self._batch.weight + 2 * CHUNK_BYTES + short)
        return await self._device.exclusively(self._long)

    async def _hold(self, size: int) -> None:
        await self._budgets.reads.enter(size)
        self._held = size

    def _release(self) -> None:
        held, self._held = self._held, 0
        if held:
            self._budgets.reads.leave(held)

    async def _short(self) -> bytes | int:
        """The answer, or the size of the snapshot that it takes."""
        store, ids = self._device.pipelines.store, self._ids()

        def attempt() -> bytes | int:
            requests = self._batch.whole().entities
            reader = Reader(store, requests, ids)
            with HELD_OFF:
                answer = reader.short_answer()
            if answer is None:
                return snapshot.Scope(store, requests).bytes()
            self._reader = reader
            return answer

        return await self._work(attempt)

    async def _long(self) -> Iterator[bytes]:
        store, ids = self._device.pipelines.store, self._ids()

        def begin() -> Iterator[bytes]:
            requests = self._batch.whole().entities
            with HELD_OFF:
                self._reader = Reader(snapshot.take(snapshot.Scope(store, requests)), requests, ids)
            return self._reader.pieces()

        return await self._work(begin)

    def _ids(self) -> Any:
        return self._device.arbiter.role_config(self._batch.head.role).ids

    def status(self) -> bytes:
        """What became of the requests, empty if all is well."""
        return _status("read failed", self._reader.errors if self._reader else [])

    def close(self) -> None:
        """The call has ended."""
        self._reader = None
        self._release()
        answer, self._answer = self._answer, 0
        self._budgets.requests.give(answer)


def _next(pieces: Iterator[bytes]) -> bytes | None:
    with HELD_OFF:
        return next(pieces, None)


def _status(message: str, errors: list[Refused | None]) -> bytes:
    return batch_status(message, errors) if any(errors) else b""


async def abort(context: Any, error: Refused) -> NoReturn:
    """Ends a call with a status."""
    await context.abort(_STATUS[error.code], error.brief)
    raise AssertionError("abort() raises")


async def _abort_batch(context: Any, message: str, details: bytes) -> NoReturn:
    """UNKNOWN with one p4.v1.Error for each element of the batch."""
    await context.abort(grpc.StatusCode.UNKNOWN, message, (("grpc-status-details-bin", details),))
    raise AssertionError("abort() raises")
