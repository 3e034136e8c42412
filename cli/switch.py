# SPDX-License-Identifier: Apache-2.0
"""`detour switch`: one switch with the command line of simple_switch_grpc; also installed as `detour-switch-grpc`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from detour.base.errors import DetourError, WriteError
from detour.base.reports import need_address_space, report
from detour.base.standard import open_standard, silence_output


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the switch until it is told to end. Exit code 2: the command line is wrong, or something is missing. 70: a
    mistake of detour's own."""
    from detour.engine.switch import options

    if arguments is None:
        open_standard()
    try:
        parsed = options.parse(sys.argv[1:] if arguments is None else arguments)
        if isinstance(parsed, str):
            print(parsed, end="", flush=True)
            return 0
        need_address_space()
        # Only now: help and mistakes need no compiler.
        from detour.engine.switch.process import run

        run(parsed)
    except DetourError as error:
        if isinstance(error, WriteError):
            silence_output()
            print("detour switch: ", end="", file=sys.stderr)
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        silence_output()
        return 0
    except Exception as error:
        return report(error, "detour switch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
