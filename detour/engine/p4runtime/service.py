# SPDX-License-Identifier: Apache-2.0
"""The six RPCs of p4.v1.P4Runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc
from finsy.proto import p4r, p4r_grpc

from detour.engine.p4runtime import pipeline, stream
from detour.engine.p4runtime.atomic import write_atomically
from detour.engine.p4runtime.collector import HELD_OFF
from detour.engine.p4runtime.config import Compiled, Compiler
from detour.engine.p4runtime.device import Device
from detour.engine.p4runtime.errors import Code, Refused, batch_status, refusal
from detour.engine.p4runtime.read import Reader
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
Work = Callable[[Callable[[], Any]], Awaitable[Any]]


class Service(p4r_grpc.P4RuntimeServicer):
    """Handlers run in the event loop's thread; whatever takes time goes to a worker thread by `work`."""

    def __init__(self, work: Work) -> None:
        self.devices: dict[int, Device] = {}
        self._sessions: set[Session] = set()
        self._compiler = Compiler()
        self._work = work

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

    async def Write(self, request: p4r.WriteRequest, context: Any) -> p4r.WriteResponse:
        try:
            device, _ = self._authorise(request)
            errors = await device.exclusively(lambda: self._write(request))
        except Exception as e:
            await _abort(context, refusal(e))
        if any(errors):
            await _abort_batch(context, "write failed", errors)
        return p4r.WriteResponse()

    async def _write(self, request: p4r.WriteRequest) -> list[Refused | None]:
        # Again, since the primary may have changed while the request waited for its turn.
        device, config = self._authorise(request)
        store = device.pipelines.store
        if request.atomicity not in _WRITE:
            raise Refused(Code.INVALID_ARGUMENT, f"atomicity {request.atomicity} is unknown")
        carry_out = _WRITE[request.atomicity]
        return await self._work(lambda: carry_out(store, request.updates, config.ids))

    async def Read(self, request: p4r.ReadRequest, context: Any) -> AsyncIterator[p4r.ReadResponse]:
        try:
            device = self.device(request.device_id)
            reader, responses = await device.exclusively(lambda: self._read(device, request))
        except Exception as e:
            await _abort(context, refusal(e))
        # All of it was read before any of it is sent: a client that takes its time must not hold up writers.
        for response in responses:
            yield response
        if any(reader.errors):
            await _abort_batch(context, "read failed", reader.errors)

    async def _read(self, device: Device, request: p4r.ReadRequest) -> tuple[Reader, list[p4r.ReadResponse]]:
        config = device.arbiter.role_config(request.role)
        reader = Reader(device.pipelines.store, request.entities, config.ids)
        return reader, await self._work(lambda: _read_all(reader))

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
            await _abort(context, refusal(e))
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
            await _abort(context, refusal(e))

    async def StreamChannel(self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Any) -> None:
        try:
            await stream.serve(request_iterator, context, self.device, self._sessions)
        except Exception as e:
            await _abort(context, refusal(e))

    async def Capabilities(self, request: p4r.CapabilitiesRequest, context: Any) -> p4r.CapabilitiesResponse:
        try:
            if request.device_id:
                self.device(request.device_id)
        except Exception as e:
            await _abort(context, refusal(e))
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)


def _read_all(reader: Reader) -> list[p4r.ReadResponse]:
    with HELD_OFF:
        return list(reader.chunks())


async def _abort(context: Any, error: Refused) -> NoReturn:
    await context.abort(_STATUS[error.code], error.brief)
    raise AssertionError("abort() raises")


async def _abort_batch(context: Any, message: str, errors: list[Refused | None]) -> NoReturn:
    """UNKNOWN with one p4.v1.Error for each element of the batch."""
    details = batch_status(message, errors)
    await context.abort(grpc.StatusCode.UNKNOWN, message, (("grpc-status-details-bin", details),))
    raise AssertionError("abort() raises")
