# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance suite against our server and, where it is, simple_switch_grpc, and stores what comes of it for
docs/p4runtime.md: `python -m tests.unit.p4runtime.conformance_runs`."""

from __future__ import annotations

import json
import lzma
import shutil

from detour.base.files import write_file
from detour.conformance.model import ConformanceReport, ServerUnderTest
from detour.conformance.run import run
from tests.unit.p4runtime.test_conformance import STORED, serving, simple_switch, whole


def store(name: str, report: ConformanceReport) -> None:
    write_file(STORED / f"{name}.json.xz", lzma.compress(json.dumps(report.as_json()).encode(), preset=9))
    print(name, report.summary)


if __name__ == "__main__":
    with serving() as address:
        store("detour", run(whole(address)))
    if shutil.which("simple_switch_grpc") is not None:
        with simple_switch() as (address, restart):
            store("simple_switch_grpc", run(ServerUnderTest(address), restart=restart))
