# SPDX-License-Identifier: Apache-2.0
"""A small use of native code in a process of its own, with a cache of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_ACKED = """
import sys
import numpy as np
from detour.base.jit import njit
from detour.hosts import cc
from detour.hosts.cc import dctcp
from detour.base.jit import inner
from detour.hosts.state import make_hosts

hosts = make_hosts(1, 1, 64, window=64, sq_depth=1, cq_depth=1, max_candidates=1)

def cwnd():
    q = hosts.qp[0]
    q["cc"], q["cwnd"], q["ssthresh"], q["inflight"] = cc.CC_DCTCP, 10.0, np.inf, 10
    q["dctcp_hold"], q["dctcp_end"] = 0, 100
    cc.on_acked(hosts.cfg[0], q, 1000, 5, False, 0)
    return float(hosts.qp[0]["cwnd"])

@inner
def seventy_seven(cfg, q, nbytes, txn, empty):
    q["cwnd"] = 77.0

@inner
def eighty_eight(cfg, q, nbytes, txn, empty):
    q["cwnd"] = 88.0

original = dctcp.on_acked
hits = lambda: sum(cc.on_acked.stats.cache_hits.values())
"""


def run(script: str, folder: Path, limits: Any = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script that may call `cwnd()`; `limits` is called in the new process."""
    file = folder / "script.py"
    file.write_text(_ACKED + script)
    return subprocess.run(
        [sys.executable, str(file)],
        env={name: value for name, value in (os.environ | environment).items() if value},
        capture_output=True, text=True, check=False, timeout=1500, preexec_fn=limits,
    )  # fmt: skip


def told(script: str, folder: Path) -> list[str]:
    """The lines that it prints, with the folder as its cache."""
    done = run(script, folder, XDG_CACHE_HOME=str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()
