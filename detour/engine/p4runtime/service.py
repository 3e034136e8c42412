# SPDX-License-Identifier: Apache-2.0
"""The six RPCs of p4.v1.P4Runtime. Messages come as bytes, and few at a time (`requests`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import grpc
from finsy.proto import p4r

from detour.base.garbage import HELD_OFF
from detour.engine.p4runtime import pipeline, snapshot, stream
from detour.engine.p4runtime.arbitration import RoleConfig
from detour.engine.p4runtime.atomic import write_atomically
from detour.engine.p4runtime.config import Compiler
from detour.engine.p4runtime.device import P4Device
from detour.engine.p4runtime.errors import Code, Outcomes, Refused, refusal
from detour.engine.p4runtime.limits import Budgets, Limits
from detour.engine.p4runtime.read import CHUNK_BYTES, Reader
from detour.engine.p4runtime.requests import Batch, Reception, Work, parse
from detour.engine.p4runtime.store import EntityStore
from detour.engine.p4runtime.write import write

API_VERSION = "1.5.0"
"""The version of P4Runtime whose messages (finsy's stubs) and rules this server has."""

BatchMethod = Callable[[Any, Any, Any], Outcomes]
_WRITE: dict[int, tuple[BatchMethod, bool]] = {
    # what carries a batch out, whether it takes it slice by slice
    p4r.WriteRequest.CONTINUE_ON_ERROR: (write, True),
    p4r.WriteRequest.ROLLBACK_ON_ERROR: (write_atomically, False),
    p4r.WriteRequest.DATAPLANE_ATOMIC: (write_atomically, False),
}
_UNARY: dict[str, Any] = {
    "SetForwardingPipelineConfig": p4r.SetForwardingPipelineConfigRequest,
    "GetForwardingPipelineConfig": p4r.GetForwardingPipelineConfigRequest,
    "Capabilities": p4r.CapabilitiesRequest,
}
_STATUS = {c.value[0]: c for c in grpc.StatusCode}
RpcHandler = Callable[[AsyncIterator[bytes], Any], Awaitable[Any]]


class Service:
    """Handlers run in the event loop's thread; whatever takes time goes to a worker thread by `work`.

    Long answers are made by `read_work`, so that Reads hold up nobody but each other, and large requests are taken
    apart and carried out by `bulk_work`: each thread that decodes takes its turns at the interpreter from the event
    loop, so there are few of them.
    """

    def __init__(
        self, work: Work, read_work: Work | None = None, bulk_work: Work | None = None, limits: Limits | None = None
    ) -> None:
        self.devices: dict[int, P4Device] = {}
        self._limits = limits or Limits()
        self.begin()
        self._read_work, self._bulk_work = read_work or work, bulk_work or work
        self._sessions: set[stream.Stream] = set()
        self._compiler = Compiler()
        self._work = work

    def begin(self) -> None:
        """Before the server starts, also anew: nothing is held."""
        self.budgets = Budgets(self._limits)
        self.reception = Reception(self.budgets)

    def device(self, device_id: int) -> P4Device:
        """A device by id; NOT_FOUND if there is none."""
        device = self.devices.get(device_id)
        if device is None:
            raise Refused(Code.NOT_FOUND, f"there is no device {device_id}")
        return device

    def close(self) -> None:
        """Compile no more."""
        self._compiler.close()

    def end_streams(self, reason: Refused, device: P4Device | None = None) -> None:
        """End the streams of a device, or all streams."""
        for session in self._sessions:
            if device is None or session.device is device:
                session.close(reason)

    def _authorise(self, request: Any) -> tuple[P4Device, RoleConfig]:
        """Check device, role and election id of a request that changes something, in the spec's order."""
        device = self.device(request.device_id)
        election = request.election_id if request.HasField("election_id") else None
        return device, device.arbiter.authorise(_role(request), election)

    # -- RPCs

    def _work_for(self, batch: Batch[Any]) -> Work:
        """Small requests do not wait behind large ones."""
        return self._work if batch.small else self._bulk_work

    async def Write(self, context: Any) -> bytes:
        batch = Batch(p4r.WriteRequest, "updates", await self.reception.only(context), self.budgets)
        try:
            await batch.open(self._bulk_work)
            device, _ = self._authorise(batch.head)
            if batch.head.atomicity not in _WRITE:
                raise Refused(Code.INVALID_ARGUMENT, f"atomicity {batch.head.atomicity} is unknown")
            carry_out, sliced = _WRITE[batch.head.atomicity]
            weight = batch.sliced_weight if sliced else batch.whole_weight
            scope = None
            if not batch.small:
                scope = await self._bulk_work(lambda: _scope(device.pipelines.store, batch))
                weight += scope.bytes()
            # A large one waits before it is at the device, so that small ones are not held up there.
            await self.budgets.working.enter(weight)
            try:
                if scope is None:
                    await device.exclusively(lambda: self._write(batch, carry_out))
                else:
                    await device.exclusively(lambda: self._write_large(batch, carry_out, scope), device.writing)
                if batch.status:
                    await _abort_batch(context, "write failed", batch)
            finally:
                self.budgets.working.leave(weight)
        finally:
            batch.close()
        return b""

    async def _write(self, batch: Batch[p4r.WriteRequest], carry_out: BatchMethod) -> None:
        batch.keep()
        try:
            # Again, since the primary may have changed while the request waited for its turn.
            device, config = self._authorise(batch.head)
            store = device.pipelines.store
            ids = device.ids(_role(batch.head), config)
            work = self._work_for(batch)
            batch.status = await work(lambda: _status("write failed", carry_out(store, batch.elements, ids)))
        finally:
            batch.close()

    async def _write_large(self, batch: Batch[p4r.WriteRequest], carry_out: BatchMethod, scope: snapshot.Scope) -> None:
        """Read go on meanwhile, from a copy of what the batch may change: it takes seconds."""
        device = self.device(batch.head.device_id)
        batch.keep()
        try:
            async with device.lock:
                if scope.store is not device.pipelines.store:  # a pipeline was set while the batch waited
                    scope = await self._work(lambda: _scope(device.pipelines.store, batch))
                device.before = await self._work(lambda: snapshot.take(scope, live=True))
            await self._write(batch, carry_out)
        finally:
            device.before = None
            batch.close()

    async def Read(self, context: Any) -> None:
        """The answer is of one moment, before or after any Write, and made while it is sent: from the state itself if
        it is short, else from a snapshot, so that a client that takes its time holds up nobody."""
        batch = Batch(p4r.ReadRequest, "entities", await self.reception.only(context), self.budgets)
        reading = None
        try:
            await batch.open(self._bulk_work)
            reading = _Reading(self.device(batch.head.device_id), batch, self.budgets, self._work_for(batch))
            pieces = await reading.begin()
            while (piece := await self._read_work(lambda: _next(pieces))) is not None:
                if piece:
                    await context.write(piece)
            del piece
            batch.status = await self._read_work(reading.status)
            if batch.status:
                await _abort_batch(context, "read failed", batch)
        finally:
            if reading is not None:
                reading.close()
            batch.close()

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest
    ) -> p4r.SetForwardingPipelineConfigResponse:
        device, config = self._authorise(request)
        if not config.can_push_pipeline:
            raise Refused(Code.PERMISSION_DENIED, f"role '{request.role}' may not push pipelines")
        compiled = None
        if pipeline.check(request):
            compiled = await self._compiler.compiled(request.config)
        cookie = request.config.cookie.cookie if request.config.HasField("cookie") else None

        async def set_pipeline() -> None:
            self._authorise(request)  # again: the primary may have changed meanwhile
            await self._work(lambda: device.pipelines.set(request.action, compiled, cookie))

        await device.exclusively(set_pipeline)
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        return self.device(request.device_id).pipelines.get(request.response_type)

    async def StreamChannel(self, context: Any) -> None:
        await stream.serve(context, self.device, self._sessions, self.budgets, self.reception)

    async def Capabilities(self, request: p4r.CapabilitiesRequest) -> p4r.CapabilitiesResponse:
        if request.device_id:
            self.device(request.device_id)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)


class _Reading:
    """A Read under way."""

    def __init__(self, device: P4Device, batch: Batch[p4r.ReadRequest], budgets: Budgets, work: Work) -> None:
        self._device, self._batch, self._budgets, self._work = device, batch, budgets, work
        self._reader: Reader | None = None
        self._held = self._answer = 0

    async def begin(self) -> Iterator[bytes]:
        """The pieces of the answer, to be made one after the other."""
        await self._hold(self._batch.whole_weight)  # nothing for a small request, which waits for nobody
        short = await self._device.exclusively(self._short, self._device.lock)
        if isinstance(short, bytes):
            self._budgets.requests.require(len(short))
            self._answer = len(short)
            return iter((short,))
        # What is held is given back before more is waited for, lest Reads wait for each other.
        self._release()
        await self._hold(self._batch.whole_weight + 2 * CHUNK_BYTES + short)
        return await self._device.exclusively(self._long, self._device.lock)

    async def _hold(self, size: int) -> None:
        await self._budgets.reads.enter(size)
        self._held = size

    def _release(self) -> None:
        held, self._held = self._held, 0
        if held:
            self._budgets.reads.leave(held)

    async def _short(self) -> bytes | int:
        """The answer, or the size of the snapshot that it takes."""
        store, ids = self._device.readable, self._ids()

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
        store, ids = self._device.readable, self._ids()

        def begin() -> Iterator[bytes]:
            requests = self._batch.whole().entities
            with HELD_OFF:
                self._reader = Reader(snapshot.take(snapshot.Scope(store, requests)), requests, ids)
            return self._reader.pieces()

        return await self._work(begin)

    def _ids(self) -> Any:
        role = self._batch.head.role
        return self._device.ids(role, self._device.arbiter.role_config(role))

    def status(self) -> bytes:
        """The status of the requests, empty if all succeeded."""
        return _status("read failed", self._reader.errors) if self._reader else b""

    def close(self) -> None:
        """The call has ended."""
        self._reader = None
        self._release()
        answer, self._answer = self._answer, 0
        self._budgets.requests.give(answer)


def _role(request: Any) -> str:
    """Clients of versions before 1.4 number theirs."""
    return request.role or (str(request.role_id) if request.role_id else "")


def _scope(store: EntityStore, batch: Batch[p4r.WriteRequest]) -> snapshot.Scope:
    return snapshot.Scope(store, (update.entity for update in batch.elements))


def _next(pieces: Iterator[bytes]) -> bytes | None:
    with HELD_OFF:
        return next(pieces, None)


def _status(message: str, outcomes: Outcomes) -> bytes:
    return outcomes.status(message) if outcomes.failed else b""


async def _abort_batch(context: Any, message: str, batch: Batch[Any]) -> None:
    """UNKNOWN with one p4.v1.Error for each element of the batch."""
    try:
        await context.abort(grpc.StatusCode.UNKNOWN, message, (("grpc-status-details-bin", batch.status),))
    finally:
        context.set_trailing_metadata(())  # the context stays until the garbage collector comes by


# -- from gRPC's calls to the methods of the service


def register(service: Service, server: grpc.aio.Server) -> None:
    """Let a server answer for the service."""
    handlers: dict[str, Any] = {
        "Write": grpc.stream_unary_rpc_method_handler(_guarded(service.Write)),
        "Read": grpc.stream_stream_rpc_method_handler(_guarded(service.Read)),
        "StreamChannel": grpc.stream_stream_rpc_method_handler(_guarded(service.StreamChannel)),
    }
    for name, kind in _UNARY.items():
        call = _guarded(_unary(service, getattr(service, name), kind))
        handlers[name] = grpc.stream_unary_rpc_method_handler(call)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("p4.v1.P4Runtime", handlers),))


def _guarded(method: Callable[[Any], Awaitable[Any]]) -> RpcHandler:
    """End a call with the status of its error. Only then, and from here: what aborts a call leaves its frames to the
    garbage collector, and those of the method have requests in them."""

    async def call(_: AsyncIterator[bytes], context: Any) -> Any:
        try:
            return await method(context)
        except (grpc.aio.AbortError, grpc.aio.InternalError):
            raise  # it has been answered, or nobody is left to be answered
        except Exception as e:
            error = refusal(e)
        await context.abort(_STATUS[error.code], error.brief)

    return call


def _unary(service: Service, method: Callable[[Any], Awaitable[Any]], kind: Any) -> Callable[[Any], Awaitable[bytes]]:
    async def call(context: Any) -> bytes:
        data = await service.reception.only(context)
        _count(service, context, len(data))
        request = parse(kind, data)
        del data
        answer = (await method(request)).SerializeToString()
        _count(service, context, len(answer))
        return answer

    return call


def _count(service: Service, context: Any, size: int) -> None:
    """Take bytes of the budget for requests until the call has ended."""
    budget = service.budgets.requests
    budget.require(size)
    context.add_done_callback(lambda _: budget.give(size))
