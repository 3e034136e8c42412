# SPDX-License-Identifier: Apache-2.0
"""A placement as files: for each format a function from topology, failures and placement to their names and texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from detour.base.records import as_json
from detour.control.placement.placement import Placement
from detour.control.planner import plan
from detour.control.routers.frr import DAEMONS, frr_conf, lab
from detour.control.routers.linux import host_script, router_script
from detour.control.routers.nodes import routers, sending_hosts
from detour.control.routers.sonic import config_db
from detour.topo import Topology, address
from detour.topo.failures import Failures, failure_name

NamedTexts: TypeAlias = Iterator[tuple[str, str]]


def document(topology: Topology, failures: Sequence[str], placement: Placement) -> str:
    """All assignments as JSON; `failures` by their names. `names`: those of a file, where they are others than ours."""
    rows = as_json(placement.assignments(range(len(placement.flows))))
    more = {"names": topology.names} if topology.names else {}
    return json.dumps({"topology": topology.spec, "failures": failures, **more, "assignments": rows})


def _frr(topology: Topology, failures: Failures, placement: Placement) -> NamedTexts:
    for router in routers(topology, failures):
        yield f"{router.name}.conf", frr_conf(router)
    yield from _hosts(topology, placement)
    yield "daemons", DAEMONS
    yield "fabric.clab.yml", lab(topology, failures)


def _sonic(topology: Topology, failures: Failures, placement: Placement) -> NamedTexts:
    for router in routers(topology, failures):
        yield f"{router.name}.json", config_db(router)
    yield from _hosts(topology, placement)


def _linux(topology: Topology, failures: Failures, placement: Placement) -> NamedTexts:
    for router in routers(topology, failures):
        yield f"{router.name}.sh", router_script(router)
    yield from _hosts(topology, placement)


def _hosts(topology: Topology, placement: Placement) -> NamedTexts:
    for host in sending_hosts(topology, placement):
        yield f"{host.name}.sh", host_script(host)


def _p4runtime(topology: Topology, failures: Failures, placement: Placement) -> NamedTexts:
    """Return the controller's writes to each switch that runs fabric.p4; senders take the lists of the other file."""
    from finsy.proto import p4r
    from google.protobuf import text_format

    from detour.control.p4runtime.codec import Codec
    from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info

    codec = Codec(read_p4info(PipelineConfig.fabric().p4info))
    for device, entities in plan(topology, None, failures).items():
        request = p4r.WriteRequest(device_id=device, updates=[codec.insert(entity) for entity in entities])
        yield f"{topology.file_names[topology.switch_name(device)]}.txtpb", text_format.MessageToString(request)
    yield from _json(topology, failures, placement)


def _json(topology: Topology, failures: Failures, placement: Placement) -> NamedTexts:
    names = sorted(failure_name(topology, failure) for failure in failures)
    yield "placement.json", document(topology, names, placement)


def _csv(topology: Topology, failures: Failures, placement: Placement) -> NamedTexts:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("job", "source", "target", "path", "usids", "address"))
    for row in placement.assignments(range(len(placement.flows))):
        usids = [int(usid, 16) for usid in row.usids]
        where = address.ipv6_text(address.usid_address(usids)) if usids else ""
        table.writerow((row.job, row.source, row.target, " ".join(row.path), ":".join(row.usids), where))
    yield "placement.csv", text.getvalue()


PLACEMENT_FORMATS: dict[str, Callable[[Topology, Failures, Placement], NamedTexts]] = {
    "frr": _frr, "sonic": _sonic, "linux": _linux, "p4runtime": _p4runtime, "json": _json, "csv": _csv,
}  # fmt: skip
"""what `detour place --format` takes. The functions raise `DetourError`: a table would overflow"""
