# SPDX-License-Identifier: Apache-2.0
"""`web`: serves the page in the foreground."""

from __future__ import annotations

import argparse
import json
import os
import secrets
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.cli.asking import running
from detour.cli.parser import add_name_option, command, port_number, seconds

DEFAULT_PORT = 8470
_SHORTEST_TOKEN = 16
_TOKEN_VARIABLE = "DETOUR_WEB_TOKEN"


def register(commands: Any) -> None:
    web = command(commands, "web", "serve a web page that shows and changes the running fabric, until Ctrl-C", _web)
    web.option("--port", f"port on loopback ({DEFAULT_PORT}; 0: any free port)", "N", port_number, default=DEFAULT_PORT)
    what = web.add_mutually_exclusive_group()
    text = "play back a run of `detour sim --record FILE` instead"
    what.add_argument("--run", dest="recorded", type=Path, metavar="FILE", help=text)
    what.add_argument(
        "--program", metavar="P4|P4INFO,JSON", help="send packets through a P4 program; no fabric is booted"
    )
    what.add_argument(
        "--trace", nargs="+", type=Path, metavar="FILE", help="show the packets of trace files (`trace --read`)"
    )
    web.option(
        "--entries", "with --program: a P4Runtime WriteRequest as text, or a tutorial's runtime.json", "FILE", Path
    )
    web.option("--tests", "with --program: tests in STF, whose packets the page shows step by step", "DIR", Path)
    who = web.add_mutually_exclusive_group()
    text = f"token that permits changes (default: ${_TOKEN_VARIABLE}, or random); visible to all users in ps"
    who.add_argument("--token", metavar="TEXT", help=text)
    who.add_argument("--token-file", metavar="FILE", help="file with the token (-: standard input)")
    who.add_argument("--read-only", action="store_true", help="refuse all changes")
    web.option("--interval", "seconds between updates (0.5)", "S", seconds, default=0.5)
    add_name_option(web)


def _web(options: argparse.Namespace) -> None:
    for option in ("entries", "tests"):
        if getattr(options, option) is not None and options.program is None:
            raise DetourError(f"--{option} needs --program")
    shown = options.recorded or options.trace
    if shown is not None and (options.token is not None or options.token_file is not None):
        raise DetourError("--token has no effect on files, which cannot be changed")
    if options.recorded is not None:
        _play(options)
    elif options.program is not None:
        _show_program(options)
    elif options.trace is not None:
        _show_traces(options)
    else:
        from detour.cli.web.serving import serve

        token = _token(options)
        serve(running(), options.port, token, options.interval, _said(options, token, "change the fabric"))


def _play(options: argparse.Namespace) -> None:
    from detour.cli.web.feed import SampleHub
    from detour.cli.web.recorder import RunAnswers, read_run
    from detour.cli.web.serving import serve_page

    run = read_run(options.recorded)
    serve_page(
        RunAnswers(run.head, run.paths), SampleHub(None, run.samples), options.port, ready=_said(options, None, "")
    )


def _show_program(options: argparse.Namespace) -> None:
    from detour.cli.web.feed import SampleHub
    from detour.cli.web.program import ProgramAnswers
    from detour.cli.web.serving import serve_page
    from detour.control.p4runtime.pipeline import PipelineConfig

    token = _token(options)
    source = Path(options.program) if options.program.endswith(".p4") else None
    files = PipelineConfig.given(options.program)
    answers = ProgramAnswers(files, options.entries, token is not None, source, options.tests)
    with closing(answers):
        serve_page(answers, SampleHub(), options.port, token, _said(options, token, "send packets"))


def _show_traces(options: argparse.Namespace) -> None:
    from detour.cli.web.feed import SampleHub
    from detour.cli.web.serving import serve_page
    from detour.cli.web.traces import TraceAnswers

    serve_page(TraceAnswers(options.trace), SampleHub(), options.port, ready=_said(options, None, ""))


def _token(options: argparse.Namespace) -> str | None:
    if options.read_only:
        return None
    if options.token is not None:
        where, token = "--token", options.token
    elif options.token_file is not None:
        where, token = f"--token-file {options.token_file}", _read_token(options.token_file)
    else:
        where, token = f"${_TOKEN_VARIABLE}", os.environ.get(_TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise DetourError(f"{where}: expected at least {_SHORTEST_TOKEN} printable ASCII characters")
    return token


def _read_token(file: str) -> str:
    try:
        with open(0 if file == "-" else file, closefd=file != "-", errors="replace") as text:
            return text.readline(1024).strip()
    except OSError as error:
        raise DetourError(f"--token-file {file}: {error.strerror}") from None


def _said(options: argparse.Namespace, token: str | None, what: str) -> Callable[[str], None]:

    def ready(url: str) -> None:
        if options.json:
            print(json.dumps({"url": url}), flush=True)
        else:
            print(f"{url}\n(who has this address can {what}; Ctrl-C ends)" if token else url, flush=True)

    return ready
