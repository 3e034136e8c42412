# SPDX-License-Identifier: Apache-2.0
"""What `flight` is told and what it tells: a record that the parent reads too. No native code in here."""

from __future__ import annotations

import numpy as np

JOB = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("parse", "ingress", "egress", "deparse", "preserve", "digest", "state"),
            *("phv_size", "max_headers", "max_digest", "capacity", "rear", "errors"),
            # addresses
            *("packets", "phv", "other", "out", "digest_out", "spare", "compose"),
            # what the parent reads after a crash
            *("index", "length", "port", "time", "pass_", "stage"),
            # what happened
            *("parsed", "parser_errors", "faults", "dropped", "sent", "clones", "again", "digests", "octets", "paths"),
        )
    ]
)

RULES = {
    1: "the parser consumed more bytes than the packet has",
    2: "the parser's error is none of the program's errors",
    3: "a validity byte is neither 0 nor 1",
    4: "a stack's next is beyond its end",
    5: "a variable-length field is longer than it may be",
    6: "deparse wrote less than nothing or more headers than max_header_bytes",
    7: "digest wrote less than nothing or more than max_digest_bytes",
}
STAGES = ("mutation", "parse", "ingress", "digest", "preserve", "egress", "deparse")
SEED_BYTES = 512
"""Longest packet that mutations begin with."""
PATHS = 1 << 16
