# SPDX-License-Identifier: Apache-2.0
"""The FC+ paper's printed values: Tables I to VIII (Zhang et al., "FC+: Near-optimal Deadlock-free Expander Data Center
Networks")."""

TABLE_1 = {100: (31.67, 6.48), 200: (16.07, 5.01), 300: (10.78, 4.22), 400: (22.83, 4.92), 500: (18.35, 4.55)}
"""switches: up-down paths, edge-disjoint up-down paths of FC (s=18)"""
TABLE_2 = {
    100: {32: 36.67, 64: 82.67, 100: 144.69},
    500: {32: 50.07, 64: 104.08, 100: 165.45},
    1000: {32: 51.53, 64: 119.41, 100: 231.86},
    1500: {32: 53.69, 64: 145.83, 100: 257.91},
}
"""switches: K: K2 (s=18)"""
TABLE_3 = {
    400: {4: (8.13, 8.13, 4.13), 6: (37.67, 23.76, 6.08), 8: (133.90, 43.59, 7.72), 10: (411.75, 63.41, 8.95)},
    600: {4: (5.43, 5.43, 2.76), 6: (25.33, 15.93, 4.06), 8: (90.51, 29.22, 5.16), 10: (279.42, 42.51, 5.98)},
    800: {4: (4.08, 4.08, 2.07), 6: (19.07, 11.97, 3.05), 8: (68.15, 21.96, 3.87), 10: (211.89, 31.96, 4.48)},
    1000: {4: (3.27, 3.27, 1.65), 6: (15.30, 9.59, 2.44), 8: (54.78, 17.59, 3.10), 10: (170.42, 25.61, 3.59)},
}
"""switches: k of FC: N_P, N_P6, N_P4 (s=18)"""
TABLE_4 = {
    400: {3: (6.00, 3.00, 37.56), 4: (5.03, 3.34, 20.82), 6: (5.38, 3.63, 12.14), 10: (5.47, 4.15, 8.95)},
    600: {3: (6.15, 3.00, 30.83), 4: (5.43, 3.56, 13.87), 6: (5.81, 3.69, 8.11), 10: (6.03, 4.41, 5.98)},
    800: {3: (6.49, 3.06, 24.24), 4: (5.75, 3.59, 10.42), 6: (5.91, 4.01, 6.08), 10: (6.28, 4.72, 4.48)},
    1000: {3: (6.97, 3.26, 19.46), 4: (5.81, 3.68, 8.35), 6: (5.96, 4.03, 4.86), 10: (6.44, 5.00, 3.59)},
}
"""switches: v: longest and shortest mean length of a pair's first 32 paths, N_P4 (s=18)"""
TABLE_5 = {10: 0.278, 6: 0.287, 4: 0.297, 3: 0.142}
"""v: near-worst throughput with 400 switches (s=18)"""
TABLE_6 = {52: 7.85, 100: 6.46, 152: 5.55, 200: 5.02, 252: 4.56, 300: 4.29, 400: 4.91, 500: 4.55}
"""switches (14 servers each): mean number of FC's paths (s=18)"""
TABLE_7 = {100: 10.44, 300: 7.69, 500: 6.50, 1000: 5.93, 1500: 8.58, 2000: 8.11}
"""switches (10 servers each): mean number of FC's paths (s=22)"""
TABLE_8 = {
    "FC+ 2L": {"all-to-all": 1.204, "uniform": 1.101, "near-worst": 0.634},
    "FC+ 1L": {"all-to-all": 1.157, "uniform": 1.021, "near-worst": 0.600},
    "KSP": {"all-to-all": 1.204, "uniform": 1.101, "near-worst": 0.624},
    "FC": {"all-to-all": 1.102, "uniform": 0.882, "near-worst": 0.413},
    "Clos": {"all-to-all": 0.524, "uniform": 0.524, "near-worst": 0.524},
}
"""throughput of 120 switches (s=22)"""
TABLE_8_FCT = {
    "all-to-all": {
        "FC+ 2L": (4.935, 14.794), "FC+ 1L": (5.064, 14.996), "KSP": (4.923, 14.655), "FC": (5.302, 15.274),
        "Clos": (72.282, 129.544),
    },
    "uniform": {
        "FC+ 2L": (4.736, 24.462), "FC+ 1L": (5.024, 26.333), "KSP": (4.701, 24.233), "FC": (5.937, 34.764),
        "Clos": (45.885, 160.659),
    },
    "near-worst": {
        "FC+ 2L": (68.713, 163.339), "FC+ 1L": (73.024, 173.439), "KSP": (70.507, 176.324), "FC": (113.753, 225.508),
        "Clos": (130.040, 240.834),
    },
}  # fmt: skip
"""50th and 99th percentile of completion times at load 0.7; the unit is not printed"""
EDGE = {18: {500: 5, 400: 5, 300: 4}, 22: {2000: 6, 1500: 6, 1000: 5, 500: 4}}
"""k of the paper's FC from so many switches on: not printed, but the numbers of paths in Tables I, VI and VII leave no
other choice"""


def fc_layers(n: int, s: int) -> int:
    """k of the FC that n switches are compared with: 4 in small networks."""
    return next((k for least, k in EDGE.get(s, {}).items() if n >= least), 4)
