# SPDX-License-Identifier: Apache-2.0
"""`fcplus compare`: DF-KSP beside LASH, DFSSSP and Nue."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from detour.base.tables import Table, fixed, left, right
from detour.cli.output import Page, bar, present
from detour.cli.parser import Parser
from detour.control.expander import COMPARED_ROUTINGS

if TYPE_CHECKING:
    from detour.control.expander.comparison import Compared, Comparison
    from detour.topo.expander import Expander


def add_compare_options(parser: Parser) -> None:
    """Its options beside those of the network."""
    parser.add_argument("--k", type=int, default=32, metavar="K", help="paths of a pair of DF-KSP and KSP (32)")
    parser.add_argument(
        "--trees", type=int, metavar="T", help="paths of a pair of the others, one a tree (a tree for every host)"
    )
    parser.add_argument(
        "--bounds", default="1,2", metavar="N[,N]", help="priorities that DF-KSP and Nue are given (1,2)"
    )
    parser.add_argument(
        "--routings",
        default=",".join(COMPARED_ROUTINGS),
        metavar="NAME[,NAME]",
        help=f"which ({','.join(COMPARED_ROUTINGS)})",
    )
    parser.add_argument("--max-hops", type=int, default=12, metavar="N", help="longest path of DF-KSP and KSP (12)")
    parser.add_argument("--order-seed", type=int, default=1, metavar="N", help="of the order of destinations (1)")


def compare(options: argparse.Namespace, network: Expander) -> int:
    """Compares and shows; the exit code, 0 if nothing can deadlock."""
    from detour.cli.parser import whole_numbers
    from detour.control.expander import comparison, demand
    from detour.control.native import EXPANDER

    terms = comparison.Terms(
        k=options.k,
        trees=options.trees,
        bounds=whole_numbers("--bounds", options.bounds),
        schemes=tuple(name.strip() for name in options.routings.split(",")),
        gap=options.gap,
        seed=options.order_seed,
        max_hops=options.max_hops,
    )
    terms.check()
    wanted = demand.demand_of(options.pattern, network, options.seed)
    EXPANDER.load()
    with bar("routings", options.json) as report:
        found = comparison.compare(network, options.pattern, wanted, terms, report)
    present(found, options, lambda page: _show(page, found))
    return 0 if all(row.acyclic for row in found.rows) else 1


def _show(page: Page, found: Comparison) -> None:
    def name(row: Compared) -> str:
        return row.scheme if row.bound is None else f"{row.scheme}, {row.bound} given"

    columns = (
        left("routing", name),
        right("priorities", lambda row: row.priorities),
        left("acyclic", lambda row: "yes" if row.acyclic else "NO"),
        right("paths", lambda row: fixed(row.paths, 1), means="of a pair, mean"),
        right("links", lambda row: f"{fixed(row.mean_hops, 2)} / {row.max_hops}", means="of a path, mean / most"),
        right("throughput", lambda row: fixed(row.theta, 3), means=f"{found.pattern} traffic"),
        right("escaped", lambda row: f"{row.escaped:.0%}" if row.scheme == "nue" else "", means="to the spanning tree"),
        right("seconds", lambda row: fixed(row.seconds, 2)),
    )
    page.print(found.spec, whole=True)
    page.table(Table(columns, found.rows))
    page.print(f"KSP, K = {found.k}, with Tagger: {found.tagger} priorities")
