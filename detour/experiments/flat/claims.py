# SPDX-License-Identifier: Apache-2.0
"""Claims of others about flat fabrics beside what packets say (`claims_lp` has what programmes and counting
say)."""

from __future__ import annotations

from collections.abc import Sequence

from detour.experiments.flat.points import NO_FAILURES, SWITCH_ROUTINGS, UGAL, Claim, claim
from detour.experiments.flat.rows import CollectiveCell, FlatCell
from detour.experiments.flat.selection import CLOS, FAT_TREE, POLARFLY, RATIO_CLOS, RNG, SLIM_FLY

_RNG_PAPER, _WMP_PAPER = "RNG (arXiv 2604.15261)", "WMP-PolarFly (whitepaper v4.0)"
_SPRITZ = "Spritz (arXiv 2602.19567), its artefact"
_SPRITZ_US = {"permutation": (267.6, 218.3, 143.6, 181.7), "adversarial": (438.0, 140.8, 225.4, 121.4)}
"""when the last of 4 MiB messages that begin at once has arrived in its artefact (Slim Fly of 1,134 hosts, 400 Gb/s,
SMARTT; commit 4ea994d4 of jhlxp/eth-htsim-ocs-eps, run for this comparison), with UGAL-L and with Spritz-Spray, its
best; then the mean of all messages"""


def packet_claims(cells: Sequence[FlatCell], collectives: Sequence[CollectiveCell] = ()) -> list[Claim]:
    """The claims that there are cells for."""
    intact = [cell for cell in cells if cell.failures == NO_FAILURES]
    parts = (
        _beside_trees(intact), _polarfly(intact), _slim_fly(intact), _at_once(collectives), _switches_or_senders(intact)
    )  # fmt: skip
    return [claim for part in parts for claim in part]


def _best(cells: Sequence[FlatCell], topology: str, matrix: str, senders: bool = False) -> float | None:
    """Return what arrives by the best way; `senders`: of those whose senders name the paths."""
    found = [
        cell.measured
        for cell in cells
        if (cell.topology, cell.matrix) == (topology, matrix) and not (senders and cell.routing in SWITCH_ROUTINGS)
    ]
    return max(found, default=None)


def _gains(cells: Sequence[FlatCell], topology: str, other: str) -> dict[str, float]:
    """By matrix: how much more arrives than on another network, each at its best."""
    gains = {}
    for matrix in dict.fromkeys(cell.matrix for cell in cells if cell.topology == other):
        ours, theirs = _best(cells, topology, matrix), _best(cells, other, matrix)
        if ours and theirs:
            gains[matrix] = ours / theirs - 1
    return gains


def _in_words(gains: dict[str, float]) -> str:
    return ", ".join(f"{matrix} {gain:+.0%}" for matrix, gain in gains.items())


def _beside_trees(cells: Sequence[FlatCell]) -> list[Claim]:
    found = []
    for tree, what, stated in (
        (CLOS, "RNG carries more than a Clos of as many switches and ports", "more"),
        (RATIO_CLOS, "RNG carries what a Clos of the same worst-case ratio carries, with fewer switches", "as much"),
    ):
        if gains := _gains(cells, RNG, tree):
            verdict = "yes" if min(gains.values()) > -0.02 else "partly" if max(gains.values()) > 0 else "no"
            found.append(claim(what, _RNG_PAPER, stated, _in_words(gains), verdict))
    if gains := _gains(cells, RNG, FAT_TREE):
        what = "RNG carries as much as a full fat-tree of 2.4 times its switches"
        verdict = "yes" if min(gains.values()) > -0.1 else "partly" if max(gains.values()) > -0.1 else "no"
        found.append(
            claim(
                what, _RNG_PAPER, "not stated: parity with trees oversubscribed up to 3.25:1", _in_words(gains), verdict
            )
        )
    return found


def _polarfly(cells: Sequence[FlatCell]) -> list[Claim]:
    gains = _gains(cells, POLARFLY, CLOS)
    if not gains:
        return []
    verdict = "yes" if min(gains.values()) > -0.02 else "partly" if max(gains.values()) > 0 else "no"
    what = "PolarFly with weighted uSID lists replaces a Clos of as many switches"
    return [claim(what, _WMP_PAPER, "nothing measured", _in_words(gains), verdict)]


def _slim_fly(cells: Sequence[FlatCell]) -> list[Claim]:
    """Spritz' own artefact finds UGAL-L ahead of senders under permutations on Slim Fly, its paper does not."""
    mine = [cell for cell in cells if cell.topology == SLIM_FLY]
    gains = {}
    for matrix in dict.fromkeys(cell.matrix for cell in mine):
        ugal = [cell.measured for cell in mine if cell.matrix == matrix and cell.routing == "ugal-l"]
        sender = _best(mine, SLIM_FLY, matrix, senders=True)
        if ugal and sender:
            gains[matrix] = sender / ugal[0] - 1
    if not gains:
        return []
    verdict = "yes" if min(gains.values()) > 0 else "partly" if max(gains.values()) > 0 else "no"
    stated = "1.3-1.5 (paper), below 1 (artefact)"
    return [claim("Senders beat UGAL-L on Slim Fly", _SPRITZ, stated, _in_words(gains), verdict)]


def _at_once(cells: Sequence[CollectiveCell]) -> list[Claim]:
    """Spritz' own workloads, beside its own simulator."""
    last, mean, ours = dict[str, float](), dict[str, float](), dict[str, float]()
    for what, (ugal_us, spritz_us, mean_ugal_us, mean_spritz_us) in _SPRITZ_US.items():
        mine = {cell.routing: cell.time_us for cell in cells if (cell.topology, cell.collective) == (SLIM_FLY, what)}
        ugal, senders = mine.pop(UGAL, None), [us for way, us in mine.items() if us and way not in SWITCH_ROUTINGS]
        if ugal and senders:
            last[what], mean[what] = ugal_us / spritz_us - 1, mean_ugal_us / mean_spritz_us - 1
            ours[what] = ugal / min(senders) - 1
    if not ours:
        return []
    verdict = "yes" if all((ours[what] > 0) == (gain > 0) for what, gain in last.items()) else "partly"
    what = "The last of 4 MiB messages that begin at once arrives earlier than with UGAL-L on Slim Fly"
    stated = f"{_in_words(last)}; mean {_in_words(mean)} (artefact, run here)"
    return [claim(what, _SPRITZ, stated, _in_words(ours), verdict)]


def _switches_or_senders(cells: Sequence[FlatCell]) -> list[Claim]:
    """Claim: what Spraypoint loses by leaving the choice to switches."""
    gains = {}
    for matrix in dict.fromkeys(cell.matrix for cell in cells if cell.topology == RNG):
        mine = [cell for cell in cells if (cell.topology, cell.matrix) == (RNG, matrix)]
        spraypoint = [cell.measured for cell in mine if cell.routing.startswith("spraypoint")]
        sender = _best(cells, RNG, matrix, senders=True)
        if spraypoint and sender:
            gains[matrix] = sender / max(spraypoint) - 1
    if not gains:
        return []
    verdict = "yes" if max(gains.values()) < 0.02 else "partly" if min(gains.values()) < 0.02 else "no"
    what = "Spraypoint in switches leaves senders nothing to gain"
    return [claim(what, _RNG_PAPER, "implied", _in_words(gains), verdict)]
