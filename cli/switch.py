# SPDX-License-Identifier: Apache-2.0
"""`detour switch`: one switch with the command line of simple_switch_grpc; also installed as `detour-switch-grpc`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from detour.base.errors import DetourError
from detour.base.reports import need_address_space, report


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the switch until it is told to end. Exit code 2: the command line is wrong, or something is missing. 70: a
    mistake of detour's own."""
    from detour.engine.switch import options

    try:
        parsed = options.parse(sys.argv[1:] if arguments is None else arguments)
        if isinstance(parsed, str):
            print(parsed, end="")
            return 0
        need_address_space()
        # Only now: help and mistakes need no compiler.
        from detour.engine.switch.process import run

        run(parsed)
    except DetourError as error:
        print(error, file=sys.stderr)
        return 2
    except Exception as error:
        return report(error, "detour switch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
