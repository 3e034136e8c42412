# SPDX-License-Identifier: Apache-2.0
"""`detour bench monitor`: a run of a few packets, not compiled, so that it says nothing of speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

_RUN = """
import json
from detour.experiments.bench import monitor
report = monitor.run(packets=40, turns=1, windows=2)
print(json.dumps(report.numbers))
"""


def test_monitoring_beside_the_host_stack() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    numbers = json.loads(done.stdout)
    assert [point["flows"] for point in numbers["points"]] == [1, 16, 64]
    for point in numbers["points"]:
        assert point["packet_ns"] > 0
        assert point["window_us"] > 0
        assert point["share_percent"] > 0
    assert numbers["share_percent"] == max(point["share_percent"] for point in numbers["points"])
