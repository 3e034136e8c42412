# SPDX-License-Identifier: Apache-2.0
"""`detour bench all --write FILE`: every benchmark's own output as one page, with the machine and the date named."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from detour.base.files import write_file
from detour.base.tables import markdown
from detour.experiments.bench.report import BenchReport, machine

_HEAD = """# Performance

What `detour bench all --write docs/performance.md` measured and wrote. Nothing here is typed by hand; run it on your
machine to get your figures, and see [engine.md](engine.md) for why they are what they are. A benchmark alone:
`detour bench switch` (or another name below), with `--json` for the numbers behind its table.
"""

_ABOUT = {
    "switch": "One switch with fabric.p4 and D1's entries: frames that are parsed, routed, marked, stamped and "
    "written out again. In process counts the processor time of the loop; over veth, frames cross two Linux "
    "interfaces and BMv2 gets the same frames. The best load without loss counts.",
    "fabric": "The 36 switches of D1 in real time: the engine in one process, BMv2 as 36 processes. A packet-hop is a "
    "packet that one switch has handled.",
    "pipeline": "From `SetForwardingPipelineConfig` to the first packet through the new program.",
    "p4runtime": "Entries written and read over gRPC by another process on the same machine.",
    "memory": "Resident memory of a process with the 264 switches of D3.",
    "tables": "Look-ups in tables of growing size; the ternary entries share 32 masks.",
    "sim": "Virtual time, with the P4 program run for every packet at every switch.",
}


def page(reports: Iterable[BenchReport], seconds: float) -> str:
    """The page in Markdown."""
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    parts = [_HEAD, f"Measured on {today} in {seconds / 60:.0f} minutes on: {machine()}.\n"]
    parts += [_section(report) for report in reports]
    return "\n".join(parts)


def _section(report: BenchReport) -> str:
    lines = [f"## bench {report.name}", "", _ABOUT.get(report.name, ""), ""]
    lines.append(markdown(report.table()))
    if report.goals:
        lines += ["", markdown(report.goals_table("**missed**"))]
    for note in report.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Writes the page."""
    write_file(path, text)
