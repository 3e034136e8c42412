# SPDX-License-Identifier: Apache-2.0
"""The tests of the draft by their sections: what the AI fabric benchmark does of each, what differs, and why."""

from __future__ import annotations

from detour.base.tables import Table
from detour.experiments.columns import row, shown, table

DRAFT = "draft-calabria-bmwg-ai-fabric-training-bench-02"
URL = f"https://datatracker.ietf.org/doc/{DRAFT[:-3]}/{DRAFT[-2:]}/"


@row
class DraftTest:
    """A section of the draft. `done`: yes, in part or no."""

    section: str = shown("section")
    test: str = shown("test")
    done: str = shown("done")
    differs: str = shown("what differs, and why", left=True)


_NO_UET = "hosts have RoCEv2's formats and LERP, not UET"
_MESSAGES = "whole messages, no binary search over 60 s: hosts send as fast as their congestion control lets them"
_VIRTUAL = "a virtual clock: runs are short, and the same draw gives the same run, so draws replace repetitions"
_LIBRARY = "the algorithm is known (rings, direct exchange), no library picks it; sizes and ranks as they are asked for"
_TEXTS = (
    ("5.1", "Baseline Throughput", "in part", f"{_MESSAGES}; one queue pair a pair of hosts (8.1 has more)"),
    ("5.2", "Latency Characterization", "in part", f"messages of 1 kB from posting to the last byte; {_VIRTUAL}"),
    ("5.3", "Back-to-Back Burst Absorption", "in part", "bursts double from 4 kB on; the largest ratio, up to 32:1"),
    ("6.1", "UET Throughput by Transport Service", "no", _NO_UET),
    ("6.2", "UET Latency Characterization", "no", _NO_UET),
    ("6.3", "Packet Spray Efficacy Under UET RUD", "no", f"{_NO_UET}; 8.3 sprays over LERP, which takes any order"),
    ("6.4", "UET Congestion Control Benchmarks", "no", f"{_NO_UET}; 7.2 has schemes without PFC"),
    ("6.5", "Link Layer Enhancement Benchmarks", "no", "links have neither LLR nor CBFC"),
    ("6.6", "UET Collective Communication Performance", "no", _NO_UET),
    ("6.7", "UET PDC Scalability and Connection Setup Rate", "no", "connections exist before a run begins"),
    ("7.1", "ECN Marking Accuracy and Threshold", "in part", "share of marks; P4 compares, so thresholds are exact"),
    ("7.2", "PFC Behavior Under Incast", "yes", "up to 32:1; schemes without PFC show what they lose instead"),
    ("7.3", "DCQCN Convergence Time", "in part", "at most 4 flows join 4; windows of 200 us; each scheme's control"),
    ("7.4", "PFC Storm and Deadlock Resilience", "in part",
     "looked for in collectives; `detour reproduce deadlock` has cyclic traffic"),
    ("8.1", "ECMP Entropy and Polarization", "yes", "max-mean ratio of bytes, not flows: spraying counts too"),
    ("8.2", "Dynamic Load Balancing (Flowlet)", "no", "no flowlets in switches; FlowBender is a scheme of hosts"),
    ("8.3", "Packet Spraying", "yes", "senders spray, not switches"),
    ("8.4", "Jain Fairness Index Measurement", "yes", "a switch's uplinks each, then the mean over switches"),
    ("9.1", "AllReduce Benchmark", "yes", f"{_LIBRARY}; {_VIRTUAL}"),
    ("9.2", "AlltoAll Benchmark", "yes", "as 9.1"),
    ("9.3", "AllGather Benchmark", "yes", "as 9.1"),
    ("9.4", "Collective Communication Library Bus Bandwidth Summary", "yes", "the table of all schemes side by side"),
    ("10.1", "Synthetic JCT Under Controlled Conditions", "yes", "4 iterations, half computation, half communication"),
    ("10.2", "MLPerf-Aligned JCT", "no", "needs accelerators; see `detour job gpt` for a model's shape"),
    ("10.3", "Multi-Tenant JCT Interference", "yes", "two jobs on random halves of the hosts"),
    ("11.1", "Fabric Scale Limits", "in part", "a quarter, half and all of the hosts; there is no BGP"),
    ("11.2", "Link Failure Convergence", "yes", "a leaf's uplink and a spine; new routes 1 ms later"),
    ("11.3", "Zero-Impact Failover Measurement", "yes", "against the longest of 4 iterations without failure"),
    ("12.1", "24-Hour Sustained Load", "in part", "12 collectives in turn, by the virtual clock"),
    ("12.2", "Resource Leak Detection", "no", "all switches are one process"),
)  # fmt: skip
TESTS = tuple(
    DraftTest(section=section, test=test, done=done, differs=differs) for section, test, done, differs in _TEXTS
)


def coverage() -> Table[DraftTest]:
    """All of them."""
    return table(DraftTest, TESTS, f"tests of {DRAFT}")
