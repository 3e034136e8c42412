# SPDX-License-Identifier: Apache-2.0
"""From gRPC's calls to the methods of the service. Messages come as bytes, and few at a time (`requests`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from finsy.proto import p4r

from detour.engine.p4runtime.errors import Code, Refused, refusal
from detour.engine.p4runtime.requests import parse
from detour.engine.p4runtime.service import Service, abort

_UNARY: dict[str, Any] = {
    "SetForwardingPipelineConfig": p4r.SetForwardingPipelineConfigRequest,
    "GetForwardingPipelineConfig": p4r.GetForwardingPipelineConfigRequest,
    "Capabilities": p4r.CapabilitiesRequest,
}


def register(service: Service, server: grpc.aio.Server) -> None:
    """Lets a server answer for the service."""
    handlers: dict[str, Any] = {
        "Write": grpc.stream_unary_rpc_method_handler(_write(service)),
        "Read": grpc.stream_stream_rpc_method_handler(_read(service)),
        "StreamChannel": grpc.stream_stream_rpc_method_handler(service.StreamChannel),
    }
    for name, kind in _UNARY.items():
        handlers[name] = grpc.stream_unary_rpc_method_handler(_unary(service, getattr(service, name), kind))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("p4.v1.P4Runtime", handlers),))


def _write(service: Service) -> Callable[..., Any]:
    async def write(requests: AsyncIterator[bytes], context: Any) -> bytes:
        data = await _receive(service, requests, context)
        return (await service.Write(data, context)).SerializeToString()

    return write


def _read(service: Service) -> Callable[..., Any]:
    async def read(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        data = await _receive(service, requests, context)
        async for piece in service.Read(data, context):
            yield piece

    return read


def _unary(service: Service, method: Callable[..., Any], kind: Any) -> Callable[..., Any]:
    async def call(requests: AsyncIterator[bytes], context: Any) -> bytes:
        data = await _receive(service, requests, context)
        try:
            _count(service, context, len(data))
            request = parse(kind, data)
        except Exception as e:
            await abort(context, refusal(e))
        del data
        answer = (await method(request, context)).SerializeToString()
        try:
            _count(service, context, len(answer))
        except Exception as e:
            await abort(context, refusal(e))
        return answer

    return call


async def _receive(service: Service, requests: AsyncIterator[bytes], context: Any) -> bytes:
    try:
        return await service.reception.only(requests)
    except Exception as e:
        await abort(context, refusal(e))


def _count(service: Service, context: Any, size: int) -> None:
    """Takes bytes of the budget for requests until the call has ended."""
    if not service.budgets.requests.take(size):
        raise Refused(Code.RESOURCE_EXHAUSTED, "too many requests wait for an answer; try again")
    context.add_done_callback(lambda _: service.budgets.requests.give(size))
