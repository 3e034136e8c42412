# SPDX-License-Identifier: Apache-2.0
"""fabric.p4 on the engine, with the controller's answers, in the model's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from detour.control.p4runtime import punt
from tests.differential import engine
from tests.differential.fabric import BUILD
from tests.differential.rfc import packets
from tests.differential.rfc.model import DISCARDED, Outcome
from tests.ptf.p4rt import Client, Schema

CPU = 510
ETHERNET = bytes(12) + b"\x86\xdd"
HERE = packets.usids([packets.NODE])


def set_up(client: Client, schema: Schema) -> None:
    """The engine's tables: those of `packets.node`."""
    node = packets.node()
    identity = ("set_node", {"node_id": node.node_id, "group": 0, "groups": 0})
    client.modify(schema.entry("config", action=identity, default=True))
    entries = []
    for sid in node.sids:
        name = "un" if sid.port is None else "ua" if sid.length == 48 else "node_ua"
        action = (name, {} if sid.port is None else {"port": sid.port})
        entries.append(schema.entry("local_sid", {"hdr.ipv6.dst_addr": (sid.value, sid.length)}, action=action))
    for route in node.routes:
        assert route.port is not None
        match = {"hdr.ipv6.dst_addr": (route.value, route.length)}
        entries.append(schema.entry("route", match, one_shot=[(("forward", {"port": route.port}), 1)]))
    client.insert(*entries)


class Fabric:
    """The switch under test."""

    def __init__(self, under_test: engine.EngineSwitch) -> None:
        self._switch = under_test

    def frames(self, sent: list[bytes]) -> list[list[tuple[int, bytes]]]:
        """(port, data)s that came of each IPv6 packet: without Ethernet, but for those to the controller."""
        outputs = self._switch.run([(1, ETHERNET + p) for p in sent])
        return [[(p, d if p == CPU else d[14:]) for p, d in outs] for outs in outputs]

    def outcomes(self, sent: list[bytes]) -> list[Outcome]:
        """What became of each IPv6 packet, as its sender and the next switch see it."""
        return [_outcome(outs) for outs in self.frames(sent)]


@contextmanager
def fabric() -> Iterator[Fabric]:
    """A switch that `set_up` has set up."""
    schema = Schema.load(BUILD / "fabric.p4info.txtpb")
    with engine.switch() as under_test, Client(under_test.target) as client:
        client.set_pipeline(schema.config((BUILD / "fabric.json").read_bytes()))
        set_up(client, schema)
        yield Fabric(under_test)


def _outcome(outs: list[tuple[int, bytes]]) -> Outcome:
    if not outs:
        return DISCARDED
    assert len(outs) == 1, "more than one packet"
    ((port, data),) = outs
    if port != CPU:
        return Outcome(port, data)
    reply = punt.answer(data[4:], int.from_bytes(data[2:4], "big"), HERE)
    if reply is None:
        return DISCARDED
    kind, code = reply[54], reply[55]
    pointer = int.from_bytes(reply[58:62], "big")
    return Outcome(icmp=(kind, code, pointer))
