# SPDX-License-Identifier: Apache-2.0
"""`detour bench pipeline`: from SetForwardingPipelineConfig to the first packet that the new program has handled.

The packet is a packet-out that fabric.p4 hands back as a packet-in. The program is one that was never compiled before
(its name in the JSON is new), then the same again in a process that never saw it.
"""

from __future__ import annotations

import json
import statistics
import time
import uuid

from finsy.proto import p4i, p4r

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control.p4runtime.pipeline import read_p4info
from detour.engine import phv
from detour.experiments.bench.client import Client
from detour.experiments.bench.processes import Switches
from detour.experiments.bench.report import BenchReport, Fact, Goal, report_of_facts

NEW_GOAL, CACHED_GOAL = 1.5, 0.1
_DEVICE = 1
_FRAME = bytes.fromhex("020000000001020000000002" + "88b5") + bytes(50)


def _first_packet(info: p4i.P4Info, before: bytes, config: bytes) -> float:
    """Seconds until a packet is back, in a new process that already runs another program (`before`)."""
    with Switches("engine", {_DEVICE: {}}) as switches, Client(switches.target(_DEVICE).address, _DEVICE) as client:
        header = next(each for each in info.controller_packet_metadata if each.preamble.name == "packet_out")
        packet = p4r.PacketOut(payload=_FRAME)
        packet.metadata.add(metadata_id=header.metadata[0].id, value=phv.CPU_PORT.to_bytes(2, "big"))
        packet_out = p4r.StreamMessageRequest(packet=packet)
        _commit(client, client.pipeline(info, before), packet_out)
        request = client.pipeline(info, config)
        begin = time.perf_counter()
        _commit(client, request, packet_out)
        return time.perf_counter() - begin


def _commit(
    client: Client, request: p4r.SetForwardingPipelineConfigRequest, packet_out: p4r.StreamMessageRequest
) -> None:
    client.set_pipeline(request)
    client.send(packet_out)
    while not client.receive().HasField("packet"):
        pass


def run(times: int = 3, progress: Progress = silent) -> BenchReport:
    """Measures some times and takes the medians."""
    info = read_p4info(BUILD / "fabric.p4info.txtpb")
    before = (BUILD / "fabric.json").read_bytes()
    source = json.loads(before)
    new, cached = [], []
    for _ in range(times):
        config = json.dumps(source | {"program": f"fabric-{uuid.uuid4()}.p4"}).encode()
        new.append(_first_packet(info, before, config))
        cached.append(_first_packet(info, before, config))
        progress(f"new: {new[-1]:.3f} s, cached: {cached[-1]:.3f} s")
    medians = statistics.median(new), statistics.median(cached)
    facts = (
        Fact("new_s", "never compiled before", medians[0], ".3f"),
        Fact("cached_s", "cached, new process", medians[1], ".3f"),
    )
    goals = (
        Goal("new program: seconds,", medians[0], NEW_GOAL, most=True),
        Goal("cached: seconds,", medians[1], CACHED_GOAL, most=True),
    )
    return report_of_facts("pipeline", ("fabric.p4", "seconds to the first packet"), facts, goals)
