# SPDX-License-Identifier: Apache-2.0
"""Operations on what switches hold: writing it, proving it, showing it."""

from __future__ import annotations

import time

from msgspec import UNSET

from detour.base.errors import DetourError
from detour.control.entries import TABLE_NAMES, Plan, entity_text
from detour.control.expander.proof import LIST_HOPS, prove_running
from detour.control.expander.routes import PathPolicy
from detour.control.verifier.trace import Tracer
from detour.control.verifier.verifier import verify
from detour.fabric.operations import results
from detour.fabric.operations.control_plane import ControlPlane, since
from detour.fabric.operations.live_flows import LiveFlows
from detour.topo.expander.booted import expander_of
from detour.topo.failures import dead_links


class Tables:
    """See the module. Methods may be called from several threads."""

    def __init__(self, control: ControlPlane, live: LiveFlows) -> None:
        self._control, self._topology, self._live = control, control.topology, live

    def provision(self) -> results.Provisioned:
        """Plans for the present failures and writes what differs."""
        with self._control.changing:
            begin = time.monotonic()
            written, switches = self._control.reconcile(), len(self._topology.switches)
            changes = {"entries": written.entries, **written.as_dict()}
            return results.Provisioned(switches=switches, seconds=since(begin), **changes)

    def verify(self) -> results.Verification:
        """Read all tables back and prove that every pair of hosts is connected by them."""
        begin = time.monotonic()
        with self._control.changing:
            held = self._control.read_live()
        report = verify(held, self._topology, self._control.failures, self._control.bound())
        return results.Verification(
            verified=report.ok,
            pairs=report.pairs,
            disconnected=report.disconnected,
            proofs=report.proofs,
            ways=report.paths,
            sids=report.sids,
            failed=report.failed,
            problems=report.problems,
            longest=results.PathLengths(*report.longest),
            bound=results.PathLengths(*report.bound),
            seconds=since(begin),
            disjoint_paths=report.disjoint_paths or UNSET,
        )

    def entries(self, switch: str | None, table: str | None) -> dict[str, list[results.EntryRow]]:
        """Return the entries of switches, by name."""
        if table is not None and table not in TABLE_NAMES and table not in TABLE_NAMES.values():
            raise DetourError(f"there is no table {table!r}; allowed: {', '.join(TABLE_NAMES)}")
        chosen = self._topology.switches if switch is None else (self._topology.switch(switch),)
        held = self._control.read([s.device_id for s in chosen])
        full_name = None if table is None else TABLE_NAMES.get(table, table)
        rows = {s.name: [results.EntryRow(*entity_text(entity)) for entity in held[s.device_id]] for s in chosen}
        return {name: [row for row in listed if full_name in (None, row.table)] for name, listed in rows.items()}

    def prove(self, k: int) -> results.ProvenFabric:
        """Read all tables back and follow packets by them: on the `k` routes of every pair, on the lists that senders
        use, plain ones, and any. Raises DetourError: this is not an expander, or `k` is out of range."""
        network, begin, control = expander_of(self._topology), time.monotonic(), self._control
        classes = max(1, control.policy.channels)
        policy = PathPolicy(k, classes, max_hops=LIST_HOPS)
        policy.check(network)
        with control.changing:
            held, failures = control.read_live(), control.failures
            senders = self._lists(held)
        proof = prove_running(held, network, failures, policy, (1 << classes) - 1, senders)
        dead = dead_links(self._topology, failures)
        links = [self._topology.links[i].name for i in sorted(dead) if self._topology.links[i].kind != "host"]
        return results.ProvenFabric(
            deadlock_free=not proof.cycle,
            topology=self._topology.spec,
            switches=len(held),
            entries=sum(map(len, held.values())),
            lossless=list(range(classes)),
            installed=results.ProvenClasses(*proof.listed.sums),
            senders=results.ProvenSenders(*proof.senders.sums, len(senders)),
            plain_traffic=results.ProvenPlain(*proof.plain.sums, proof.lossy),
            failed=results.ProvenAnywhere(*proof.anywhere.sums, links, proof.unrouted),
            seconds=since(begin),
            cycle=list(proof.cycle) or UNSET,
        )

    def _lists(self, held: Plan) -> list[tuple[int, ...]]:
        """The stops of packets with the uSID lists that senders use."""
        hosts, flows = self._topology.hosts, [live.flow for live in self._live.all()]
        tracer, lists = Tracer(held, self._topology, self._control.failures), []
        for flow in flows:
            a, b = hosts[flow.source_host], hosts[flow.target_host]
            traces = [tracer.trace(a, b, path.sport, path.usids) for path in flow.paths if path.usids]
            lists += [trace.path(self._topology) for trace in traces]
        return [stops for stops in lists if stops]  # none: the host has lost its link
