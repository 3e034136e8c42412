# SPDX-License-Identifier: Apache-2.0
"""`detour bench memory`: bytes a switch and bytes an entry, with the 264 switches of the paper's D3 Dragonfly.

A process of its own serves all switches over P4Runtime, as a fabric does; entries are written by gRPC from
here. What counts is the process's resident memory, which includes Python, Numba, gRPC and the packet pool as far as
it was ever used.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile

from detour.base.places import BUILD
from detour.base.progress import Progress, silent
from detour.control.entries import TableEntry
from detour.control.p4runtime.codec import Codec
from detour.control.p4runtime.pipeline import read_p4info
from detour.control.planner import plan
from detour.experiments.bench.client import Client
from detour.experiments.bench.dragonfly import BENCH_PRIORITIES, D3
from detour.experiments.bench.processes import MIB, Child, resident
from detour.experiments.bench.report import BenchReport, Fact, Goal, report_of_facts
from detour.topo import parse_topology

GOAL_MIB = 1024.0
_BATCH = 2_000


# -- the process that is measured ----------------------------------------------------------------------------


def _serve(spec: str, address: str) -> None:
    """Builds the fabric and serves it; for every line on standard input prints the resident memory."""
    from detour.engine import warm
    from detour.engine.network import Network
    from detour.engine.p4runtime import P4RuntimeServer

    warm.ensure(silent)
    topology = parse_topology(spec)
    with Network() as network, P4RuntimeServer(network, address) as server:
        network.start()
        network.call(lambda: None)
        print(resident(), flush=True)
        for switch in topology.switches:
            network.add_switch(switch.device_id, priorities=BENCH_PRIORITIES)
        for link in topology.links:
            ends = (link.a,) if link.kind == "host" else (link.a, link.b)
            ports = [(topology.switches[at].device_id, port) for at, port in ends]
            if link.kind == "host":
                network.attach_sink(ports[0], lambda frame, time_ps: None)
            else:
                network.connect(ports[0], ports[1])
        for switch in topology.switches:
            server.add_device(switch.device_id)
        for _ in sys.stdin:
            print(resident(), flush=True)


# -- measuring it --------------------------------------------------------------------------------------------


def _ask(child: Child) -> int:
    child.nudge()
    return int(child.answer())


def run(progress: Progress = silent) -> BenchReport:
    """Programs all switches of D3 and asks for the process's memory in between. Bytes a switch: ports, queues, program
    and empty tables. Bytes an entry: what the tables add."""
    info = read_p4info(BUILD / "fabric.p4info.txtpb")
    config = (BUILD / "fabric.json").read_bytes()
    codec = Codec(info, True)
    planned = plan(parse_topology(D3))
    switches = len(planned)
    entries = sum(isinstance(entity, TableEntry) for entities in planned.values() for entity in entities)
    with tempfile.TemporaryDirectory() as folder, Child(__name__, D3, f"unix:{folder}/p4runtime") as child:
        empty = int(child.answer())
        with_switches = _ask(child)
        progress(f"{switches} switches added")
        with contextlib.ExitStack() as stack:
            clients = {d: stack.enter_context(Client(f"unix:{folder}/p4runtime", d)) for d in planned}
            for client in clients.values():
                client.set_pipeline(client.pipeline(info, config))
            with_pipelines = _ask(child)
            progress("pipelines set")
            for device, client in clients.items():
                client.write(client.requests([codec.insert(entity) for entity in planned[device]], _BATCH))
            with_entries = _ask(child)
    facts = (
        Fact("", "nothing built", empty / MIB, ".0f"),
        Fact("switches", "", switches),
        Fact("", f"{switches} switches", with_switches / MIB, ".0f"),
        Fact("", "their pipelines", with_pipelines / MIB, ".0f"),
        Fact("entries", "", entries),
        Fact("", f"their {entries:,} entries", with_entries / MIB, ".0f"),
        Fact("bytes_per_switch", "bytes a switch", (with_pipelines - empty) / switches, ",.0f"),
        Fact("bytes_per_entry", "bytes an entry", (with_entries - with_pipelines) / entries, ",.0f"),
        Fact("total_bytes", "", with_entries),
    )
    goal = Goal(f"{switches} switches with their tables: MiB,", with_entries / MIB, GOAL_MIB, True)
    return report_of_facts("memory", ("process with", "resident MiB"), facts, [goal])


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])
