# SPDX-License-Identifier: Apache-2.0
"""What tests were skipped for, grouped by what they lack, and what provides it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

_FABRICS = "docs/fabrics.md, BMv2 and p4c"
_PIP = ".venv/bin/python -m pip install"

NEEDS = (
    (r"DETOUR_\w+|P4RUNTIME_SPEC", r"\g<0>", "set it to a checkout of the repository that -rs names"),
    (r"p4testgen", "P4Testgen", f"p4testgen on PATH, built with p4c ({_FABRICS})"),
    (r"psa_switch|pna_nic", r"\g<0>", f"on PATH, built with BMv2 ({_FABRICS})"),
    (r"p4c-bm2|p4c is not|P4C_SAMPLES", "p4c", f"p4c and p4c-bm2-ss on PATH ({_FABRICS})"),
    (r"writes no traces", "BMv2's traces", "behavioral-model with pull request 1433"),
    (r"to have thrift", "thrift", "apt install python3-thrift"),
    (r"simple_switch|BMv2", "BMv2", f"simple_switch_grpc on PATH ({_FABRICS})"),
    (r"chromium", "Chromium", "apt install chromium chromium-driver"),
    (r"tshark", "tshark", "apt install tshark"),
    (r"\bnode\b", "Node.js", "apt install nodejs"),
    (r"FRR", "FRR", "apt install frr (10.3 or newer)"),
    (r"ns-3|libns3|g\+\+", "ns-3", "apt install g++ libns3-dev"),
    (r"C compiler", "a C compiler", "apt install gcc"),
    (r"iperf3", "iperf3", "apt install iperf3"),
    (r"\bping is\b", "ping", "apt install iputils-ping"),
    (r"p4runtime-shell", "p4runtime-shell", "a connection to a package index"),
    (r"\bray\b|Ray", "Ray", f"{_PIP} -e '.[ray]'"),
    (r"pynng", "pynng", f"{_PIP} -e '.[nanomsg]'"),
    (r"matplotlib", "matplotlib", f"{_PIP} -e '.[plot]'"),
    (r"scapy", "Scapy", f"{_PIP} -e '.[dev]'"),
    (r"NUMBA_DISABLE_JIT", "native code", "unset NUMBA_DISABLE_JIT"),
    (r"root|another user", "root", "run the tests as root"),
    (r"seg6local|namespace|veth|net/tun|`\w+` on PATH|`ip`", "the kernel's interfaces", "apt install iproute2 "
     "util-linux; a kernel with veth, tun, seg6local"),
)  # fmt: skip
"""(what a reason has in it, what is lacking, what provides it); the first that fits counts"""


def need(reason: str) -> tuple[str, str]:
    """What a test lacks by the reason that it was skipped for, and what provides it; empty: nothing would."""
    for pattern, what, remedy in NEEDS:
        if match := re.search(pattern, reason):
            return match.expand(what), remedy
    return reason, ""


def skip_lines(reasons: Iterable[str]) -> Iterator[str]:
    """A line for each thing that is lacking, with the most frequent first."""
    for (what, remedy), count in Counter(map(need, reasons)).most_common():
        yield f"{count:5} {what}{remedy and f': {remedy}'}"
