# SPDX-License-Identifier: Apache-2.0
"""`web`: serves the page in the foreground."""

from __future__ import annotations

import argparse
import json
import secrets
from typing import Any

from detour.base.errors import DetourError
from detour.cli.asking import running
from detour.cli.parser import add_name_option, command, port_number, seconds

DEFAULT_PORT = 8470
_SHORTEST_TOKEN = 16


def register(commands: Any) -> None:
    """Adds this command."""
    web = command(commands, "web", "a page that shows the fabric that is up and lets it be changed, until Ctrl-C", _web)
    web.add_argument(
        "--port", type=port_number, default=DEFAULT_PORT, metavar="N", help=f"on loopback ({DEFAULT_PORT}; 0: any)"
    )
    who = web.add_mutually_exclusive_group()
    who.add_argument("--token", metavar="TEXT", help="that lets the page change the fabric (default: a random one)")
    who.add_argument("--read-only", action="store_true", help="nobody changes anything by the page")
    web.add_argument("--interval", type=seconds, default=0.5, metavar="S", help="between updates (0.5)")
    add_name_option(web)


def _web(options: argparse.Namespace) -> None:
    from detour.cli.web.serving import serve

    token = None if options.read_only else options.token or secrets.token_urlsafe(24)
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise DetourError(f"--token: {_SHORTEST_TOKEN} printable ASCII characters at least")

    def ready(url: str) -> None:
        if options.json:
            print(json.dumps({"url": url}), flush=True)
        else:
            print(f"{url}\n(who has this address can change the fabric; Ctrl-C ends)" if token else url, flush=True)

    serve(running(), options.port, token, options.interval, ready)
