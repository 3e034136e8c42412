# SPDX-License-Identifier: Apache-2.0
"""Operation that makes a link slower or lossy while it stays up: tables do not change, traffic finds out by itself."""

from __future__ import annotations

import threading

from detour.base.errors import DetourError
from detour.fabric.footings.base import Fabric
from detour.fabric.operations.results import ImpairedLink, ImpairedLinks
from detour.topo import parse_failure


class Impairing:
    """See the module. Methods may be called from several threads."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._topology = fabric, fabric.topology
        self._lock = threading.Lock()
        self._links: dict[int, ImpairedLink] = {}

    def impair(
        self, link: str | None = None, rate: float | None = None, loss: float | None = None, clear: bool = False
    ) -> ImpairedLinks:
        """Gives a link a fraction of its rate, or lets it lose a fraction of its frames, in both directions; what is
        not said stays. `clear`: it, or every link, is as it was. Without anything: which are impaired now.

        Raises:
            DetourError: there is no such link, a fraction is none, or the target cannot do that.
        """
        with self._lock:
            if clear:
                if rate is not None or loss is not None:
                    raise DetourError("impair: either a rate and a loss, or --clear")
                for index in [*self._links] if link is None else [self._index(link)]:
                    self._set(index, 1.0, 0.0)
            elif link is not None:
                self._change(self._index(link), rate, loss)
            elif rate is not None or loss is not None:
                raise DetourError("impair: which link? One like s0-s3, s0:3 or h7")
            return ImpairedLinks([self._links[index] for index in sorted(self._links)])

    def _index(self, name: str) -> int:
        found = parse_failure(self._topology, name)
        if found.kind != "link":
            raise DetourError(f"{name!r} is a switch; links are impaired, like s0-s3, s0:3 or h7")
        return found.index

    def _change(self, index: int, rate: float | None, loss: float | None) -> None:
        if rate is None and loss is None:
            raise DetourError("impair: --rate, --loss or --clear is missing")
        if rate is not None and not 0 < rate <= 1:
            raise DetourError(f"impair: a rate of {rate:g} is no fraction above 0 and at most 1")
        if loss is not None and not 0 <= loss < 1:
            raise DetourError(f"impair: a loss of {loss:g} is no fraction from 0 to below 1; `fail` takes a link down")
        now = self._links.get(index)
        self._set(
            index,
            (now.rate if now else 1.0) if rate is None else rate,
            (now.loss if now else 0.0) if loss is None else loss,
        )

    def _set(self, index: int, rate: float, loss: float) -> None:
        now = self._links.get(index)
        if loss != (now.loss if now else 0.0):
            self._fabric.set_loss(index, loss)  # first: the target may refuse it
        if rate != (now.rate if now else 1.0):
            self._fabric.throttle(index, rate)
        self._links.pop(index, None)
        if (rate, loss) != (1.0, 0.0):
            self._links[index] = ImpairedLink(self._topology.links[index].name, rate, loss)
