# SPDX-License-Identifier: Apache-2.0
"""`detour switch`: one switch with the command line of simple_switch_grpc; also installed as `detour-switch-grpc`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from detour.base.reports import need_address_space
from detour.base.standard import open_standard
from detour.cli import reported


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the switch until it is told to end. Exit code 2: the command line is wrong, or something is missing. 70: a
    mistake of detour's own."""
    if arguments is None:
        open_standard()
    words = sys.argv[1:] if arguments is None else arguments
    return reported(lambda: _run(words), "detour switch", plain=True)


def _run(words: Sequence[str]) -> int:
    from detour.engine.switch import options

    parsed = options.parse(words)
    if isinstance(parsed, str):
        print(parsed, end="", flush=True)
        return 0
    need_address_space()
    # Only now: help and mistakes need no compiler.
    from detour.engine.switch.process import run

    run(parsed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
