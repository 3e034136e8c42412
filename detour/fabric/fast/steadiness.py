# SPDX-License-Identifier: Apache-2.0
"""Which partitions are steady: the sums of their rates and of what they have in flight do not change.

The last looks are two halves. A partition is steady if what it has sent and what it has in flight differ by no more
than a bound from one to the other, every connection has sent in both, and nothing was lost or sent again. A half takes
some round trips, so that what swings about a mean from one round trip to the next is in both of them; what drifts is
not.
"""

from __future__ import annotations

from detour.base.arrays import Int64s1, Int64s2
from detour.base.native import Part

STEADINESS = Part("steadiness", __name__)

HALF = 8
"""looks in a half"""
KEPT = 4 * HALF
"""rows of what is kept, look k in row k modulo that"""
FLYING = 5.0
"""times the bound on rates: by how much what is in flight may differ"""
ROUNDING = 2
"""packets by which counts at the ends of a half may be off"""
SUMS = 5


@STEADINESS.entry
def steady_partitions(
    una: Int64s2, flying: Int64s2, trouble: Int64s2, member: Int64s1, since: Int64s1, look: int, error: float,
    sums: Int64s2, found: Int64s1,
) -> int:  # fmt: skip
    """Returns how many are steady by now; `found`: which. `una`, `flying`, `trouble`: (KEPT, connections) packets
    acknowledged and in flight, losses so far; `member`: (connections,) the partition of each, -1: none that counts;
    `since`: (partitions,) the look at which each became what it is; `sums`: (partitions, SUMS) to be used."""
    sums[:, :] = 0
    last, middle, begin = look % KEPT, (look - HALF) % KEPT, (look - 2 * HALF) % KEPT
    for flow in range(len(member)):
        part = member[flow]
        if part < 0 or look - since[part] < 2 * HALF:
            continue
        first, second = una[middle, flow] - una[begin, flow], una[last, flow] - una[middle, flow]
        sums[part, 0] += first
        sums[part, 1] += second
        for k in range(1, HALF + 1):
            sums[part, 2] += flying[(look - 2 * HALF + k) % KEPT, flow]
            sums[part, 3] += flying[(look - HALF + k) % KEPT, flow]
        if first <= 0 or second <= 0 or trouble[last, flow] != trouble[begin, flow]:
            sums[part, 4] += 1
    count = 0
    for part in range(len(since)):
        first, second, early, late = sums[part, 0], sums[part, 1], sums[part, 2], sums[part, 3]
        if first <= 0 or sums[part, 4] != 0 or abs(second - first) > error * max(first, second) + ROUNDING:
            continue
        if abs(late - early) <= FLYING * error * max(early, late) + HALF:
            found[count] = part
            count += 1
    return count
