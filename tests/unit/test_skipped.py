# SPDX-License-Identifier: Apache-2.0
"""The last lines of a run: what tests were skipped for, and what provides it."""

from __future__ import annotations

import pytest

from detour.fabric.backends.bmv2.switch import BINARY, INSTALL
from tests.skipped import need, skip_lines


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        (f"{BINARY} is not on PATH: {INSTALL}", "BMv2"),
        ("p4c-bm2-ss is not on PATH", "p4c"),
        ("p4testgen is not on PATH", "P4Testgen"),
        ("psa_switch is not on PATH", "psa_switch"),
        ("chromium and chromedriver are not on PATH (Debian: chromium, chromium-driver)", "Chromium"),
        ("tshark is not on PATH", "tshark"),
        ("interfaces need root", "root"),
        ("DETOUR_TUTORIALS does not name a checkout of github.com/p4lang/tutorials", "DETOUR_TUTORIALS"),
        ("pynng is not installed: pip install 'detour-fabric[nanomsg]'", "pynng"),
    ],
)
def test_a_reason_names_what_is_lacking(reason: str, what: str) -> None:
    found, remedy = need(reason)
    assert found == what
    assert remedy


def test_reasons_of_one_kind_are_counted_together() -> None:
    reasons = ["tshark is not on PATH", "simple_switch_CLI is not on PATH", f"{BINARY} is not on PATH", "no IPv6"]
    first, *others = skip_lines(reasons)
    assert first.split(":")[0].split() == ["2", "BMv2"]
    assert "    1 no IPv6" in others


def test_the_run_ends_with_them(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_collection_modifyitems, pytest_terminal_summary")
    pytester.makepyfile(
        "import pytest\ndef test_a():\n    pytest.skip('tshark is not on PATH')\n"
        "@pytest.mark.long\ndef test_b():\n    assert False"
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(skipped=1, deselected=1)
    assert "    1 tshark: apt install tshark" in result.outlines[-4:]
    assert "tests marked long were left out: make test-long" in result.outlines
    pytester.runpytest_inprocess("-m", "long").assert_outcomes(failed=1, deselected=1)
