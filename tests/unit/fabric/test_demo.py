# SPDX-License-Identifier: Apache-2.0
"""What `make run` shows, on the paper's D1."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_LEAST_IDLE = 0.1
KEYS = {
    "target", "switches", "hosts", "entries", "verified", "bytes_sent", "bytes_ok", "throughput_mbps", "reroutes",
    "seconds",
}  # fmt: skip


def processor_times() -> list[int]:
    """Of all processors since the machine started: user, nice, system, idle, ... (`man 5 proc_stat`)."""
    return [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]


def idle_share(before: list[int], after: list[int]) -> float:
    """How much of the time in between they were idle."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return spent[3] / sum(spent)


@pytest.mark.long
@pytest.mark.parametrize("target", ["engine", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def test_probing_is_worth_four_times(target: str) -> None:
    command = [sys.executable, "-m", "detour.cli", "demo", "--target", target, "--json"]
    before = processor_times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert set(result) == KEYS
    assert (result["target"], result["switches"], result["hosts"]) == (target, 36, 72)
    assert result["verified"] is True
    assert result["entries"] > 2000
    assert result["bytes_ok"] == result["bytes_sent"] > 1_000_000
    assert result["reroutes"] > 0
    throughput = result["throughput_mbps"]
    # BMv2's processes share the machine with whatever else runs there; the engine's time does not depend on it.
    if target == "bmv2" and (idle := idle_share(before, processor_times())) < _LEAST_IDLE:
        pytest.skip(
            f"the processors were idle for {idle:.0%} of the time: they and not paths limited BMv2: {throughput}"
        )
    assert throughput["telemetry"] >= (4 if target == "engine" else 2) * throughput["shortest"] > 0
