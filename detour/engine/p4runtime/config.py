# SPDX-License-Identifier: Apache-2.0
"""ForwardingPipelineConfig: P4Info, the BMv2 JSON and a cookie, compiled once for all switches that get it."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

from finsy.proto import p4r

from detour.base.errors import InternalError
from detour.engine.compiler.program import Program
from detour.engine.p4runtime import schema
from detour.engine.p4runtime.errors import Code, Refused, invalid, refusal
from detour.engine.p4runtime.requests import fields
from detour.engine.target import compile_program

_KEEP = 8
_WORKERS = 2
_MOST = 8
"""different configs that are being compiled or wait for it"""


@dataclass(frozen=True)
class Compiled:
    """A config that the engine can run, as it was given (but for the cookie) and as it is used. One object serves all
    switches that get the same config."""

    message: p4r.ForwardingPipelineConfig
    info: schema.Schema
    program: Program


class Compiler:
    """Compiles configs, a few at once, under limits. What many switches get at once is compiled once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._workers: ThreadPoolExecutor | None = None
        self._done: OrderedDict[bytes, Future[Compiled]] = OrderedDict()
        self._in_use: WeakValueDictionary[bytes, Compiled] = WeakValueDictionary()
        """those that a switch runs are had without compiling, however many others came since"""

    def compile(self, message: p4r.ForwardingPipelineConfig) -> Compiled:
        """Check and compile; INVALID_ARGUMENT says what the engine cannot realise."""
        return self._begin(message).result()

    async def compiled(self, message: p4r.ForwardingPipelineConfig) -> Compiled:
        """The same without a thread that waits. A caller that goes away leaves the compilation to the others."""
        return await asyncio.shield(asyncio.wrap_future(self._begin(message)))

    def close(self) -> None:
        """No more compilations; those that have begun come to their end or limit by themselves. Where there are none no
        thread is left when it returns."""
        with self._lock:
            workers, self._workers = self._workers, None
            idle = self._under_way == 0
        if workers is not None:
            workers.shutdown(wait=idle, cancel_futures=True)

    def _begin(self, message: p4r.ForwardingPipelineConfig) -> Future[Compiled]:
        """Return a worker's future result for a config. RESOURCE_EXHAUSTED if too many others wait for one."""
        if not message.HasField("p4info"):
            raise invalid("the config has no P4Info")
        if not message.p4_device_config:
            raise invalid("the config has no p4_device_config; it must be BMv2 JSON")
        digest = hashlib.sha256(message.p4_device_config)
        digest.update(message.p4info.SerializeToString(deterministic=True))
        key = digest.digest()
        with self._lock:
            future = self._done.get(key)
            if future is None and (in_use := self._in_use.get(key)) is not None:
                future = Future()
                future.set_result(in_use)
            if future is None:
                if self._under_way >= _MOST:
                    raise Refused(
                        Code.RESOURCE_EXHAUSTED,
                        f"{self._under_way} other pipelines are being compiled or are waiting: try again later",
                    )
                if self._workers is None:
                    # Of their own: requests that need no compiler have the server's other workers.
                    self._workers = ThreadPoolExecutor(_WORKERS, "p4runtime-compiler")
                self._under_way += 1
                future = self._done[key] = Future()
                job = self._workers.submit(self._compile, message, future, key)
                job.add_done_callback(partial(self._drop, future, key))
            if key in self._done:
                self._done.move_to_end(key)
        return future

    def _drop(self, future: Future[Compiled], key: bytes, job: Future[None]) -> None:
        """Tell the client whose compilation `close` cancelled before it began."""
        if job.cancelled():
            with self._lock:
                self._done.pop(key, None)
                self._under_way -= 1
            future.set_exception(Refused(Code.UNAVAILABLE, "the server stops"))

    def _compile(self, message: p4r.ForwardingPipelineConfig, future: Future[Compiled], key: bytes) -> None:
        try:
            program = compile_program(device_data(message.p4_device_config))
            kept = p4r.ForwardingPipelineConfig(p4info=message.p4info, p4_device_config=message.p4_device_config)
            compiled = Compiled(kept, _schema(message, program), program)
            with self._lock:
                self._in_use[key] = compiled
                finished = [other for other, each in self._done.items() if each.done()]
                for other in finished[: max(0, len(finished) + 1 - _KEEP)]:
                    del self._done[other]
            future.set_result(compiled)
        except BaseException as e:
            with self._lock:
                self._done.pop(key, None)
            future.set_exception(refusal(e))
        finally:
            with self._lock:
                self._under_way -= 1


def _schema(message: p4r.ForwardingPipelineConfig, program: Program) -> schema.Schema:
    try:
        return schema.build(message.p4info, program.model)
    except (Refused, MemoryError):
        raise
    except RecursionError as e:  # types that refer to themselves
        raise invalid("P4Info is nested too deep") from e
    except Exception as e:
        raise InternalError.of("reading P4Info", e) from e


def device_data(config: bytes) -> bytes:
    """The JSON, which older clients (p4lang's tutorials) wrap in a p4.tmp.P4DeviceConfig. That message is `bool
    reassign = 1; Extras extras = 2; bytes device_data = 3`. A JSON document begins with "{" (or white space), which
    would be a field of wire type 3, so the two cannot be confused."""
    if config.lstrip()[:1] == b"{":
        return config
    with suppress(Refused):
        for tag, _, begin, end in fields(config):
            if tag == 3 << 3 | 2 and end <= len(config):
                return config[begin:end]
    raise invalid("p4_device_config is neither BMv2 JSON nor a p4.tmp.P4DeviceConfig")
