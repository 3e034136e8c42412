# SPDX-License-Identifier: Apache-2.0
"""Native code of the planners, compiled by using it (`python -m detour.control.warm`)."""

from __future__ import annotations

import json
import time

from detour.base import compiled
from detour.control.expander import warm as expander
from detour.control.fors import warm as fors
from detour.control.placement import warm as placement


def warm() -> None:
    """Fills the cache."""
    fors.warm()
    expander.warm()
    placement.warm()


def _main() -> None:
    began = time.monotonic()
    warm()
    taken = {"seconds": round(time.monotonic() - began, 3), "cpu_seconds": round(time.process_time(), 3)}
    count = compiled.CACHED_FUNCTIONS
    print(json.dumps({"name": "planners", "functions": count.used} | taken | {"cached": count.compiled == 0}))


if __name__ == "__main__":
    _main()
