# SPDX-License-Identifier: Apache-2.0
"""`fcplus`: expanders built, routed, proven free of deadlocks, and measured."""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.cli.output import bar, emit, table
from detour.cli.parser import Parser, command

if TYPE_CHECKING:
    from rich.console import Console

    from detour.control.expander.routes import PathPolicy
    from detour.topo.expander import Expander

FAMILY_NAMES = ("fcplus", "fc", "jellyfish", "xpander", "clos")
PATTERN_NAMES = ("all-to-all", "uniform", "near-worst")


def register(commands: Any) -> None:
    """Adds these commands."""
    fcplus = commands.add_parser("fcplus", help="deadlock-free expanders: build, route, prove, measure")
    kinds = fcplus.add_subparsers(dest="fcplus", metavar="WHAT", required=True)
    build = _add(kinds, "build", "wire an expander and check it", _build)
    build.add_argument(
        "--out", type=Path, metavar="FILE", help="write the links with their virtual switches and layers"
    )
    paths = _routed(_add(kinds, "paths", "compute the paths of all pairs", _paths))
    paths.add_argument("--out", type=Path, metavar="FILE", help="write one path a line with its priority per hop (CSV)")
    prove = _routed(_add(kinds, "prove", "check that no priority's channels depend on themselves", _prove))
    prove.add_argument("--tagger", action="store_true", help="count the priorities that Tagger would need as well")
    through = _routed(_add(kinds, "throughput", "multi-commodity flow over the paths", _throughput))
    through.add_argument("--pattern", choices=PATTERN_NAMES, default="near-worst")
    through.add_argument(
        "--method", choices=("auto", "exact", "approximate"), default="auto", help="HiGHS or our own (auto: by size)"
    )
    through.add_argument("--gap", type=float, default=0.01, metavar="G", help="of the approximation's bounds (0.01)")


def _add(kinds: Any, name: str, text: str, run: Any) -> Parser:
    parser = command(kinds, name, text, run)
    parser.add_argument("--family", choices=FAMILY_NAMES, default="fcplus", help="(fcplus)")
    parser.add_argument("--n", type=int, default=120, metavar="N", help="switches (120)")
    parser.add_argument("--s", type=int, default=22, metavar="S", help="links of a switch to others (22)")
    parser.add_argument("--v", type=int, metavar="V", help="virtual switches of a switch (the paper's strategy)")
    parser.add_argument("--p", type=int, default=32, metavar="P", help="ports of a switch (32)")
    parser.add_argument("--hosts", type=int, metavar="H", help="servers of a switch (p - s)")
    parser.add_argument("--layers", type=int, metavar="L", help="of FC: its k (4)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(1)")
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
    return parser


# -- what they do -------------------------------------------------------------------------------------------


def _network(options: argparse.Namespace) -> Expander:
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
    hosts = options.p - s if options.hosts is None else options.hosts
    return expander.equal_cost_clos(n * hosts, n, options.p)


def _policy(options: argparse.Namespace) -> PathPolicy:
    from detour.control.expander.routes import PathPolicy

    return PathPolicy(options.k, options.priorities, options.ties, options.disjoint, options.max_hops)


def _build(options: argparse.Namespace) -> None:
    began = time.monotonic()
    network = _network(options)
    if options.out:
        _write_links(network, options.out)
    result = {
        "spec": network.spec,
        "switches": network.size,
        "hosts": int(network.hosts.sum()),
        "links": len(network.links),
        "layers": network.layers,
        "seconds": round(time.monotonic() - began, 4),
    }
    emit(result, options.json, lambda console: _show(console, result))


def _write_links(network: Expander, file: Path) -> None:
    try:
        with file.open("w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(("a", "b", "virtual_a", "virtual_b", "layer_a", "layer_b"))
            for ends, virtual, layer in zip(network.links, network.virtual, network.layer, strict=True):
                writer.writerow((*ends.tolist(), *virtual.tolist(), *layer.tolist()))
    except OSError as error:
        raise DetourError(f"{file}: {error.strerror}") from None


def _paths(options: argparse.Namespace) -> None:
    from detour.control.expander import counts
    from detour.control.expander.routes import compute, write_csv
    from detour.control.expander.warm import warm

    network, policy = _network(options), _policy(options)
    policy.check(network)
    warm()
    began = time.monotonic()
    with bar("paths", options.json) as report:
        routes = compute(network, policy, report=report)
    seconds = time.monotonic() - began
    with bar("counts", options.json) as report:
        examined = counts.examined(routes, report)
        short = counts.mean_paths(network, 4, policy.priorities, report=report)
    if options.out:
        write_csv(routes, options.out)
    result = {
        "pairs": len(routes.pairs),
        "paths": routes.total,
        "k2_mean": round(examined.mean, 4),
        "n_p4": round(float(short.sum()), 4),
        "seconds": round(seconds, 4),
    }
    emit(result, options.json, lambda console: _show(console, result | {"mean length": round(routes.mean_length, 4)}))


def _prove(options: argparse.Namespace) -> int:
    from detour.control.expander import proof, tagger
    from detour.control.expander.routes import compute
    from detour.control.expander.warm import warm

    network, policy = _network(options), _policy(options)
    policy.check(network)
    warm()
    with bar("paths", options.json) as report:
        routes = compute(network, policy, report=report)
    began = time.monotonic()
    found = proof.prove(routes)
    result: dict[str, Any] = {
        "acyclic": [layer.acyclic for layer in found.priorities],
        "channels": found.channels,
        "dependencies": found.dependencies,
        "seconds": round(time.monotonic() - began, 4),
    }
    if not found.deadlock_free:
        result["cycle"] = next(proof.channel_names(network, p.cycle) for p in found.priorities if p.cycle)
    if options.tagger or not found.deadlock_free:
        result["tagger_priorities"] = tagger.assign(routes).priorities
    emit(result, options.json, lambda console: _show_proof(console, result))
    return 0 if found.deadlock_free else 1


def _throughput(options: argparse.Namespace) -> None:
    from detour.control.expander import demand, throughput
    from detour.control.expander.warm import warm

    if not 0 < options.gap < 1:
        raise DetourError(f"--gap {options.gap} is not between 0 and 1")
    network, policy = _network(options), _policy(options)
    policy.check(network)
    warm()
    began = time.monotonic()
    wanted = demand.demand_of(options.pattern, network, options.seed)
    with bar("paths", options.json) as report:
        found = throughput.throughput(network, policy, wanted, options.method, options.gap, report)
    result = {
        "theta": round(found.theta, 6),
        "upper_bound": round(demand.upper_bound(network, wanted), 6),
        "gap": round(found.gap, 6),
        "seconds": round(time.monotonic() - began, 4),
    }
    emit(result, options.json, lambda console: _show(console, result | {"method": found.method}))


def _show(console: Console, result: dict[str, Any]) -> None:
    console.print(table(("what", ">value"), [(key.replace("_", " "), value) for key, value in result.items()]))


def _show_proof(console: Console, result: dict[str, Any]) -> None:
    rows = [(p, "yes" if good else "NO") for p, good in enumerate(result["acyclic"], 1)]
    console.print(table((">priority", "acyclic"), rows))
    console.print(f"{result['channels']} channels, {result['dependencies']} dependencies, {result['seconds']} s")
    if "cycle" in result:
        console.print("a cycle: " + " ".join(result["cycle"]))
    if "tagger_priorities" in result:
        console.print(f"Tagger needs {result['tagger_priorities']} priorities for these routes")
