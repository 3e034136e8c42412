# SPDX-License-Identifier: Apache-2.0
"""The asyncio loop for code that uses `grpc.aio` while another loop of the same process does so too.

gRPC has one completion queue a process. Whichever loop wakes first takes what is in it and hands an event on to the
loop that it belongs to. A call that was cancelled just before its loop closed still completes, and the completion
would raise "Event loop is closed" in a loop that has nothing to do with it. Nobody waits for such an event any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any


class GrpcLoop(asyncio.SelectorEventLoop):
    """A loop that drops what other threads hand it after it has been closed."""

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's, but on a closed loop the callback is never called, and the handle says that it is cancelled."""
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            if not self.is_closed():
                raise
            handle = asyncio.Handle(callback, args, self, context)
            handle.cancel()
            return handle
