# SPDX-License-Identifier: Apache-2.0
"""Whatever is replaced at run time, no native code of an earlier state runs: not from the cache, not from memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.base.native_script import told

pytestmark = pytest.mark.timeout(1800)  # it compiles, on a machine that may be busy


def test_a_hook_that_is_replaced_before_its_first_use(tmp_path: Path) -> None:
    """Every run finds the native code of all earlier ones in the cache, and uses it where it is right."""
    assert told("print(cwnd(), hits())", tmp_path) == ["11.0 0"]
    assert told("dctcp.on_acked = seventy_seven; print(cwnd(), hits())", tmp_path) == ["77.0 0"]
    assert told("dctcp.on_acked = eighty_eight; print(cwnd(), hits())", tmp_path) == ["88.0 0"]
    assert told("dctcp.on_acked = seventy_seven; print(cwnd(), hits())", tmp_path) == ["77.0 1"]
    assert told("print(cwnd(), hits())", tmp_path) == ["11.0 1"]


def test_a_hook_that_is_replaced_after_its_first_use(tmp_path: Path) -> None:
    script = """
print(cwnd())
for hook in (seventy_seven, eighty_eight, original, seventy_seven, original):
    dctcp.on_acked = hook
    print(cwnd())
"""
    expected = ["11.0", "77.0", "88.0", "11.0", "77.0", "11.0"]
    assert told(script, tmp_path) == expected
    assert told(script, tmp_path) == expected  # now all of them come from the cache


def test_a_constant_that_is_replaced(tmp_path: Path) -> None:
    """A module's number is frozen into native code."""
    assert told("print(cwnd())", tmp_path) == ["11.0"]
    swapped = """
real = cc.CC_DCTCP
def with_dctcp_being(number):
    cc.CC_DCTCP = number
    q = hosts.qp[0]
    q["cc"], q["cwnd"], q["ssthresh"], q["inflight"], q["dctcp_hold"], q["dctcp_end"] = 1, 10.0, np.inf, 10, 0, 100
    cc.on_acked(hosts.cfg[0], q, 1000, 5, False, 0)
    return float(hosts.qp[0]["cwnd"])
"""
    assert told(swapped + "print(with_dctcp_being(5))", tmp_path) == ["10.0"]
    assert told(swapped + "print(with_dctcp_being(1), with_dctcp_being(5), with_dctcp_being(1))", tmp_path) == [
        "11.0 10.0 11.0"
    ]


def test_what_is_replaced_behind_the_module_s_back_before_it_is_loaded(tmp_path: Path) -> None:
    """Writing to a module's dictionary runs no code of the module."""
    assert told("print(cwnd())", tmp_path) == ["11.0"]
    assert told("vars(dctcp)['on_acked'] = seventy_seven; print(cwnd())", tmp_path) == ["77.0"]


def test_a_plain_function_in_place_of_a_native_one(tmp_path: Path) -> None:
    script = """
from detour.base.errors import DetourError
def plain(cfg, q, nbytes, txn, empty):
    q["cwnd"] = 77.0
dctcp.on_acked = plain
try:
    print(cwnd())
except DetourError as error:
    print(error)
dctcp.on_acked = original
print(cwnd())
"""
    assert told("print(cwnd())", tmp_path) == ["11.0"]
    error, after = told(script, tmp_path)
    assert "plain" in error
    assert "detour.hosts.cc.on_acked" in error
    assert "njit" in error
    assert after == "11.0"


def test_a_hook_made_with_numba_itself(tmp_path: Path) -> None:
    """Its own cache would be keyed on its own file only."""
    (tmp_path / "mine.py").write_text(
        "import numba\nSTEP = 5.0\n"
        "@numba.njit(cache=True)\ndef hook(cfg, q, nbytes, txn, empty):\n    q['cwnd'] += STEP\n"
    )
    script = f"""
sys.path.insert(0, {str(tmp_path)!r})
import mine
dctcp.on_acked = mine.hook
print(cwnd())
mine.STEP = 7.0
print(cwnd())
"""
    assert told(script, tmp_path) == ["15.0", "17.0"]
    assert told(script.replace("mine\ndct", "mine\nmine.STEP = 6.0\ndct"), tmp_path) == ["16.0", "17.0"]
