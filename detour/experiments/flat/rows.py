# SPDX-License-Identifier: Apache-2.0
"""Rows of the comparison of flat fabrics, as documents and tables show them."""

from __future__ import annotations

from detour.experiments.columns import mean, row, shown


@row
class FlatCell:
    """Means over `graphs` draws (of wiring, matrix and arrivals). `lp`, `routing_lp`, `measured`: see `FlatRun`;
    `measured_spread`: its sample standard deviation. `steady`: draws whose rate was level."""

    topology: str = shown("topology")
    equality: str = shown("equal")
    routing: str = shown("routing")
    scheme: str = shown("scheme")
    matrix: str = shown("matrix")
    failures: str = shown("failures")
    hosts: int
    lp: float = shown("LP", ".3f", over=mean(4), means="the most that any routing carries, of the hosts' rate")
    routing_lp: float | None = shown("routing's LP", ".3f", over=mean(4), means="the most that its paths carry")
    measured: float = shown("measured", ".3f", over=mean(4), means="what arrives while hosts offer LP")
    measured_spread: float | None = shown("+-", ".3f", means="sample standard deviation over graphs")
    p99_slowdown: float = shown("p99", ".2f", means="slowdown of messages at 0.6 of LP, 99th percentile")
    p99_spread: float | None = shown("+- p99", ".2f", wide=True)
    unfinished: int = shown("unfinished", over=sum, wide=True)
    graphs: int = shown("graphs")
    steady: int = shown("steady", means="graphs whose rate was level (`experiments.steady`)")


@row
class CollectiveCell:
    """A collective: means over `graphs` draws. `slowdown`: the time over the ideal."""

    topology: str = shown("topology")
    routing: str = shown("routing")
    scheme: str = shown("scheme")
    collective: str = shown("collective")
    ranks: int = shown("ranks")
    placed: str = shown("ranks are placed")
    time_us: float | None = shown("us", ".0f", over=mean(3))
    ideal_us: float = shown("ideal", ".0f", over=mean(3))
    slowdown: float | None = shown("slowdown", ".2f", means="time over the ideal")
    graphs: int = shown("graphs")


@row
class FlatGoal:
    """A sender beside the best of Spraypoint's variants in switches, over the cells that both have on a network: in how
    many it carries as much (within a spread), and in how many its p99 is lower."""

    topology: str = shown("topology")
    routing: str = shown("routing")
    scheme: str = shown("scheme")
    cells: int = shown("cells")
    throughput: int = shown("as much", means="carries at least as much as the best Spraypoint in switches")
    p99: int = shown("lower p99")
