# SPDX-License-Identifier: Apache-2.0
"""`fcplus`: expanders built, routed, proven free of deadlocks, and measured."""

from __future__ import annotations

import argparse
import csv
import time
from typing import TYPE_CHECKING, Any

from detour.base.errors import DetourError
from detour.base.files import new_text
from detour.base.tables import Table, fixed, left, right
from detour.cli.output import Page, bar, present
from detour.cli.parser import Parser, command, number, option_of, output_file, whole, whole_numbers
from detour.control.expander import COMPARED_ROUTINGS, DEMAND_PATTERNS

if TYPE_CHECKING:
    from detour.control.expander.comparison import Compared, Comparison
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


def register(commands: Any) -> None:
    fcplus = commands.add_parser("fcplus", help="build, route, verify and measure deadlock-free expanders")
    kinds = fcplus.add_subparsers(dest="fcplus", metavar="WHAT", required=True)
    build = _add(kinds, "build", "wire an expander and check it", _build)
    build.option("--out", "write the links with their virtual switches and layers", "FILE", output_file)
    paths = _routed(_add(kinds, "paths", "compute the paths of all pairs", _paths))
    paths.option("--out", "write one path per line with its priority per hop (CSV)", "FILE", output_file)
    prove = _routed(_add(kinds, "prove", "prove that PFC cannot deadlock", _prove))
    text = "check the running fabric: the entries of its switches, its failures and its senders' uSID lists"
    prove.flag("--running", text)
    prove.set_defaults(default_of=prove.get_default)
    prove.flag("--tagger", "also count the priorities that Tagger would need")
    through = _loaded(
        _routed(_add(kinds, "throughput", "compute the throughput by multi-commodity flow over the paths", _throughput))
    )
    through.option(
        "--method",
        "HiGHS or detour's approximation (auto: by size)",
        choices=("auto", "exact", "approximate"),
        default="auto",
    )
    parser = _loaded(_add(kinds, "compare", "compare with LASH, DFSSSP and Nue", _compare))
    parser.option("--k", "paths per pair of DF-KSP and KSP (32)", "K", whole, default=32)
    parser.option("--trees", "paths per pair of the others, one per tree (default: a tree for every host)", "T", whole)
    parser.option("--bounds", "priorities of DF-KSP and Nue (1,2)", "N[,N]", default="1,2")
    parser.option(
        "--routings", f"routings ({','.join(COMPARED_ROUTINGS)})", "NAME[,NAME]", default=",".join(COMPARED_ROUTINGS)
    )
    parser.option("--max-hops", "longest path of DF-KSP and KSP (12)", "N", whole, default=12)
    parser.option("--order-seed", "seed of the order of destinations (1)", "N", whole, default=1)
    growing = _routed(_add(kinds, "grow", "add switches, rewiring as few links as possible", _grow))
    growing.option("--add", "switches (1)", "N", whole, default=1)


def _add(kinds: Any, name: str, text: str, run: Any) -> Parser:
    parser = command(kinds, name, text, run)
    parser.option(
        "--topo",
        "the topology, like jellyfish:n=60,s=14 or graph:FILE[,hosts=N][,grown=N], instead of the options below",
        "SPEC",
    )
    parser.option("--family", "(fcplus)", choices=FAMILY_NAMES)
    parser.option("--n", "switches (120)", "N", whole)
    parser.option("--s", "links per switch to other switches (22)", "S", whole)
    parser.option("--v", "virtual switches per switch (default: the paper's strategy)", "V", whole)
    parser.option("--p", "ports per switch (32)", "P", whole)
    parser.option("--hosts", "servers per switch (p - s)", "H", whole)
    parser.option("--layers", "k of FC (4)", "L", whole)
    parser.option("--seed", "seed (1)", "N", whole)
    return parser


def _loaded(parser: Parser) -> Parser:
    text = (
        f"traffic between switches (near-worst): {', '.join(DEMAND_PATTERNS)}; F: a fraction of the switches, S: skew"
    )
    parser.option("--pattern", text, "PATTERN", default="near-worst")
    parser.option("--gap", "gap between the approximation's bounds (0.01)", "G", number, default=0.01)
    return parser


def _routed(parser: Parser) -> Parser:
    parser.option("--k", "paths per pair (32)", "K", whole, default=32)
    parser.option("--priorities", "lossless priorities (1); 0: KSP, which may deadlock", "N", whole, default=1)
    parser.option(
        "--ties", "choice among paths of equal length (diverse)", choices=("diverse", "plain"), default="diverse"
    )
    parser.flag("--disjoint", "only link-disjoint paths, as in FC")
    parser.option("--max-hops", "longest path (12)", "N", whole, default=12)
    parser.option("--fail", "links that are down, like s0-s3", "LINK[,LINK]")
    return parser


_PARTS = {"family": "fcplus", "n": 120, "s": 22, "v": None, "p": 32, "hosts": None, "layers": None, "seed": 1}
"""what a network is put together from without --topo, and what is taken where nothing is given"""


def _network(options: argparse.Namespace) -> Expander:
    """The network that the options describe, as a whole or by its parts."""
    given = [name for name in _PARTS if getattr(options, name) is not None]
    if options.topo is not None and given:
        raise DetourError(f"--topo already describes the network; --{given[0]} is not for it")
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
    network, policy = _network(options), _policy(options)
    policy.check(network)
    if options.fail is not None:
        network = network.under(_failed(network.topology, options.fail))
    return network, policy


def _failed(topology: Topology, names: str) -> Failures:
    from detour.topo.failures import parse_failure

    failures = frozenset(parse_failure(topology, name) for name in names.split(","))
    for failure in failures:
        if failure.kind != "link" or topology.links[failure.index].kind == "host":
            raise DetourError(f"--fail {names}: only links between switches can fail here, like s0-s3 or s0:5")
    return failures


def _prove(options: argparse.Namespace) -> int:
    from detour.cli.fcplus_prove import prove, prove_running

    if not options.running:
        return prove(options, *_routed_network(options))
    for name in _NOT_OF_RUNNING:
        if getattr(options, name) != options.default_of(name):
            raise DetourError(f"{option_of(name)} does not go with --running, which checks the running fabric")
    return prove_running(options)


def _check_gap(options: argparse.Namespace) -> None:
    if not 0 < options.gap < 1:
        raise DetourError(f"--gap {options.gap} is not between 0 and 1")


def _policy(options: argparse.Namespace) -> PathPolicy:
    from detour.control.expander.routes import PathPolicy

    return PathPolicy(options.k, options.priorities, options.ties, options.disjoint, options.max_hops)


def _build(options: argparse.Namespace) -> None:
    began = time.monotonic()
    network = _network(options)
    if options.out:
        with new_text(options.out) as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(("a", "b", "virtual_a", "virtual_b", "layer_a", "layer_b"))
            for ends, virtual, layer in zip(network.links, network.virtual, network.layer, strict=True):
                writer.writerow((*ends.tolist(), *virtual.tolist(), *layer.tolist()))
    seconds = round(time.monotonic() - began, 4)
    hosts = int(network.hosts.sum())
    _present(
        options,
        {"spec": network.spec, "switches": network.size, "hosts": hosts, "links": len(network.links),
         "layers": network.layers, "seconds": seconds},
    )  # fmt: skip


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
    document = {"pairs": len(routes.pairs), "paths": routes.total, "k2_mean": k2, "n_p4": short, "seconds": seconds}
    _present(options, document, ("mean length", round(routes.mean_length, 4)))


def _throughput(options: argparse.Namespace) -> None:
    from detour.control.expander import demand, throughput
    from detour.control.native import EXPANDER

    _check_gap(options)
    network, policy = _routed_network(options)
    EXPANDER.load()
    began = time.monotonic()
    traffic = demand.demand_of(options.pattern, network, options.seed)
    with bar("paths", options.json) as report:
        carried = throughput.throughput(network, policy, traffic, options.method, options.gap, report)
    bound = demand.upper_bound(network, traffic)
    seconds = round(time.monotonic() - began, 4)
    document = {"theta": round(carried.theta, 6), "upper_bound": round(bound, 6), "gap": round(carried.gap, 6)}
    _present(options, document | {"seconds": seconds}, ("method", carried.method))


def _present(options: argparse.Namespace, document: dict[str, Any], *more: tuple[str, Any]) -> None:
    """A row for every key, then what else people see."""
    rows = [*((name.replace("_", " "), value) for name, value in document.items()), *more]
    table = Table((left("what", lambda row: row[0]), right("value", lambda row: row[1])), rows)
    present(document, options, lambda page: page.table(table))


def _compare(options: argparse.Namespace) -> int:
    """DF-KSP beside LASH, DFSSSP and Nue; the exit code, 0 if nothing can deadlock."""
    from detour.control.expander import comparison, demand
    from detour.control.native import EXPANDER

    _check_gap(options)
    network = _network(options)
    terms = comparison.Terms(
        k=options.k, trees=options.trees, bounds=whole_numbers("--bounds", options.bounds),
        schemes=tuple(name.strip() for name in options.routings.split(",")), gap=options.gap, seed=options.order_seed,
        max_hops=options.max_hops,
    )  # fmt: skip
    terms.check()
    traffic = demand.demand_of(options.pattern, network, options.seed)
    EXPANDER.load()
    with bar("routings", options.json) as report:
        compared = comparison.compare(network, options.pattern, traffic, terms, report)
    present(compared, options, lambda page: _show_comparison(page, compared))
    return 0 if all(row.acyclic for row in compared.rows) else 1


def _show_comparison(page: Page, comparison: Comparison) -> None:
    def name(row: Compared) -> str:
        return row.scheme if row.bound is None else f"{row.scheme}, {row.bound} given"

    columns = (
        left("routing", name),
        right("priorities", lambda row: row.priorities),
        left("acyclic", lambda row: "yes" if row.acyclic else "NO"),
        right("paths", lambda row: fixed(row.paths, 1), means="of a pair, mean"),
        right("links", lambda row: f"{fixed(row.mean_hops, 2)} / {row.max_hops}", means="of a path, mean / most"),
        right("throughput", lambda row: fixed(row.theta, 3), means=f"{comparison.pattern} traffic"),
        right("escaped", lambda row: f"{row.escaped:.0%}" if row.scheme == "nue" else "", means="to the spanning tree"),
        right("seconds", lambda row: fixed(row.seconds, 2)),
    )
    page.print(comparison.spec, whole=True)
    page.table(Table(columns, comparison.rows))
    page.print(f"KSP, K = {comparison.k}, with Tagger: {comparison.tagger} priorities")


def _grow(options: argparse.Namespace) -> int:
    """Show the rewiring for every new switch and the resulting routes; return 0 if nothing can deadlock."""
    from detour.control.expander import proof
    from detour.control.expander.routes import compute, share_over
    from detour.control.native import EXPANDER
    from detour.topo.expander import growth
    from detour.topo.names import link_name

    if options.fail is not None:
        raise DetourError("--fail does not go with grow: failed links cannot be rewired")
    network, policy = _routed_network(options)
    if options.add < 1:
        raise DetourError(f"--add {options.add} is less than 1 switch")
    EXPANDER.load()
    began = time.monotonic()
    grown = growth.grow(network, options.add)
    with bar("paths", options.json) as report:
        before = compute(network, policy, report=report)
        routes = compute(grown.network, policy, report=report)
    proven = proof.prove(routes)
    # Those that were there before: a switch may come in where an earlier new one has its links.
    taken = {pair for step in grown.steps for pair in step.rewired if max(pair) < network.size}
    name_of = grown.network.name_of
    added = [
        {
            "switch": f"s{s.switch}",
            "least": s.least,
            "rewired": [link_name(name_of(a), name_of(b)) for a, b in s.rewired],
        }
        for s in grown.steps
    ]
    result = {
        "spec": grown.network.spec, "switches": grown.network.size, "added": added,
        "rewired": sum(len(step.rewired) for step in grown.steps), "least": sum(step.least for step in grown.steps),
        "links": len(grown.network.links), "priorities": policy.priorities, "pairs": len(routes.pairs),
        "paths": routes.total, "mean_hops": round(routes.mean_length, 4),
        "max_hops": int(routes.length.max(initial=0)), "acyclic": [layer.acyclic for layer in proven.priorities],
        "lengthened": round(share_over(before, taken), 4), "seconds": round(time.monotonic() - began, 4),
    }  # fmt: skip
    present(result, options, lambda page: _show_grown(page, result))
    return 0 if proven.deadlock_free else 1


def _show_grown(page: Page, document: dict[str, Any]) -> None:
    columns = (
        left("new switch", lambda row: row["switch"]),
        right("rewired", lambda row: len(row["rewired"])),
        right("least possible", lambda row: row["least"]),
        left("links that made way", lambda row: " ".join(row["rewired"])),
    )
    page.table(Table(columns, document["added"]))
    page.print(document["spec"], whole=True)
    old = f"{document['lengthened']:.1%} of the old paths passed one"
    page.print(f"{document['switches']} switches, {document['links']} links; {old}")
    page.print(
        f"{document['paths']} paths of {document['pairs']} pairs, {fixed(document['mean_hops'], 2)} links in the mean, "
        f"{document['max_hops']} at most, in {document['priorities']} priorities"
    )
    page.print("cannot deadlock" if all(document["acyclic"]) else "may deadlock")
