# SPDX-License-Identifier: Apache-2.0
"""A topology as an SVG picture: a Dragonfly's groups on a circle, a Clos in rows; parallel links side by side.

`python -m detour.topo.draw d1 > docs/fabric.svg`
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from detour.base.errors import DetourError
from detour.topo.paths import directed_links, shortest_paths, via_paths
from detour.topo.spec import parse_topology
from detour.topo.topology import Link, Topology

Coordinates = tuple[float, float]


class Places(NamedTuple):
    """Positions of switches and hosts by index, and the size of the picture around them."""

    switches: list[Coordinates]
    hosts: list[Coordinates]
    width: float
    height: float


_STYLE = {
    "local": 'stroke="#9aa7b5" stroke-width="1"',
    "global": 'stroke="#c4cdd8" stroke-width="1"',
    "host": 'stroke="#c4cdd8" stroke-width="1"',
}
_GAP = 12.0
"""between parallel links"""
_TEXT = 'font-family="sans-serif" fill="#222"'


def svg(topology: Topology, routes: Sequence[tuple[str, str, Sequence[int]]] = ()) -> str:
    """The picture as SVG text.

    `topology`: what to draw; `routes`: `(colour, label, stops)` of paths to draw over it (`topo.paths`)."""
    drawn = places(topology)
    switches, hosts, width, height = drawn
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}">',
        '<rect width="100%" height="100%" fill="white"/>', *_links(topology, drawn),
        *_routes(topology, routes, drawn), *_nodes(topology, switches, hosts),
        *(_group_names(topology, switches) if topology.family == "dragonfly" else ()), "</svg>",
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def places(topology: Topology) -> Places:
    """Return where switches and hosts are drawn: groups of a Dragonfly on a circle, tiers of a Clos in rows, the
    switches of other networks on one circle."""
    if topology.family == "dragonfly":
        switches = _dragonfly_places(topology)
    elif any(switch.tier for switch in topology.switches):
        switches = _clos_places(topology)
    else:
        switches = _circle_places(topology)
    hosts = _host_places(topology, switches, not any(switch.tier for switch in topology.switches))
    every = [*switches, *hosts]
    return Places(switches, hosts, max(x for x, _ in every) + 60, max(y for _, y in every) + 60)


def _dragonfly_places(topology: Topology) -> list[Coordinates]:
    count = len(topology.members)
    inner = 34 + 4 * len(topology.members[0])
    outer = max(250.0, count * inner * 0.47)
    centre = outer + inner + 60
    places: list[Coordinates] = [(0, 0)] * len(topology.switches)
    for group, members in enumerate(topology.members):
        angle = 2 * math.pi * group / count - math.pi / 2
        x, y = centre + outer * math.cos(angle), centre + outer * math.sin(angle)
        for position, switch in enumerate(members):
            turn = angle + 2 * math.pi * (position + 0.5) / len(members)
            places[switch] = (x + inner * math.cos(turn), y + inner * math.sin(turn))
    return places


def _circle_places(topology: Topology) -> list[Coordinates]:
    count = len(topology.switches)
    radius = max(180.0, 9.0 * count)
    turns = [2 * math.pi * switch / count - math.pi / 2 for switch in range(count)]
    return [(radius * (1 + math.cos(turn)) + 90, radius * (1 + math.sin(turn)) + 90) for turn in turns]


def _clos_places(topology: Topology) -> list[Coordinates]:
    tiers = 1 + max(switch.tier for switch in topology.switches)
    rows = [[switch.index for switch in topology.switches if switch.tier == tier] for tier in range(tiers)]
    width = 70.0 * max(map(len, rows))
    places: list[Coordinates] = [(0, 0)] * len(topology.switches)
    for tier, row in enumerate(rows):
        for position, switch in enumerate(row):
            places[switch] = (60 + width * (position + 0.5) / len(row), 60 + 130.0 * (tiers - 1 - tier))
    return places


def _host_places(topology: Topology, switches: list[Coordinates], around: bool) -> list[Coordinates]:
    """Hosts beside their switch: away from the picture's middle (`around`) or below."""
    middle_x = sum(x for x, _ in switches) / len(switches)
    middle_y = sum(y for _, y in switches) / len(switches)
    places = []
    for host in topology.hosts:
        x, y = switches[host.switch]
        mates = len(topology.hosts_of[host.switch])
        offset = host.position - (mates - 1) / 2
        away = math.atan2(y - middle_y, x - middle_x) if around else math.pi / 2
        turn = away + offset * (0.7 if around else min(0.5, 1.6 / mates))
        places.append((x + 26 * math.cos(turn), y + 26 * math.sin(turn)))
    return places


def line_of(topology: Topology, link: Link, drawn: Places) -> tuple[Coordinates, Coordinates]:
    """The ends of a link as it is drawn."""
    a, b = drawn.switches[link.a[0]], (drawn.hosts if link.kind == "host" else drawn.switches)[link.b[0]]
    links = (link,) if link.kind == "host" else topology.links_between(link.a[0], link.b[0])
    beside = _GAP * (links.index(link) - (len(links) - 1) / 2) * (1 if link.a < link.b else -1)
    length = math.dist(a, b) or 1.0
    x, y = beside * (a[1] - b[1]) / length, beside * (b[0] - a[0]) / length
    return (a[0] + x, a[1] + y), (b[0] + x, b[1] + y)


def _links(topology: Topology, drawn: Places) -> Iterator[str]:
    for link in topology.links:
        yield _line(*line_of(topology, link, drawn), _STYLE[link.kind])


def _routes(topology: Topology, routes: Sequence[tuple[str, str, Sequence[int]]], drawn: Places) -> Iterator[str]:
    for index, (colour, label, path) in enumerate(routes):
        thickness = 4 + 4 * (len(routes) - 1 - index)  # where paths share a link, both are seen
        for a, stop in directed_links(topology, tuple(path)):
            style = f'stroke="{colour}" stroke-width="{thickness}" stroke-linecap="round"'
            copy, b = divmod(stop, len(topology.switches))
            link = topology.links_between(a, b)[copy]
            near, far = line_of(topology, link, drawn)
            yield _line(near, far, style) if link.a[0] == a else _line(far, near, style)
        y = drawn.height - 20 * (len(routes) - index)
        yield _line((16, y), (46, y), f'stroke="{colour}" stroke-width="4"')
        yield f'<text x="54" y="{y + 5:.0f}" font-size="14" {_TEXT}>{label}</text>'


def _nodes(topology: Topology, switches: list[Coordinates], hosts: list[Coordinates]) -> Iterator[str]:
    for x, y in hosts:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#7aa874"/>'
    for switch in topology.switches:
        x, y = switches[switch.index]
        width = max(22, 6 * len(switch.name) + 6)
        yield f'<rect x="{x - width / 2:.1f}" y="{y - 8:.1f}" width="{width}" height="16" rx="3" fill="#2f5d8a"/>'
        yield (
            f'<text x="{x:.1f}" y="{y + 3.5:.1f}" font-size="10" text-anchor="middle" '
            f'font-family="sans-serif" fill="white">{escape(switch.name)}</text>'
        )


def _group_names(topology: Topology, switches: list[Coordinates]) -> Iterator[str]:
    for group, members in enumerate(topology.members):
        x = sum(switches[switch][0] for switch in members) / len(members)
        y = sum(switches[switch][1] for switch in members) / len(members)
        yield (
            f'<text x="{x:.1f}" y="{y + 5:.1f}" font-size="13" text-anchor="middle" {_TEXT} '
            f'stroke="white" stroke-width="3" paint-order="stroke">group {group}</text>'
        )


def _line(a: Coordinates, b: Coordinates, style: str) -> str:
    return f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" {style}/>'


def example_routes(topology: Topology) -> list[tuple[str, str, tuple[int, ...]]]:
    """A Dragonfly's shortest path from group 0 to group 6 and one by way of group 1 (paper, Fig. 4)."""
    if topology.family != "dragonfly" or topology.groups < 7:
        return []
    source, destination = topology.members[0][0], topology.members[6][0]
    shortest = next(shortest_paths(topology, source, destination))
    detour = next(via_paths(topology, source, destination, via=1))
    return [
        ("#d1622b", "shortest path: source port below 0x8000", shortest),
        ("#7b3fa0", "by way of group 1: source port 0x8000 and above", detour),
    ]


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m detour.topo.draw TOPOLOGY > FILE.svg", file=sys.stderr)
        return 2
    try:
        topology = parse_topology(sys.argv[1])
    except DetourError as error:
        print(f"detour: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(svg(topology, example_routes(topology)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
