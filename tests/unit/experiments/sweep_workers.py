# SPDX-License-Identifier: Apache-2.0
"""Workers that the sweep tests name; they must be importable from a fresh process."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path


def square(point):
    with Path(point["log"]).open("a") as log:
        log.write(f"{point['x']}\n")
    if point.get("fail"):
        raise ValueError(f"cannot square {point['x']}")
    if point.get("crash"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(point.get("seconds", 0))
    return {"square": point["x"] ** 2}


@dataclass(frozen=True)
class Side:
    length_m: float


@dataclass(frozen=True)
class Square:
    area_m2: float
    corners: tuple[tuple[float, float], ...]


def area(side: Side) -> Square:
    if side.length_m < 0:
        raise ValueError("no such side")
    return Square(side.length_m**2, ((0.0, 0.0), (side.length_m, side.length_m)))
