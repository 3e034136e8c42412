# SPDX-License-Identifier: Apache-2.0
"""Faults put in on purpose, so that it is known that the targets find them: `planted:FAULT` runs a target with one.

`bounds` leaves out of the generated code what keeps the parser inside the packet; native code crashes. `table`
forgets a change, `json` raises what is not a DetourError, `server` what is not a status, `hosts` uses a QP's number
again at once, `hang` does not end. `slow` is none: it takes long and ends.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from detour.base.cache import Cache
from detour.engine.compiler import native, parser
from detour.engine.p4runtime import service
from detour.engine.tables import MatchTable
from detour.hosts.verbs import Device
from tests.fuzz import hosts, json_loader, p4runtime, pipeline, tables
from tests.fuzz.board import Board
from tests.fuzz.budget import Budget


def _raise(*_: Any) -> Any:
    raise KeyError("planted")


def _give_back_at_once(device: Device, what: str, index: int) -> None:
    {"qp": device._free_qps, "mr": device._free_mrs, "cq": device._free_cqs}[what].append(index)


def _wait_for_ever(*_: Any) -> Any:
    while True:
        time.sleep(1)


def _work(board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """For 1.5 seconds of processor time, without a sign of life."""
    board.note(program="slow", seed=seed, round=budget.first)
    end = time.process_time() + 1.5
    while time.process_time() < end:
        pass
    return {"seconds": 1.5}


_PLANTS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[], Any]]] = {
    "bounds": (pipeline.run, lambda: mock.patch.object(parser._Parser, "require_bytes")),
    "table": (tables.run, lambda: mock.patch.object(MatchTable, "modify")),
    "json": (json_loader.run, lambda: mock.patch.object(native, "NativeCode", _raise)),
    "server": (p4runtime.run, lambda: mock.patch.dict(service._WRITE, dict.fromkeys(service._WRITE, (_raise, False)))),
    "hosts": (hosts.run, lambda: mock.patch.object(Device, "give", _give_back_at_once)),
    "hang": (pipeline.run, lambda: mock.patch.object(pipeline.Round, "run", _wait_for_ever)),
    "slow": (_work, nullcontext),
}


def run(fault: str, board: Board, seed: int, budget: Budget) -> dict[str, Any]:
    """Runs the target that is to find the fault."""
    target, plant = _PLANTS[fault]
    # Programs with a fault must not get into the cache, nor sound ones be taken out of it.
    with (
        tempfile.TemporaryDirectory(prefix="detour-fuzz-") as folder,
        mock.patch.object(native, "_programs", Cache("programs", top=lambda: Path(folder))),
        plant(),
    ):
        return target(board, seed, budget)
