# SPDX-License-Identifier: Apache-2.0
"""`detour watch` on a fabric that is made up: every answer is known. `python live_script.py`, in a terminal."""

import time
from types import SimpleNamespace
from typing import Any

from detour.cli.live.view import Live
from detour.fabric.operations.results import LinkUse, LinkUses
from detour.fabric.records import FlowRow
from detour.topo import parse_topology

LINKS = parse_topology("d1").links


class MadeUp:
    """As many directions as D1 has: the first is full, each further one a little less."""

    def __init__(self) -> None:
        self.down: set[str] = set()

    def status(self) -> Any:
        return SimpleNamespace(topology="made up", target="engine", rate_mbps=20.0, failures=[])

    def watch(self, seconds: float) -> LinkUses:
        time.sleep(seconds)
        rows = []
        for number, link in enumerate(LINKS):
            up, use = link.name not in self.down, max(0.0, 1.0 - number / 100)
            rows.append(
                LinkUse(
                    link=link.name, from_=f"s{link.a[0]}:{link.a[1]}", kind=link.kind, up=up,
                    mbps=20 * use if up else 0.0, use=use if up else 0.0, queue_packets=number % 7,
                    drops=123_456 if number == 3 else 0, marks=number,
                )
            )  # fmt: skip
        return LinkUses(seconds, rows, 0)

    def flows(self) -> Any:
        common = {"usual_bps": 0.0, "drop": 0.0, "ecn_share": 0.25, "delay_ps": 2e9, "packets": 1, "bytes": 5_000_000}
        more = {"duplicates": 0, "ecn_packets": 0, "path": "sport:0x1234", "placed": False, "switches": []}
        return SimpleNamespace(
            flows=[FlowRow(name=f"h{n}-h{n + 9}", rate_bps=1e6 * n, **common, **more) for n in range(40)]
        )

    def fail(self, name: str) -> Any:
        self.down.add(name)
        return SimpleNamespace(failed=name)

    def heal(self, name: str | None = None) -> Any:
        healed = ", ".join(sorted(self.down)) if name is None else name
        self.down -= self.down if name is None else {name}
        return SimpleNamespace(healed=healed)


if __name__ == "__main__":
    Live(MadeUp(), 0.02).run()  # type: ignore[arg-type]
