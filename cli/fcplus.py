# SPDX-License-Identifier: Apache-2.0
"""`fcplus`: expanders built, routed, proven free of deadlocks, and measured."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import new_text
from detour.base.tables import Table, left, right
from detour.cli.fcplus_compare import add_compare_options
from detour.cli.output import bar, present
from detour.cli.parser import Parser, command, output_file
from detour.control.expander import DEMAND_PATTERNS

if TYPE_CHECKING:
    from detour.control.expander.routes import PathPolicy
    from detour.topo import Topology
    from detour.topo.expander import Expander
    from detour.topo.failures import Failures

FAMILY_NAMES = ("fcplus", "fc", "jellyfish", "xpander", "slimfly", "clos")
_NOT_OF_RUNNING = (
    "family", "n", "s", "v", "p", "hosts", "layers", "seed", "priorities", "ties", "disjoint", "max_hops", "fail",
    "tagger",
)  # fmt: skip
"""options of `prove` that say what the fabric that is up says itself"""


@dataclass(frozen=True)
class _Built:
    spec: str
    switches: int
    hosts: int
    links: int
    layers: int
    seconds: float


@dataclass(frozen=True)
class _Routed:
    pairs: int
    paths: int
    k2_mean: float
    n_p4: float
    seconds: float


@dataclass(frozen=True)
class _Carried:
    theta: float
    upper_bound: float
    gap: float
    seconds: float


def register(commands: Any) -> None:
    """Adds these commands."""
    fcplus = commands.add_parser("fcplus", help="deadlock-free expanders: build, route, prove, measure")
    kinds = fcplus.add_subparsers(dest="fcplus", metavar="WHAT", required=True)
    build = _add(kinds, "build", "wire an expander and check it", _build)
    build.add_argument(
        "--out", type=output_file, metavar="FILE", help="write the links with their virtual switches and layers"
    )
    paths = _routed(_add(kinds, "paths", "compute the paths of all pairs", _paths))
    paths.add_argument(
        "--out", type=output_file, metavar="FILE", help="write one path a line with its priority per hop (CSV)"
    )
    prove = _routed(_add(kinds, "prove", "check that no buffer that PFC may block waits for itself", _prove))
    prove.add_argument(
        "--running",
        action="store_true",
        help="of the fabric that is up: what its switches hold, read back, with its failures and its senders' lists",
    )
    prove.set_defaults(default_of=prove.get_default)
    prove.add_argument("--tagger", action="store_true", help="count the priorities that Tagger would need as well")
    through = _loaded(_routed(_add(kinds, "throughput", "multi-commodity flow over the paths", _throughput)))
    through.add_argument(
        "--method", choices=("auto", "exact", "approximate"), default="auto", help="HiGHS or our own (auto: by size)"
    )
    add_compare_options(_loaded(_add(kinds, "compare", "beside LASH, DFSSSP and Nue", _compare)))
    growing = _routed(_add(kinds, "grow", "add single switches, rewiring as few links as can be", _grow))
    growing.add_argument("--add", type=int, default=1, metavar="N", help="switches (1)")


def _add(kinds: Any, name: str, text: str, run: Any) -> Parser:
    parser = command(kinds, name, text, run)
    parser.add_argument(
        "--topo",
        metavar="SPEC",
        help="the network as a whole, like jellyfish:n=60,s=14 or graph:FILE[,hosts=N][,grown=N]",
    )
    parser.add_argument("--family", choices=FAMILY_NAMES, help="(fcplus)")
    parser.add_argument("--n", type=int, metavar="N", help="switches (120)")
    parser.add_argument("--s", type=int, metavar="S", help="links of a switch to others (22)")
    parser.add_argument("--v", type=int, metavar="V", help="virtual switches of a switch (the paper's strategy)")
    parser.add_argument("--p", type=int, metavar="P", help="ports of a switch (32)")
    parser.add_argument("--hosts", type=int, metavar="H", help="servers of a switch (p - s)")
    parser.add_argument("--layers", type=int, metavar="L", help="of FC: its k (4)")
    parser.add_argument("--seed", type=int, metavar="N", help="(1)")
    return parser


def _loaded(parser: Parser) -> Parser:
    parser.add_argument("--pattern", choices=DEMAND_PATTERNS, default="near-worst")
    parser.add_argument("--gap", type=float, default=0.01, metavar="G", help="of the approximation's bounds (0.01)")
    return parser


def _routed(parser: Parser) -> Parser:
    parser.add_argument("--k", type=int, default=32, metavar="K", help="paths of a pair (32)")
    parser.add_argument(
        "--priorities", type=int, default=1, metavar="N", help="lossless priorities (1); 0: KSP, whatever it blocks"
    )
    parser.add_argument(
        "--ties", choices=("diverse", "plain"), default="diverse", help="among paths of equal length (diverse)"
    )
    parser.add_argument("--disjoint", action="store_true", help="only paths that share no link, as FC does")
    parser.add_argument("--max-hops", type=int, default=12, metavar="N", help="longest path (12)")
    parser.add_argument("--fail", metavar="LINK[,LINK]", help="links that are down, like s0-s3: routes go around them")
    return parser


# -- what they do -------------------------------------------------------------------------------------------


_PARTS = {"family": "fcplus", "n": 120, "s": 22, "v": None, "p": 32, "hosts": None, "layers": None, "seed": 1}
"""what a network is put together from without --topo, and what is taken where nothing is given"""


def network_of(options: argparse.Namespace) -> Expander:
    """The network that the options describe, as a whole or by its parts."""
    given = [name for name in _PARTS if getattr(options, name) is not None]
    if options.topo is not None and given:
        raise DetourError(f"--topo is the whole network; --{given[0]} is not for it")
    for name, value in _PARTS.items():
        if name not in given:
            setattr(options, name, value)
    if options.topo is None:
        return _of_family(options)
    from detour.control.graph_files import network_from

    return network_from(options.topo)


def _of_family(options: argparse.Namespace) -> Expander:
    from detour.topo import expander

    if options.seed < 0:
        raise DetourError(f"--seed {options.seed} is less than 0")
    if options.v is not None and options.family != "fcplus":
        raise DetourError(f"--v is for FC+, not for {options.family}")
    if options.layers is not None and options.family != "fc":
        raise DetourError(f"--layers is for FC, not for {options.family}")
    n, s, rest = options.n, options.s, {"hosts": options.hosts, "p": options.p, "seed": options.seed}
    match options.family:
        case "fcplus":
            return expander.fcplus(n, s, options.v, **rest)
        case "fc":
            return expander.fc(n, s, 4 if options.layers is None else options.layers, **rest)
        case "jellyfish":
            return expander.jellyfish(n, s, **rest)
        case "xpander":
            return expander.xpander(n, s, **rest)
        case "slimfly":
            return expander.slimfly(n, s, options.hosts, options.p)
    hosts = options.p - s if options.hosts is None else options.hosts
    return expander.equal_cost_clos(n * hosts, n, options.p)


def _routed_network(options: argparse.Namespace) -> tuple[Expander, PathPolicy]:
    """The network, with the links down that are, and the policy of its routes, which fits."""
    network, policy = network_of(options), _policy(options)
    policy.check(network)
    if options.fail is not None:
        network = network.under(_failed(network.topology, options.fail))
    return network, policy


def _failed(topology: Topology, names: str) -> Failures:
    """Links between switches by name."""
    from detour.topo.failures import parse_failure

    found = frozenset(parse_failure(topology, name) for name in names.split(","))
    for failure in found:
        if failure.kind != "link" or topology.links[failure.index].kind == "host":
            raise DetourError(f"--fail {names}: only links between switches can be down here, like s0-s3 or s0:5")
    return found


def _prove(options: argparse.Namespace) -> int:
    from detour.cli.fcplus_prove import prove, prove_running

    if not options.running:
        return prove(options, *_routed_network(options))
    for name in _NOT_OF_RUNNING:
        if getattr(options, name) != options.default_of(name):
            raise DetourError(
                f"--{name.replace('_', '-')} is not for --running: that is asked of the fabric that is up"
            )
    return prove_running(options)


def _compare(options: argparse.Namespace) -> int:
    from detour.cli.fcplus_compare import compare

    _check_gap(options)
    return compare(options, network_of(options))


def _grow(options: argparse.Namespace) -> int:
    from detour.cli.fcplus_grow import grow

    if options.fail is not None:
        raise DetourError("--fail is not for grow: links that are down cannot be rewired")
    network, policy = _routed_network(options)
    return grow(options, network, policy)


def _check_gap(options: argparse.Namespace) -> None:
    if not 0 < options.gap < 1:
        raise DetourError(f"--gap {options.gap} is not between 0 and 1")


def _policy(options: argparse.Namespace) -> PathPolicy:
    from detour.control.expander.routes import PathPolicy

    return PathPolicy(options.k, options.priorities, options.ties, options.disjoint, options.max_hops)


def _build(options: argparse.Namespace) -> None:
    began = time.monotonic()
    network = network_of(options)
    if options.out:
        _write_links(network, options.out)
    seconds = round(time.monotonic() - began, 4)
    hosts = int(network.hosts.sum())
    found = _Built(network.spec, network.size, hosts, len(network.links), network.layers, seconds)
    present(found, options, lambda page: page.table(_values(found)))


def _write_links(network: Expander, file: Path) -> None:
    import csv

    with new_text(file) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("a", "b", "virtual_a", "virtual_b", "layer_a", "layer_b"))
        for ends, virtual, layer in zip(network.links, network.virtual, network.layer, strict=True):
            writer.writerow((*ends.tolist(), *virtual.tolist(), *layer.tolist()))


def _paths(options: argparse.Namespace) -> None:
    from detour.control.expander import counts
    from detour.control.expander.routes import compute, write_csv
    from detour.control.native import EXPANDER

    network, policy = _routed_network(options)
    EXPANDER.load()
    began = time.monotonic()
    with bar("paths", options.json) as report:
        routes = compute(network, policy, report=report)
    seconds = round(time.monotonic() - began, 4)
    with bar("counts", options.json) as report:
        k2 = round(counts.examined(routes, report).mean, 4)
        short = round(float(counts.mean_paths(network, 4, policy.priorities, report=report).sum()), 4)
    if options.out:
        write_csv(routes, options.out)
    found = _Routed(len(routes.pairs), routes.total, k2, short, seconds)
    length = ("mean length", round(routes.mean_length, 4))
    present(found, options, lambda page: page.table(_values(found, length)))


def _throughput(options: argparse.Namespace) -> None:
    from detour.control.expander import demand, throughput
    from detour.control.native import EXPANDER

    _check_gap(options)
    network, policy = _routed_network(options)
    EXPANDER.load()
    began = time.monotonic()
    wanted = demand.demand_of(options.pattern, network, options.seed)
    with bar("paths", options.json) as report:
        carried = throughput.throughput(network, policy, wanted, options.method, options.gap, report)
    bound = demand.upper_bound(network, wanted)
    seconds = round(time.monotonic() - began, 4)
    found = _Carried(round(carried.theta, 6), round(bound, 6), round(carried.gap, 6), seconds)
    present(found, options, lambda page: page.table(_values(found, ("method", carried.method))))


def _values(found: _Built | _Routed | _Carried, *more: tuple[str, Any]) -> Table[tuple[str, Any]]:
    """A row for every field, then what else people are told."""
    rows = [(field.name.replace("_", " "), getattr(found, field.name)) for field in fields(found)]
    return Table((left("what", lambda row: row[0]), right("value", lambda row: row[1])), [*rows, *more])
