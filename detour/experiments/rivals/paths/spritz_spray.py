# SPDX-License-Identifier: Apache-2.0
"""Spritz: packets of a sender that knows which of its paths are long (Bonato et al., "Spritz: Path-Aware Load Balancing
in Low-Diameter Networks", arXiv 2602.19567), by marks alone.

Both algorithms draw paths by weight, and remember those that answered without a mark, up to eight in the paper, seven
here, for they are kept in one word (`tokens`). Every 44 packets (`spritz_explore`) one is drawn whatever is known.

* Scout stays on the shortest of the paths that it remembers; when answers of remembered paths have brought more than 8
  marks (`spritz_marks`) the path of the last one is forgotten. Nothing is remembered twice.
* Spray uses a path that answered without a mark once for each such answer, and draws when there is none.

A shortest path weighs `spritz_weight` times as much as a detour: the paper's evaluation takes three times the ratio of
latencies, which here is 5 links to 3. For messages below 512 KiB (`spritz_small_bytes`) it weighs 100 times as much
(`spritz_small_weight`). These are the values of the paper's evaluation; the paper's text was not at hand, the rules and
numbers are those of its published artefact as others keep it.

Left out or different: the paper has packets trimmed and takes a trimmed one as a path to be forgotten; here a loss that
a later packet of the path shows is that. A path that times out is never drawn again there; here it is left alone until
it answers (`transport.multipath`). Among detours all weigh the same. What is remembered belongs to a connection, of
which there is one for each pair of hosts. Loss recovery and DCTCP are those of all that sprays here.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.structs import Int64, NativeRecord
from detour.hosts.config import check_numbers
from detour.hosts.draws import random_below
from detour.hosts.paths import tokens
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.plugin import PathNews, PathParameters, PathScheme, hook
from detour.hosts.paths.tokens import DRAW_TRIES, TOKENS
from detour.hosts.records import QueuePair
from detour.hosts.rows import host_row, wqe_row
from detour.hosts.state import Handle


@dataclass(frozen=True)
class Parameters(PathParameters):
    """Parameters of the scheme."""

    spritz_explore: int = 44
    """after so many packets one path is drawn whatever is known of others"""
    spritz_marks: int = 8
    """of Spritz-Scout: more marks than that make it forget a path"""
    spritz_weight: int = 5
    """times that a shortest path is likelier to be drawn than a detour"""
    spritz_small_bytes: int = 1 << 19
    """messages shorter than that have another weight"""
    spritz_small_weight: int = 100
    """and this is it"""

    def __post_init__(self) -> None:
        check_numbers(self)


class SpritzState(NativeRecord):
    """The state of a QP under either scheme."""

    sent: Int64  # packets since a path was drawn whatever was known
    marked: Int64  # marks of remembered paths
    tokens: Int64
    n_tokens: Int64


@hook
def on_candidates(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> None:
    tokens.forget(s)
    s.sent = 0
    s.marked = 0


@hook
def on_idle(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> None:
    tokens.forget(s)


@hook
def draw_by_weight(hs: Handle, i: int, q: QueuePair, p: Parameters, now: int) -> int:
    """A candidate by weight; shortest paths are the first ones."""
    h = host_row(hs, q.host)
    message = wqe_row(hs, i, q.sq_nxt & (p.sq_depth - 1)).length
    weight = p.spritz_small_weight if message < p.spritz_small_bytes else p.spritz_weight
    short, cand = weight * q.n_short, 0
    for _ in range(DRAW_TRIES):
        place = random_below(h, short + q.n_cand - q.n_short)
        cand = place // weight if place < short else place - short + q.n_short
        if is_alive(hs, i, cand, now):
            break
    return cand


@hook
def choose(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> int:
    if s.sent > p.spritz_explore:
        s.sent = 0
        return draw_by_weight(hs, i, q, p, now)
    s.sent += 1
    while s.n_tokens:
        cand = tokens.pop(s)
        if is_alive(hs, i, cand, now):
            return cand
    return draw_by_weight(hs, i, q, p, now)


@hook
def on_answer(hs: Handle, i: int, q: QueuePair, p: Parameters, s: SpritzState, news: PathNews, now: int) -> None:
    if not news.marked and s.n_tokens < TOKENS:
        tokens.push(s, news.cand)


SPRITZ_SPRAY = PathScheme(
    Parameters(), SpritzState, (on_candidates, on_idle, choose, on_answer), name="spritz-spray", sprays=True
)
