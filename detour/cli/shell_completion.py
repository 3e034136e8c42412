# SPDX-License-Identifier: Apache-2.0
"""`completion`: what a shell offers for commands and options."""

from __future__ import annotations

import argparse
from typing import Any

from detour.cli.parser import command

SHELLS = ("bash", "zsh", "tcsh")


def register(commands: Any) -> None:
    text = 'print the completion script of a shell; use it like eval "$(detour completion bash)"'
    parser = command(commands, "completion", text, _completion, json=False)
    parser.add_argument("shell", choices=SHELLS)


def _completion(options: argparse.Namespace) -> None:
    import shtab

    from detour.cli import make_parser

    print(shtab.complete(make_parser(), options.shell))
