# SPDX-License-Identifier: Apache-2.0
"""From gRPC's calls to the methods of the service. Messages come as bytes, and few at a time (`requests`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from finsy.proto import p4r

from detour.engine.p4runtime.errors import Code, Refused, refusal
from detour.engine.p4runtime.requests import parse
from detour.engine.p4runtime.service import Service

_UNARY: dict[str, Any] = {
    "SetForwardingPipelineConfig": p4r.SetForwardingPipelineConfigRequest,
    "GetForwardingPipelineConfig": p4r.GetForwardingPipelineConfigRequest,
    "Capabilities": p4r.CapabilitiesRequest,
}
_STATUS = {c.value[0]: c for c in grpc.StatusCode}
RpcHandler = Callable[[AsyncIterator[bytes], Any], Awaitable[Any]]


def register(service: Service, server: grpc.aio.Server) -> None:
    """Lets a server answer for the service."""
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
    """Ends a call with the status of its error. Only then, and from here: what aborts a call leaves its frames to the
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
    """Takes bytes of the budget for requests until the call has ended."""
    budget = service.budgets.requests
    if not budget.take(size):
        raise Refused(Code.RESOURCE_EXHAUSTED, "too many requests wait for an answer; try again")
    context.add_done_callback(lambda _: budget.give(size))
