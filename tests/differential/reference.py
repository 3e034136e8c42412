# SPDX-License-Identifier: Apache-2.0
"""Runs a case on simple_switch_grpc."""

from __future__ import annotations

from finsy.proto import p4r

from tests.differential import observe
from tests.differential.case import Case, Result
from tests.differential.stream import PacketStream
from tests.ptf.bmv2 import Bmv2
from tests.ptf.bmv2 import missing as bmv2_missing
from tests.ptf.p4rt import Client, WriteError

PRIORITIES = 8
DROP_PORT = 511
DIGEST_QUIET_SECONDS = 5.0


def missing() -> str | None:
    """Why there is no reference switch here; None if there is one."""
    return bmv2_missing(interfaces=False)


def run(case: Case, priorities: int = PRIORITIES, drop_port: int = DROP_PORT) -> Result:
    """Starts a switch, sets it up, lets the frames through. Port 510 is a port like any other here."""
    with Bmv2(priorities=priorities, drop_port=drop_port) as switch, Client(switch.address) as client:
        client.set_pipeline(case.schema.config(case.json))
        stream = PacketStream(switch)
        try:
            for kind, entity in case.updates:
                _apply(switch, client, case, kind, entity)
            outputs = []
            for at in range(0, len(case.frames), case.batch):
                outputs += stream.run(case.frames[at : at + case.batch])
            wait = DIGEST_QUIET_SECONDS if case.schema.p4info.digests else 0.0
            digests = observe.digests(client, None, wait) if wait else []
            return Result(outputs, observe.counters(client, case.schema), digests)
        finally:
            stream.close()


def drop_refused(case: Case) -> int:
    """Takes updates out of the case that the switch does not accept (PI checks some keys too strictly, and exact keys
    that are masked in the program may coincide); returns how many."""
    accepted = []
    with Bmv2(priorities=PRIORITIES) as switch, Client(switch.address) as client:
        client.set_pipeline(case.schema.config(case.json))
        for kind, entity in case.updates:
            try:
                _apply(switch, client, case, kind, entity)
            except WriteError:
                continue
            accepted.append((kind, entity))
    refused = len(case.updates) - len(accepted)
    case.updates[:] = accepted
    return refused


def _apply(switch: Bmv2, client: Client, case: Case, kind: str, entity: p4r.Entity) -> None:
    """Writes an update; value sets, which PI does not know, go over Thrift."""
    if entity.WhichOneof("entity") != "value_set_entry":
        client.write((kind, entity))
        return
    with switch.thrift() as thrift:
        for name, value in observe.value_set_members(entity, case.schema):
            thrift.standard.bm_parse_vset_add(name, value)
