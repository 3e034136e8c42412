# SPDX-License-Identifier: Apache-2.0
"""The process in which a `network.py` runs: `python -m detour.fabric.labs.script_runner SCRIPT ANSWER`."""

from __future__ import annotations

import json
import linecache
import runpy
import sys
import traceback
from pathlib import Path
from types import FunctionType, ModuleType

from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.fabric.labs.network_api import NetworkAPI, NetworkStarted
from detour.fabric.labs.p4utils_tasks import RECEIVES, SENDS, TRAFFIC


def _install() -> None:
    """Put the API where scripts import it from, whether p4-utils is installed or not."""
    for name in ("p4utils", "p4utils.mininetlib", "p4utils.mininetlib.network_API", "p4utils.utils", TRAFFIC):
        module = ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
    sys.modules["p4utils.mininetlib.network_API"].NetworkAPI = NetworkAPI  # pyright: ignore[reportAttributeAccessIssue]
    for name in (SENDS, RECEIVES):
        setattr(sys.modules[TRAFFIC], name, _function(name))
    sys.modules["p4utils"].mininetlib = sys.modules["p4utils.mininetlib"]  # pyright: ignore[reportAttributeAccessIssue]


def _function(name: str) -> FunctionType:
    """One that tasks name."""

    def function(*_: object, **__: object) -> None:
        raise DetourError(f"{name} is for tasks; it cannot be called here")

    function.__name__, function.__module__ = name, TRAFFIC
    return function


def _line(script: str, error: BaseException) -> int:
    """Return the line of the script in which it ended."""
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    return (frames[-1] or 1) if frames else 1


def _advice(script: str, error: BaseException) -> str:
    """For who has to give the script arguments."""
    reads = "sys.argv" in linecache.getline(script, _line(script, error)) or isinstance(error, SystemExit)
    return "; the script takes arguments: --lab-args 'ARGUMENT...'" if reads else ""


def main(script: str, answer: str, *arguments: str) -> int:
    """Exit code 0: the answer is written. Otherwise the last line on standard error says why not."""
    _install()
    NetworkAPI.script = script
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except NetworkStarted as started:
        Path(answer).write_text(json.dumps(as_json(started.args[0])))
        return 0
    except SyntaxError as error:
        print(f"{error.filename}, line {error.lineno}: {error.msg}", file=sys.stderr)
    except DetourError as error:
        print(f"{script}, line {_line(script, error)}: {error}", file=sys.stderr)
    except (Exception, SystemExit) as error:
        text = " ".join(str(error).split())
        print(
            f"{script}, line {_line(script, error)}: {type(error).__name__}: {text}{_advice(script, error)}",
            file=sys.stderr,
        )
    else:
        print(f"{script}: ends without startNetwork()", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
