# SPDX-License-Identifier: Apache-2.0
"""Operations on links and ports: down and up again, slower or lossy, and what passes them in files."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from detour.base.errors import DetourError
from detour.base.records import extended
from detour.engine.capture import capture_file
from detour.fabric.backends.base import Fabric
from detour.fabric.operations import results
from detour.fabric.operations.control_plane import ControlPlane, since
from detour.fabric.operations.path_placement import PathPlacement
from detour.fabric.operations.switch_flows import WatchedFlows
from detour.fabric.operations.usid_reroute import UsidRerouting
from detour.topo import Failure, Topology, failure_name, parse_failure
from detour.topo.failures import Failures


class Links:
    """See the module. Methods may be called from several threads."""

    def __init__(
        self,
        fabric: Fabric,
        control: ControlPlane,
        placement: PathPlacement,
        rerouting: UsidRerouting,
        watched: WatchedFlows,
    ) -> None:
        self._fabric, self._control, self._watched = fabric, control, watched
        self._placement, self._rerouting = placement, rerouting
        self._topology = fabric.topology
        self._impairing = threading.Lock()
        self._impaired: dict[int, results.ImpairedLink] = {}

    def fail(self, name: str) -> results.Failed:
        """Take a link or a switch down and withdraw it from all tables."""
        with self._control.changing:
            failure = parse_failure(self._topology, name)
            failed = failure_name(self._topology, failure)
            if failure in self._control.failures:
                raise DetourError(f"{failed} is already down")
            return extended(results.Failed, self._change(self._control.failures | {failure}), failed=failed)

    def heal(self, name: str | None) -> results.Healed:
        """Bring a link or switch, or all of them, back."""
        with self._control.changing:
            if name is None:
                names = ", ".join(self._control.failure_names())
                return extended(results.Healed, self._change(frozenset()), healed=names)
            failure = parse_failure(self._topology, name)
            healed = failure_name(self._topology, failure)
            if failure not in self._control.failures:
                raise DetourError(f"{healed} is not down")
            return extended(results.Healed, self._change(self._control.failures - {failure}), healed=healed)

    def _change(self, failures: frozenset[Failure]) -> results.FailureChange:
        begin, control = time.monotonic(), self._control
        healing = failures < control.failures
        control.set_failures(failures)
        # What is dead goes down first, as in life; what comes back is up before anybody sends there.
        self._fabric.apply_failures(failures)
        # Senders that choose their path by themselves can leave dead links before the tables know of them.
        repaired, senders = (None, None) if healing else self._repair(failures)
        written = control.reconcile()
        if healing:
            repaired, senders = self._repair(failures)
        self._watched.move(self._watched.live.all())
        return results.FailureChange(
            failures=control.failure_names(),
            placement=repaired or UNSET,
            senders=senders or UNSET,
            seconds=since(begin),
            entries=written.entries,
            **written.as_dict(),
        )

    def _repair(self, failures: Failures) -> tuple[results.RepairedPlacement | None, results.ReroutedSenders | None]:
        return self._placement.repair(failures), self._rerouting.repair(failures)

    def impair(self, link: str | None, rate: float | None, loss: float | None, clear: bool) -> results.ImpairedLinks:
        """Give a link a fraction of its rate, or let it lose a fraction of its frames, in both directions; what is
        not said stays. `clear`: it, or every link, is as it was. Without anything: which are impaired now. Tables do
        not change: the link is up, and traffic finds out by itself. Raises DetourError: there is no such link, a
        fraction is none, or the target cannot do that."""
        with self._impairing:
            if clear:
                if rate is not None or loss is not None:
                    raise DetourError("impair: give --rate and --loss, or --clear")
                for index in [*self._impaired] if link is None else [self._link(link)]:
                    self._set_impaired(index, 1.0, 0.0)
            elif link is not None:
                self._impair(self._link(link), rate, loss)
            elif rate is not None or loss is not None:
                raise DetourError("impair: name a link, like s0-s3, s0:3 or h7")
            return results.ImpairedLinks([self._impaired[index] for index in sorted(self._impaired)])

    def _link(self, name: str) -> int:
        place = parse_failure(self._topology, name)
        if place.kind != "link":
            raise DetourError(f"{name!r} is a switch; give a link, like s0-s3, s0:3 or h7")
        return place.index

    def _impair(self, index: int, rate: float | None, loss: float | None) -> None:
        if rate is None and loss is None:
            raise DetourError("impair: --rate, --loss or --clear is missing")
        if rate is not None and not 0 < rate <= 1:
            raise DetourError(f"impair: a rate of {rate:g} is not a fraction above 0 and at most 1")
        if loss is not None and not 0 <= loss < 1:
            raise DetourError(
                f"impair: a loss of {loss:g} is not a fraction from 0 to below 1; `fail` takes a link down"
            )
        now = self._now(index)
        self._set_impaired(index, now.rate if rate is None else rate, now.loss if loss is None else loss)

    def _now(self, index: int) -> results.ImpairedLink:
        return self._impaired.get(index) or results.ImpairedLink(self._topology.links[index].name, 1.0, 0.0)

    def _set_impaired(self, index: int, rate: float, loss: float) -> None:
        now = self._now(index)
        if loss != now.loss:
            self._fabric.set_loss(index, loss)  # first: the target may refuse it
        if rate != now.rate:
            self._fabric.throttle(index, rate)
        self._impaired.pop(index, None)
        if (rate, loss) != (1.0, 0.0):
            self._impaired[index] = replace(now, rate=rate, loss=loss)


class Capturing:
    """Begins and ends captures. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._lock = threading.Lock()
        self._now = results.Captured(None, [])

    def capture(self, folder: str | None, where: list[str] | None, stop: bool) -> results.Captured:
        """Begin to write a pcapng file a port into a folder, end that, or say what is being written. `where`: links,
        switches and hosts whose ports are wanted (None: all). Raises DetourError: there is no such link, switch or
        host, captures run already, none runs, or the folder cannot be written."""
        if stop and (folder is not None or where):
            raise DetourError("capture: give either a folder or --stop")
        with self._lock:
            if stop:
                return self._stop()
            if folder is not None:
                self._start(folder, where or [])
            elif where:
                raise DetourError("a capture needs a folder for its files")
            return replace(self._now, error=self._fabric.capture_error())

    def _start(self, folder: str, where: list[str]) -> None:
        if self._now.folder is not None:
            raise DetourError(f"a capture to {self._now.folder} is running; stop it with `detour capture --stop`")
        names = ports_of(self._fabric.topology, where)
        self._fabric.capture(Path(folder), frozenset(names) if where else None)
        self._now = results.Captured(folder, [capture_file(name) for name in names])

    def _stop(self) -> results.Captured:
        if self._now.folder is None:
            raise DetourError("no capture is running")
        ended, self._now = self._now, results.Captured(None, [])
        self._fabric.capture(None)
        return ended


def ports_of(topology: Topology, where: list[str]) -> list[str]:
    """Ports by name, like `s3-1`, of links, switches and hosts; of all if none is named. Raises DetourError: there is
    no such link, switch or host."""
    chosen = [parse_failure(topology, text) for text in where]
    return [
        f"{switch.name}-{port}"
        for switch in topology.switches
        for port, peer in enumerate(switch.ports, 1)
        if peer is not None
        if not chosen or Failure("link", peer.link) in chosen or Failure("switch", switch.index) in chosen
    ]
