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

from detour.base.jit import inner
from detour.hosts.draws import random_below
from detour.hosts.paths import tokens
from detour.hosts.paths.health import is_alive
from detour.hosts.paths.tokens import DRAW_TRIES, TOKENS
from detour.hosts.records import QueuePair
from detour.hosts.rows import cfg_row, host_row, wqe_row
from detour.hosts.state import MODE_SCOUT, NIL, Handle


@inner
def choose(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """Candidate for the packet that goes out now."""
    if q.spritz_sent > cfg_row(hs).spritz_explore:
        q.spritz_sent = 0
        return _draw(hs, i, q, now)
    if q.mode == MODE_SCOUT:
        for place in range(q.n_tokens):
            cand = tokens.at(q, place)
            if is_alive(hs, i, cand, now):
                q.spritz_sent += 1
                return cand
        return _draw(hs, i, q, now)
    q.spritz_sent += 1
    while q.n_tokens:
        cand = tokens.pop(q)
        if is_alive(hs, i, cand, now):
            return cand
    return _draw(hs, i, q, now)


@inner
def _draw(hs: Handle, i: int, q: QueuePair, now: int) -> int:
    """A candidate by weight; shortest paths are the first ones."""
    cfg, h = cfg_row(hs), host_row(hs, q.host)
    message = wqe_row(hs, i, q.sq_nxt & (cfg.sq_depth - 1)).length
    weight = cfg.spritz_small_weight if message < cfg.spritz_small_bytes else cfg.spritz_weight
    short, cand = weight * q.n_short, 0
    for _ in range(DRAW_TRIES):
        place = random_below(h, short + q.n_cand - q.n_short)
        cand = place // weight if place < short else place - short + q.n_short
        if is_alive(hs, i, cand, now):
            break
    return cand


@inner
def _place_of(q: QueuePair, cand: int) -> int:
    for place in range(q.n_tokens):
        if tokens.at(q, place) == cand:
            return place
    return NIL


@inner
def on_answer(hs: Handle, q: QueuePair, cand: int, marked: int) -> None:
    """The answer about a packet that went by `cand` came in."""
    if q.mode != MODE_SCOUT:
        if not marked and q.n_tokens < TOKENS:
            tokens.push(q, cand)
        return
    place = _place_of(q, cand)
    if not marked:
        if place == NIL and q.n_tokens < TOKENS:
            tokens.insert(q, _rank(q, cand), cand)
    elif place != NIL:
        q.spritz_marked += 1
        if q.spritz_marked > cfg_row(hs).spritz_marks:
            on_bad(q, cand)


@inner
def _rank(q: QueuePair, cand: int) -> int:
    """Place of a candidate in order of length, which is that of the table."""
    place = 0
    while place < q.n_tokens and tokens.at(q, place) < cand:
        place += 1
    return place


@inner
def on_bad(q: QueuePair, cand: int) -> None:
    """A packet was lost on `cand`, or too many were marked."""
    if q.mode != MODE_SCOUT:
        return
    place = _place_of(q, cand)
    if place != NIL:
        q.spritz_marked = 0
        tokens.remove(q, place)
