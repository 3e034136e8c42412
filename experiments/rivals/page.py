# SPDX-License-Identifier: Apache-2.0
"""docs/rivals.md: the comparison of schemes that choose paths, from the cells of `reproduce rivals`."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path

from detour.base.files import write_file
from detour.base.tables import markdown
from detour.experiments.rivals import htsim
from detour.experiments.rivals.cells import RivalCell, RivalFindings
from detour.experiments.rivals.points import SIZES, RivalSelection
from detour.experiments.rivals.tables import goals_table, lateness_table, tables

_HEAD = """# SprayLERP and its rivals

Written by `{command}`; do not edit it by hand.

Every packet of a SprayLERP connection takes a path of its own, chosen by the queuing delays that answers bring
([transports.md](transports.md#spraylerp) has the rules). Here it stands beside the non-shortest-path paper's schemes
and beside published ways to choose paths, on the same fabric, with the same pairs and the same time for all.

- **TelemetryLERP**, **Benchmark-DCTCP**: as in [results.md](results.md), with the settings that were best there.
- **TelemetryLERP-evidence**: with the loss recovery that hosts have by default, and SprayLERP has, instead of the
  paper's.
- **LERP-shortest**: SprayLERP without a choice of paths; what the choice is worth.
- **Oblivious**: every packet on a random candidate, shortest path or detour. **Valiant**: on a random detour.
- **REPS** (arXiv 2407.21625): a path that answered without a mark is used again, else a random one is drawn.
- **MRC-like** (arXiv 2605.04333): packets take turns on seven paths; a mark swaps one, a loss does and bars it
  for a millisecond. **MRC-like-NSCC**: under Ultra Ethernet's NSCC, with marks from 30 to 120 kB (`hosts/cc/nscc.py`).
- **Spritz-Scout**, **Spritz-Spray** (arXiv 2602.19567): paths are drawn by their length and remembered while they are
  not marked; Scout stays on the shortest of them (`rivals/paths/spritz.py` has the parameters, their source and what is
  different).
- **UGAL-L**, **UGAL-G** (Singh 2005; Kim et al., ISCA 2008): Benchmark with DCTCP, but the first switch compares one
  random detour with the shortest path, by the queues of its own ports (L) or by those of the group's global links (G).
  G is ideal knowledge: no switch has it. Benchmark's rule is a third one, by all links of the group, and as ideal. T is
  0 for both, as published; it was not sought.
- **FlowBender** (CoNEXT 2014): one path, left at random after a round trip with more than 5 % marks.
  **PLB** (SIGCOMM 2022): after 12 in a row with more than half.

REPS, MRC-like, Spritz, FlowBender, PLB, oblivious and Valiant spraying have SprayLERP's loss recovery (by order on each
path), its DCTCP and its K of 120 kB, so that they differ from it by the choice of paths alone; what their publications
have besides (other congestion control, trimming) is left out. The candidates of a connection are the same for all: one
shortest path and a detour by each other group. The texts of Ultra Ethernet's specification and of Spritz' paper were
not at hand: NSCC is after uet-htsim, Spritz after what is public of its artefact, the UGALs after common knowledge.

SprayLERP's numbers (K, margin, probabilities) were fixed on D1 with endless UNF, ADV1, ADVc and permutations; those of
the papers' schemes on D1 with UNF, ADV1 and ADV2. Everything else is hold-out, and marked so; but what hosts tell each
other, and when a path counts as silent, was revised on messages of 64 kB in UNF light, ADV1 medium and heavy, 1 MB in
UNF light, and the failed link, all on D1, and how messages begin and end, how windows grow and how many tokens come
back on messages of 1 MB in ADV1, UNF light, ADVc, the permutation and the ring on D1, ADV1 light on both of the other
Dragonflies and the permutation on dragonfly:p=2,a=8,h=4, and on endless UNF and ADV1 on D1, UNF light, ADV1 heavy and
the permutation on dragonfly:p=4,a=4,h=2, there also ADV1 heavy with 1 MB. So for SprayLERP those cells are no hold-out,
whatever their rows say. Runs that were still rising or falling are not steady.

{coverage}
[experiments.md](experiments.md#jitter) says which runs are older than the present rules for paths that fail or lose
data.
"""
_REASONS = """
Below p99 of "links of hosts" no scheme can come in a cell: the messages of the host that has most of them need that
long on its link. Where that is more than 0.6 of TelemetryLERP's, the goal cannot be reached.

All cells of throughput that are named are beginnings. In the three of ADV1 connections that share a host's link are not
yet at equal windows, and more is carried until they are, whoever chooses the paths: in the first draw on D1 REPS
carries 3 % less at the end of its 1.5 ms than after 0.25, SprayLERP 1 % less than after 0.3. In four times as long
(`--full`, five draws) SprayLERP has 85.4 % there and REPS 86.0; on dragonfly:p=2,a=8,h=4 91.9 and 92.6 in ADV1 light,
85.1 and 85.2 in medium. In UNF heavy on D2 three quarters of the first windows take detours, and 0.8 ms is what runs
there have. In 2.4 ms SprayLERP has 88.6 % and LERP-shortest 88.8 (before tokens of detours moved on as below).

One cell is met by its time and not by a longer one: in ADV1 heavy on dragonfly:p=4,a=4,h=2 SprayLERP has 99 % in 1.5 ms
and 93.3 in 6 ms, oblivious spraying 99.3 in both, REPS 86.4 in the shorter (fifteen draws); why is below.

In the cells of 1 MB and more that are named no scheme comes to 0.6 of TelemetryLERP's p99, but in ADV1 heavy on D1,
where Benchmark has 0.59 and SprayLERP 0.62. SprayLERP is the one that comes closest, or within 7 % of it. TelemetryLERP
has little to lose in most of them: hosts' links are most of it, or connections are so few that it finds them paths of
their own.

Tables of single rules were measured when the rule was chosen, in the order in which they stand here. What came later
moves their rows "as it is" by a few percent; the last to come is that tokens of unmarked detours move on.

Nobody can know in the first round trip. 64 messages of 1 kB leave a host in 5.5 us, and the first answer is back after
10. Whoever takes shortest paths then is late where all do (ADV1, ADVc: 16 hosts of a group put 1,024 packets before one
link on the hold-outs), and whoever takes detours is late where nobody has to. How much of each was measured: all but so
many last packets of a message may take detours before anything is known (`spray_ahead_mtus`, 64 as it is). Messages of
64 kB, mean and p99 in us, two draws; p=2 is dragonfly:p=2,a=8,h=4, the rest is D1.

| | UNF light, mean | permutation, mean | permutation, p99 | ADV1 light, p99 | ADV1 light, p=2, p99 | ADVc light, p99 |
|---|---:|---:|---:|---:|---:|---:|
| 64 (as it is) | 34.6 | 16.6 | 23.0 | 32.0 | 66.3 | 92.2 |
| 48 | 37.9 | 17.0 | 21.7 | 30.8 | 61.3 | 91.5 |
| 32 | 38.6 | 17.4 | 20.7 | 24.1 | 48.7 | 83.8 |
| 16 | 39.1 | 18.4 | 20.7 | 22.9 | 37.6 | 77.1 |
| REPS | 45.9 | 19.9 | 22.2 | 24.8 | 27.6 | 70.7 |

So a message that must not be slower than on shortest paths where these are free is late where they are not, whatever
the number: every packet on a detour costs the former and saves the latter. Benchmark's and UGAL's switches look at
queues instead, so they are ahead in cells of 64 kB. What a host has learnt helps its later connections
(`hosts/paths/memory.py`), and three or more that begin to send to one group count their own packets as a queue there.
Before they did, p99 in ADV1 heavy was 361 us, with 32 % of packets sent again; now the first 15 of a host still take
the one direct link, which is the 3 us behind REPS. In ADV1 light hosts have fewer connections than three, and in medium
four, of which the first two have sent all before the third begins. The same rule costs the mean of 64 kB in ADV2 heavy:
13 % of packets take a detour, all others do as LERP-shortest's. In the rest of the cells of 64 kB that are named the
mean is 0.5 us, or 0.7 %, above that of shortest paths at most.

For larger messages the cells more than 5 % behind are four. In the ring 4 % of packets take detours, for nothing:
three quarters of the first window do before anything is known, and few come back before the message ends. With 64 last
packets on shortest paths instead of 15 it is 107 us, but ADV1 heavy 762 instead of 754. ADV1 heavy on D1 is 5.7 %
behind Benchmark, whose switches know all queues of their group. On dragonfly:p=4,a=4,h=2 oblivious spraying is 5.5 %
ahead in ADV1 medium: who sends to one group only is best off with equal shares from the first packet on, and it is far
behind wherever that is not what everybody does. In the incast on D2 p99 is one of the senders to one host, which all
who choose in hosts end at 1,566 to 1,579 us, those who choose by queues in switches up to 5.5 % sooner; SprayLERP has
the least mean.

What the rules of how a long message begins brought was measured one by one, each row with all above it but the one in
brackets: p99 in us, in brackets the mean, of 1 MB, three draws. p=4 is dragonfly:p=4,a=4,h=2, p=2 is
dragonfly:p=2,a=8,h=4, the rest is D1. That a message ends on shortest paths was added afterwards.

| | ADV1 light, p=4 | ADV1 light, p=2 | permutation, p=2 | ADV1 heavy | permutation | UNF light |
|---|---:|---:|---:|---:|---:|---:|
| half of the first window on detours | 332 (278) | 328 (274) | 154 (117) | 781 (706) | 209 (151) | 820 (522) |
| no growth where an answer is owed | 335 (252) | 338 (246) | 152 (117) | 778 (707) | 215 (151) | 820 (523) |
| nor on crowded ones | 327 (238) | 335 (236) | 139 (116) | 779 (709) | 219 (152) | 826 (528) |
| three quarters of it on detours | 315 (233) | 320 (232) | 121 (114) | 774 (700) | 208 (150) | 819 (528) |
| (seven eighths) | 329 (241) | 322 (231) | 120 (114) | 774 (699) | 202 (150) | 823 (540) |
| one token in 24 comes back, not one in 16 | 317 (234) | 320 (230) | 122 (114) | 748 (705) | 203 (150) | 829 (530) |

Before, 1,590 packets of 16 hosts went to the one direct link in ADV1 light within 58 us, which takes 700 of them, and
whose wait they learnt of when they had waited themselves: senders stood still behind a queue of 100 us. In ADV1 heavy
that link's queue swung between 2 and 18 us, its marks made windows unequal, and the last messages ended late.

How fast tokens come back from detours was a trade: fast return mends UNF heavy, where detours are load for nothing, and
makes the direct link's queue swing where all need detours. So it depends on both that a sender sees: what shortest
paths wait in the mean, and what part of its answers they gave. The first two columns are endless connections, in % of
the ceiling, the others p99 of 1 MB in us; three draws, where it says so two. p=4 is dragonfly:p=4,a=4,h=2, p=2 is
dragonfly:p=2,a=8,h=4, the rest is D1.

| a token comes back with | UNF heavy | UNF light, p=4 | permutation, p=2 | permutation | ADV1 heavy | ADVc heavy |
|---|---:|---:|---:|---:|---:|---:|
| 1/24 | 85.4% | 80.2% | 122 | 202 | 759 | 3280 |
| 1/2 while shortest paths wait for little in the mean, else 1/24 | 89.0% | 87.7% | 130 | 211 | 768 | 3442 |
| 1/24, and half the cube of their part of answers (two draws) | 89.0% | 88.0% | 124 | 208 | 764 | 3520 |
| 1/24, and half its square while they wait for little (as it is) | 88.7% | 86.4% | 121 | 207 | 757 | 3234 |

Who leaves a crowded shortest path does with probability 1/2, however crowded it is. In proportion to what is too much,
ADV1 heavy on dragonfly:p=4,a=4,h=2 carries 99.4 % instead of 97.3 (six draws, of which one is at 88 %: all leave at
once, detours are marked, and windows stay small). But shares are less equal (Jain's index 0.90 instead of 0.93), and
the slowest messages of 1 MB end later there (1,596 us instead of 1,550) and on D1 (774 instead of 768).

A token that stays where it is takes its queue along. In ADV1 heavy on dragonfly:p=4,a=4,h=2 128 senders share eight
links out of their group, and while only marks moved tokens, some of the links had queues of 100 packets and others none
for 100 us and more: each was busy for 80 % of the time, all together, and in 6 ms that got worse, not better. So one
token in 16 of those that waited longer than others, by the margin, becomes another detour. More of them is worse again:
all leave the same queue by what it was a round trip ago, and the next one swings. Endless connections in % of the
ceiling, p99 of 1 MB in us; five draws, twenty in the first column, in brackets another number of draws.

| an unmarked detour | ADV1 heavy, p=4 | in 6 ms | permutation | same, p=4 | same, 1 MB | ADV1 heavy, p=4, 1 MB |
|---|---:|---:|---:|---:|---:|---:|
| stays | 98.3% | 88.1% | 70.2% | 70.0% | 210 | 1546 |
| moves with 1/16, if it waited longer than others (as it is) | 99.2% | 93.3% | 72.3% | 71.4% | 206 | 1530 |
| with 1/8 | 98.2% | | 73.2% | 72.2% | 207 | 1600 |
| with 1/16, one in 4 of all besides, all drawn blindly | 98.7% (3) | 97.9% | 63.3% (3) | | 213 (3) | 1508 (3) |
| oblivious spraying | 99.3% (15) | 99.3% | | | | |

What is blind has equal shares, which are right in this cell, and wrong where some detours are taken by others: the last
row of ours has 63.3 instead of 73.0 % of the ceiling in the permutation, over the same three draws, and in ADVc heavy
with 1 MB p99 of 3,566 us instead of 3,260.

A broken link is found by its silence ([transports.md](transports.md#spraylerp)). Over ten draws the longest recovery
was 33 to 43 us, which are 2.1 to 2.8 of the connections' own round trips. Two things had cost more. A connection that
had everything on the path that broke had no other answers, and waited for a timeout: 225 us in one draw of ten. It
sends the oldest packet again by another path now, after a round trip without news. And detours of which the last round
trip was long were waited for one and a half of it, up to 3.7 mean ones. The same for shortest paths as well sends 0.4 %
of packets in ADV1 light with 1 MB on dragonfly:p=4,a=4,h=2 again for nothing; as it is, none.

Nothing that is merely slow is taken for dead: in 40 ms of endless UNF heavy on D1 (1,152 connections, 29 million
packets) no path was given up; 1,768 packets were sent again. When a path was given up as soon as its PTM was as late as
its packets, that happened 160 times in UNF light with 1 MB.

Four cells of 1 MB that miss 0.6 of TelemetryLERP's p99 were taken apart: p99 in us when one thing is different from
SprayLERP (a scheme of one's own, `--scheme FILE.py:NAME`), the first draw of each.

| | D1 adv2 light | D1 advc light | D1 bit-reverse | dragonfly:p=4,a=4,h=2 permutation |
|---|---:|---:|---:|---:|
| 0.6 of TelemetryLERP's | 166 | 741 | 127 | 250 |
| SprayLERP's mean | 144 | 629 | 137 | 254 |
| SprayLERP | 208 | 910 | 166 | 358 |
| without DCTCP: the window is always 128 packets | 178 | 916 | 151 | 295 |
| K is 40 kB | 209 | 976 | 194 | 385 |
| K is 300 kB | 178 | 869 | 165 | 353 |
| windows begin with 32 packets | 213 | 899 | 171 | 385 |
| windows begin with 512 packets | 190 | 924 | 154 | 356 |
| no margin for shortest paths | 199 | 918 | 155 | 358 |
| a margin of 100 MTU times | 201 | 952 | 184 | 369 |
| `empty_gain` is 0 | 216 | 911 | 170 | 414 |

DCTCP costs most: with windows that never change p99 is 9 to 18 % lower in three of the four, but the mean is no
better. Windows that begin larger help by 1 to 9 % in the same three, no margin by 4 and 7 % in two. No change
reaches the goal. In ADVc it is below what the links of hosts need (773 us), in bit-reverse below the mean of every
scheme (128 us at best), in the permutation at it (248). In ADV2 links of hosts need 156 of the 166 us.
"""
_SIMULATORS = """## Two simulators

REPS and oblivious spraying under NSCC, here and in uet-htsim (the Ultra Ethernet Consortium's simulator, commit
{commit}), on one fat-tree of 128 hosts ({topology}) at 100 Gb/s with links of 1 us: a permutation, and an incast of 16
with a permutation of all other hosts in the background, a message of 1,000 packets of 1,102 bytes a connection, the
same pairs and begins within 20 us (`python -m detour.experiments.rivals.htsim FOLDER` writes them). 32 entropies a
connection, marks from 27 to 109 packets, every packet acknowledged. The command there:

    {command}

{table}

{differences}
"""
_LEFT = """## What is not here

{missing}

To go on: `detour reproduce rivals --seeds 5 --keep docs/rivals.jsonl.xz`, which runs what that file lacks and adds it,
with `--topology`, `--pattern`, `--bytes` and `--scheme` for a part; D2, D3 and 100 MB with `--full`. Then `make rivals`
writes this page anew.
"""


def write(file: Path, found: RivalFindings, what: RivalSelection, command: str) -> None:
    """Writes the page. `command`: how to write it again."""
    ours = [cell for cell in found.cells if cell.topology != htsim.BOTH_TOPOLOGY]
    parts = [_HEAD.format(command=command, coverage=_coverage(ours))]
    goals = goals_table(RivalFindings(ours))
    if goals.rows:
        parts.append(f"## {goals.title}\n\n{markdown(goals)}\n{_REASONS}")
    some = [*tables(RivalFindings(ours)), lateness_table(ours)]
    parts += [f"## {table.title}\n\n{markdown(table)}\n" for table in some if table.rows]
    parts += _simulators(list(found.cells))
    parts.append(_LEFT.format(missing=textwrap.fill(_missing(ours, what), 120)))
    write_file(file, "\n".join(parts))


def _coverage(cells: list[RivalCell]) -> str:
    """How much of everything is there."""
    draws = Counter(cell.draws for cell in cells)
    if set(draws) <= {1}:
        counted = "each of one draw of pairs"
    else:
        counted = ", ".join(f"{count} of {number} draw{'s' * (number > 1)}" for number, count in sorted(draws.items()))
    topologies = ", ".join(dict.fromkeys(cell.topology for cell in cells))
    return (
        f"There are {len(cells)} cells on {topologies}:\n{counted}. Endless connections run for 1.5 ms of virtual "
        "time on D1, less on larger fabrics.\nWhere there is one draw, for want of processor time, differences of a "
        "few percent between schemes say nothing.\nSchemes are compared where they have equally many."
    )


def _missing(cells: list[RivalCell], what: RivalSelection) -> str:
    there = {cell.pattern for cell in cells}
    absent = [name for name in what.patterns if name not in there]
    few = [name for name in what.schemes if sum(cell.scheme == name for cell in cells) < len(cells) / len(what.schemes)]
    lines = []
    if absent:
        lines.append(f"No cell has the patterns {', '.join(absent)}.")
    if few:
        lines.append(f"In fewer cells than others are {', '.join(few)}.")
    few_cells = {name: sum(cell.topology == name for cell in cells) for name in ("D2", "D3")}
    large = sum(cell.message_bytes == SIZES[-1] for cell in cells)
    lines += [
        f"{name} has {count} cells only." if count else f"{name} was not run." for name, count in few_cells.items()
    ]
    lines.append(f"Messages of 100 MB: {large} cells.")
    return " ".join(lines)


def _simulators(cells: list[RivalCell]) -> list[str]:
    table = htsim.table(cells)
    if not table.rows:
        return []
    known = json.loads(htsim.DATA.read_text())
    text = _SIMULATORS.format(
        commit=known["commit"],
        topology=htsim.BOTH_TOPOLOGY,
        command=textwrap.fill(known["command"], 110, break_on_hyphens=False).replace("\n", " \\\n        "),
        table=markdown(table),
        differences=known["differences"],
    )
    return [text]
