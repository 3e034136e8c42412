# SPDX-License-Identifier: Apache-2.0
"""Who may see the page, and who may change the fabric by it.

The page listens on loopback, but every page in a browser can send requests there, and a name of somebody else's can be
made to lead there (DNS rebinding). So requests must name this server by a name of loopback, must not come from another
page, and change something only by POST with the token that is printed with the address.
"""

from __future__ import annotations

import hmac

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

TOKEN_HEADER = "X-Detour-Token"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Of one server. `token` None: nobody may change anything."""

    def __init__(self, port: int, token: str | None) -> None:
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._token = token

    def may_change(self, request: web.Request) -> bool:
        """Whether a request has the token."""
        given = request.headers.get(TOKEN_HEADER, "")
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def middleware(self) -> Middleware:
        """Refuses what must not be, and tells the browser what the page may do."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            why = self._refused(request)
            if why is not None:
                return web.json_response({"error": why}, status=403, headers=HEADERS)
            response = await handler(request)
            if not response.prepared:
                response.headers.update(HEADERS)
            return response

        return guard

    def _refused(self, request: web.Request) -> str | None:
        if request.headers.get("Host", "") not in self._hosts:
            return "this server is asked by the name 127.0.0.1 or localhost only"
        origin = request.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return "another page may not ask this server"
        if request.method not in ("GET", "HEAD") and not self.may_change(request):
            return "read-only: changes need the token of the address that `detour web` printed"
        return None
