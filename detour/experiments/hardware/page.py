# SPDX-License-Identifier: Apache-2.0
"""docs/hardware.md: predictions beside what machines were measured to do."""

from __future__ import annotations

from pathlib import Path

from detour.base.files import write_file
from detour.base.tables import markdown
from detour.experiments.columns import table
from detour.experiments.hardware import logs
from detour.experiments.hardware.experiment import STORED, HardwareFindings, HardwareGroup
from detour.experiments.prose import prose

_TEXTS = prose(__file__)


def write(file: Path, findings: HardwareFindings, command: str) -> None:
    """Write the page. `command`: how to write it again."""
    fitted, summary = findings.fitted or STORED, findings.summary
    text = _TEXTS["page"].format(
        command=command,
        nic=fitted.nic_gbps,
        step=fitted.step_us,
        predictions=summary.predictions,
        mean=summary.geomean_error,
        largest=summary.largest_error,
        within=summary.within_30,
        rate=logs.ASTRA_SIM_RATE,
        latency=logs.ASTRA_SIM_LATENCY_US,
        both=summary.both,
        ours=summary.both_geomean_error,
        theirs=summary.astra_sim_geomean_error,
        their_largest=summary.astra_sim_largest_error,
        machines=markdown(table(HardwareGroup, findings.machines)),
        misses=_TEXTS["misses"],
    )
    write_file(file, text)
