# SPDX-License-Identifier: Apache-2.0
"""Congestion control that is plugged in: what hooks are told, that none that is replaced runs on, and the examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.base.jit import COMPILED
from detour.hosts.cc import algorithm, pinned
from detour.hosts.cc import control as native_control
from detour.hosts.state import Hosts
from tests.native import FromPython, control_state, controlled
from tests.unit.base.native_script import output_lines

cc = FromPython(native_control)
EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"

OWN = """
from dataclasses import dataclass
from detour.hosts.cc.plugin import CongestionAlgorithm, hook

@dataclass(frozen=True)
class Parameters:
    step: float = 1.0
    times: int = 2

@hook
def on_acked(p, s, q, packet, now):
    q.cwnd = 77.0
    s.seen += packet.bytes
    s.share = packet.rtt / 2

MINE = CongestionAlgorithm(Parameters(), {"seen": int, "share": float}, (on_acked,))
number = 7
"""


def acked(hosts: Hosts, row: int = 0, now: int = 0, **packet: Any) -> float:
    """The window after an acknowledged packet of which an answer says that."""
    frame = hosts.frame[0]
    for name in ("delay", "has_delay", "ce", "hops"):
        frame[name] = packet.get(name, 0)
    cc.tell(hosts.cfg[0], hosts.qp[row], frame, "rtt" in packet, packet.get("rtt", 0))
    cc.on_acked(hosts.qp[row], 1000, packet.get("txn", 5), False, now)
    return float(hosts.qp[row]["cwnd"])


def fields_of(hosts: Hosts, row: int = 0) -> Any:
    return control_state(hosts)[row]


def test_a_hook_is_told_of_the_packet_and_keeps_fields_of_its_own(own: str) -> None:
    hosts = controlled(algorithm(f"{own}:MINE"), 10.0, rows=2)
    assert hosts.qp["cwnd"].tolist() == [10.0, 10.0]
    assert acked(hosts, 1, rtt=8, has_delay=1, delay=3, ce=1, hops=4) == 77.0
    assert (fields_of(hosts, 1)["seen"], fields_of(hosts, 1)["share"]) == (1000, 4.0)
    packet = fields_of(hosts, 1)["packet"]
    assert [packet[name] for name in ("bytes", "txn", "rtt", "delay", "hops", "marked")] == [1000, 5, 8, 3000, 4, 1]
    assert fields_of(hosts, 0)["seen"] == 0
    acked(hosts, 0)
    assert [fields_of(hosts)["packet"][name] for name in ("rtt", "delay", "hops", "marked")] == [-1, -1, -1, 0]


def test_a_file_that_has_changed_is_another_algorithm(own: str) -> None:
    assert acked(controlled(algorithm(f"{own}:MINE"), 10.0)) == 77.0
    text = pinned(f"{own}:MINE:times=3")
    Path(own).write_text(OWN.replace("77", "88"))
    assert acked(controlled(algorithm(f"{own}:MINE"), 10.0)) == 88.0
    with pytest.raises(DetourError, match="has changed since"):
        algorithm(text)


def test_native_code_on_disk_is_that_of_the_source(own: str, tmp_path: Path) -> None:
    """Every process finds what all earlier ones compiled, and uses it where it is right."""
    script = f"""
import sys
from detour.hosts.cc import algorithm, control
from detour.hosts.state import make_hosts
from detour.hosts.verbs import algorithms
import numpy as np
hosts = make_hosts(1, 1, 64, window=64, sq_depth=1, cq_depth=1, max_candidates=1)
algorithms.give(hosts, np.arange(1), algorithm({own!r} + ":MINE"))
loaded = int("numba" not in sys.modules)
from tests.native import from_python
from_python(control.on_acked)(hosts.qp[0], 1000, 5, False, 0)
print(float(hosts.qp[0]["cwnd"]), loaded)
"""
    assert output_lines(script, tmp_path) == ["77.0 0"]
    Path(own).write_text(OWN.replace("77", "88"))
    assert output_lines(script, tmp_path) == ["88.0 0"]
    assert output_lines(script, tmp_path) == ["88.0 1"]
    Path(own).write_text(OWN)
    assert output_lines(script, tmp_path) == ["77.0 1"]


def test_native_code_on_disk_is_that_of_the_sender_and_of_computed_constants(own: str, tmp_path: Path) -> None:
    """A hook is compiled for queue pairs and for TCP's connections, whose fields lie elsewhere."""
    Path(own).write_text(
        OWN.replace("77.0", "FIXED").replace(
            "@dataclass", "import os\nFIXED = float(os.environ['FIXED'])\n@dataclass", 1
        )
    )
    script = f"""
import os, sys
os.environ["FIXED"] = {{fixed!r}}
from detour.hosts.cc import algorithm, plugin
from detour.hosts.plugins import Bound
from detour.hosts.ip.tcp.layout import ConnRecord
from detour.hosts.records import QueuePair
import numpy as np
chosen = algorithm({own!r} + ":MINE")
import ctypes
for sender in (QueuePair.dtype, ConnRecord.dtype):
    bound = Bound(chosen, chosen.parameter_record(lambda name: 0), plugin.entry_of, sender)
    q, row = np.zeros(1, sender), np.zeros(1, chosen.row)
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(int(bound.table[4]))
    row["table"] = bound.table.ctypes.data
    call(row.ctypes.data, q.ctypes.data, 0, 0)
    print(float(q["cwnd"][0]), np.count_nonzero(q.view(np.uint8)) <= 8)
print(int("numba" not in sys.modules))
"""
    assert output_lines(script.format(fixed="55.0"), tmp_path) == ["55.0 True", "55.0 True", "0"]
    assert output_lines(script.format(fixed="55.0"), tmp_path) == ["55.0 True", "55.0 True", "1"]
    assert output_lines(script.format(fixed="66.0"), tmp_path) == ["66.0 True", "66.0 True", "0"]


def test_parameters_are_given_behind_the_name(own: str) -> None:
    chosen = algorithm(f"{own}:MINE:step=3,times=4")
    assert (chosen.parameters.step, chosen.parameters.times) == (3.0, 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("MINE:stp=3", "there is no parameter stp; allowed: step, times"),
        ("MINE:times=2.5", "times is a whole number, not 2.5"),
        ("MINE:step=fast", "step is a number, not 'fast'"),
        ("number", "is a int, and not a CongestionAlgorithm"),
    ],
)
def test_what_names_no_algorithm_is_one_line(own: str, text: str, reason: str) -> None:
    with pytest.raises(DetourError, match=reason) as caught:
        algorithm(f"{own}:{text}")
    assert "\n" not in str(caught.value)


def test_names_of_those_that_are_built_in() -> None:
    assert [algorithm(name).name for name in ("fixed", "dctcp", "DCQCN")] == ["fixed", "dctcp", "dcqcn"]
    with pytest.raises(DetourError, match="there is no parameter g; allowed: dctcp_g, empty_gain"):
        algorithm("dctcp:g=1")


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("(on_acked,)", "(on_akced,)", "name 'on_akced' is not defined"),
        ('"seen": int', '"packet": int', "the field packet is of"),
        ("(on_acked,)", "()", "expected at least one hook"),
        ("(on_acked,)", "(print,)", "print is not a hook; there are on_path"),
        ("Parameters()", "3", "parameters are an instance of a dataclass"),
        ("= 1.0", "= 'x'", "the parameter step is not a number"),
    ],
)
def test_a_wrong_algorithm_is_one_line(tmp_path: Path, before: str, after: str, reason: str) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(OWN.replace(before, after))
    with pytest.raises(DetourError, match=reason) as caught:
        algorithm(f"{path}:MINE")
    assert "\n" not in str(caught.value)


MISTAKES = [
    ("q.cwnd = 77.0", "q.cwmd = 77.0", "there is no field cwmd; there are cwnd, "),
    ("s.seen +=", "s.sene +=", "there is no field sene; there are seen, "),
    ("q.cwnd = 77.0", "q.cwnd = 'much'", "Cannot cast Literal"),
    ("q.cwnd = 77.0", "q.cwnd = plain(7.0)", "Untyped global name 'plain'"),
    ("q.cwnd = 77.0", "q.cwnd = helper(p)", "there is no field stpe; there are step, ", 20),
    ("q.cwnd = 77.0", "q.cwnd = absent", "there is no absent"),
    ("q.cwnd = 77.0", "assert q.cwnd > 0", "a hook cannot raise errors or assert: it is native code"),
    ("packet, now):", "packet):", "on_acked takes p, s, q, packet; a hook takes p, s, q, packet, now", 10),
]
HELPERS = """
def plain(x):
    return x
@hook
def helper(p):
    return p.stpe
"""


@pytest.mark.skipif(not COMPILED, reason="NUMBA_DISABLE_JIT is set")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_hook_is_told_with_its_line(tmp_path: Path, mistake: tuple[Any, ...]) -> None:
    before, after, reason, *line = mistake
    lines = OWN.replace(before, after).splitlines()
    path = tmp_path / "own.py"
    path.write_text("\n".join([*lines[:14], *HELPERS.splitlines(), *lines[14:]]))
    wrong = line[0] if line else next(i for i, text in enumerate(lines, 1) if after in text)
    with pytest.raises(DetourError, match=reason) as caught:
        controlled(algorithm(f"{path}:MINE"), 10.0)
    assert str(caught.value).startswith(f"{path}:{wrong}: ")
    assert "\n" not in str(caught.value)


def test_as_python_a_hook_is_blamed_too(tmp_path: Path) -> None:
    """What is called by address raises what is raised in it."""
    path = tmp_path / "own.py"
    path.write_text(OWN.replace("on_acked", "on_sent").replace("q.cwnd = 77.0", "q.cwmd = 77.0"))
    run = [sys.executable, "-m", "detour.cli", "sim", "--topo", "leaf-spine:leaves=1,spines=1,hosts=2"]
    run += ["--workload", "permutation:bytes=1k", "--cc", f"{path}:MINE"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"detour: {path}:12: AttributeError: there is no field cwmd; there are cwnd, " in done.stderr


def test_a_hook_without_the_mark_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text(OWN.replace("@hook\n", ""))
    with pytest.raises(DetourError, match="on_acked is a plain Python function: decorate it with @hook"):
        controlled(algorithm(f"{path}:MINE"), 10.0)


US = 1_000_000


def test_swift_aims_at_its_delay() -> None:
    hosts = controlled(algorithm(f"{EXAMPLES}/swift.py:SWIFT:fs_range_us=0"), 10.0)
    assert acked(hosts, now=50 * US, rtt=17 * US, has_delay=1, hops=4) == pytest.approx(10.1)  # 14 + 4 us: below
    after = 10.1 * (1 - 0.8 * (24 - 18) / 24)
    assert acked(hosts, now=100 * US, rtt=24 * US, has_delay=1, hops=4) == pytest.approx(after)
    assert acked(hosts, now=110 * US, rtt=24 * US, has_delay=1, hops=4) == pytest.approx(after)  # once a round trip
    assert acked(hosts, now=600 * US, rtt=400 * US, has_delay=1, hops=4) == pytest.approx(after / 2)  # max_mdf


def test_swift_paces_windows_below_a_packet() -> None:
    hosts = controlled(algorithm(f"{EXAMPLES}/swift.py:SWIFT"), 10.0)
    now = 0
    for _ in range(8):
        now += 1000 * US
        acked(hosts, now=now, rtt=900 * US, has_delay=1, hops=2)
    q, window = hosts.qp[0], float(fields_of(hosts)["window"])
    assert window < 0.1
    assert q["cwnd"] == 1
    cc.on_sent(q, 1100, 9, now)
    assert q["pace_next"] == now + int(900 * US / window)


def test_hpcc_follows_the_use_of_the_path() -> None:
    hosts = controlled(algorithm(f"{EXAMPLES}/hpcc_delay.py:HPCC_DELAY"), 10.0)
    row, now = hosts.qp[0], 0
    windows = []
    for queue in (0, 0, 0, 12_000, 12_000):  # ns; the round trip is 12 us
        now += 100 * US
        row["next_txn"] = now
        windows.append(acked(hosts, now=now, txn=now, rtt=12 * US + queue * 1000, has_delay=1, delay=queue))
    assert windows[:3] == pytest.approx([10.5, 11.0, 11.5])
    assert windows[3] == pytest.approx(11.5 / (2 / 0.95) + 0.5)
    assert windows[4] == pytest.approx(windows[3] / (2 / 0.95) + 0.5)
