# SPDX-License-Identifier: Apache-2.0
"""Printed values of "Non-Shortest Path Routing in Lossy Data Center Networks" (Mizrahi, Belkar, Spector, Cohen).

Only numbers that stand in its text and tables. The curves of Figs. 5 to 7 carry none, so there are none here.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args


class Table1Row(NamedTuple):
    """`gain`: percent."""

    connections: int
    load: float
    without_pfc_gbps: int
    with_pfc_gbps: int
    gain: float


TABLE_1: Final = tuple(Table1Row(*row) for row in (
    (16, 0.03, 1_360, 1_288, 5.59),
    (32, 0.04, 2_177, 2_002, 8.74),
    (64, 0.07, 3_415, 3_038, 12.41),
    (128, 0.1, 4_993, 4_374, 14.15),
    (256, 0.15, 6_769, 6_026, 12.33),
    (512, 0.19, 8_774, 7_576, 15.81),
    (1_024, 0.23, 10_689, 8_703, 22.82),
    (2_048, 0.27, 12_716, 9_989, 27.3),
    (4_096, 0.32, 14_868, 10_455, 42.21),
    (8_192, 0.38, 17_883, 10_585, 68.95),
    (16_384, 0.47, 22_211, 10_961, 102.64),
    (32_768, 0.6, 28_734, 10_976, 161.79),
    (65_535, 0.73, 34_795, 10_894, 219.4),
))  # fmt: skip
"""Table I. The text gives no unit; Gb/s fits 512 hosts of 100 Gb/s and the column of loads."""

TABLE_2: Final = {
    ("D1", "unf"): 4_608, ("D1", "adv1"): 64, ("D1", "adv2"): 512,
    ("D2", "unf"): 110_808, ("D2", "adv1"): 324, ("D2", "adv2"): 5_832,
    ("D3", "unf"): 1_081_344, ("D3", "adv1"): 1_024, ("D3", "adv2"): 32_768,
}  # fmt: skip
"""Table II: pairs of each pattern"""

LoadLevel = Literal["light", "heavy"]
LOADS: Final[tuple[LoadLevel, ...]] = get_args(LoadLevel)
TABLE_3: Final[dict[tuple[str, str, str], float]] = {
    ("D1", "unf", "light"): 16, ("D2", "unf", "light"): 20, ("D3", "unf", "light"): 78,
    ("D1", "unf", "heavy"): 13, ("D2", "unf", "heavy"): 29, ("D3", "unf", "heavy"): 30,
    ("D1", "adv1", "light"): 20, ("D2", "adv1", "light"): 35, ("D3", "adv1", "light"): 92,
    ("D1", "adv1", "heavy"): 3, ("D2", "adv1", "heavy"): 3, ("D3", "adv1", "heavy"): 22,
    ("D1", "adv2", "light"): 12, ("D2", "adv2", "light"): 18, ("D3", "adv2", "light"): 38,
    ("D1", "adv2", "heavy"): 3, ("D2", "adv2", "heavy"): 5, ("D3", "adv2", "heavy"): 11,
}  # fmt: skip
"""Table III: by how many percent TelemetryLERP is ahead of Benchmark. D3's 78 % contradicts the text's "up to 30 %"."""

TOPOLOGIES: Final = {"D1": "dragonfly:p=2,a=4,h=2", "D2": "dragonfly:p=3,a=6,h=3", "D3": "dragonfly:p=4,a=8,h=4"}


def throughput(topology: str, pattern: str, scheme: str, pairs: int) -> float | None:
    """The throughput in Gb/s that the text states for a point; `None` where it states none.

    ADV1 with ShortestPath is 100 Gb/s at any number of pairs ("a constant throughput of 100 Gb/s"). D1's 800 Gb/s
    are stated for the end of the curves.
    """
    if pattern == "adv1" and scheme == "ShortestPath":
        return 100.0
    at_the_end = topology == "D1" and pairs == TABLE_2.get((topology, pattern))
    if at_the_end and pattern == "adv1" and scheme == "TelemetryLERP":
        return 800.0
    if at_the_end and pattern == "adv2" and scheme in ("TelemetryLERP", "TelemetryGBN"):
        return 800.0
    return None
