# SPDX-License-Identifier: Apache-2.0
"""Runs a case on simple_switch_grpc."""

from __future__ import annotations

from contextlib import suppress

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


def run(case: Case, priorities: int = PRIORITIES, drop_port: int = DROP_PORT, digests: int | None = None) -> Result:
    """Starts a switch, sets it up, lets the frames through. Port 510 is a port like any other here. Updates that the
    switch does not accept leave the case (PI checks some keys too strictly, and exact keys that are masked in the
    program may coincide). `digests`: how many different ones are to come; None: those until none comes for a while."""
    with Bmv2(priorities=priorities, drop_port=drop_port) as switch, Client(switch.address) as client:
        client.set_pipeline(case.schema.config(case.json))
        stream = PacketStream(switch)
        try:
            accepted = []
            for kind, entity in case.updates:
                with suppress(WriteError):
                    _apply(switch, client, case, kind, entity)
                    accepted.append((kind, entity))
            case.updates[:] = accepted
            outputs = []
            for at in range(0, len(case.frames), case.batch):
                outputs += stream.run(case.frames[at : at + case.batch])
            expected = digests if case.schema.p4info.digests else 0
            seen = observe.digests(client, expected, DIGEST_QUIET_SECONDS)
            return Result(outputs, observe.counters(client, case.schema), seen)
        finally:
            stream.close()


def _apply(switch: Bmv2, client: Client, case: Case, kind: str, entity: p4r.Entity) -> None:
    """Writes an update; value sets, which PI does not know, go over Thrift."""
    if entity.WhichOneof("entity") != "value_set_entry":
        client.write((kind, entity))
        return
    with switch.thrift() as thrift:
        for name, value in observe.value_set_members(entity, case.schema):
            thrift.standard.bm_parse_vset_add(name, value)
