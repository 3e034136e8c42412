# SPDX-License-Identifier: Apache-2.0
"""One test a check: `pytest -p detour.control.conformance.pytest_plugin --p4runtime ADDR`.

The tests are collected beside whatever else pytest is given. `differs` is an expected failure, `not_offered` and
`unspecified` are skips."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from detour.control.conformance.checks import all_checks
from detour.control.conformance.link import RpcLink
from detour.control.conformance.model import ConformanceCheck, ConformanceVerdict, ServerUnderTest
from detour.control.conformance.report import details
from detour.control.conformance.run import opened, run_check
from detour.control.conformance.session import CheckSession

_SESSION = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("p4runtime")
    group.addoption("--p4runtime", metavar="ADDR", help="check the P4Runtime server at this address")
    group.addoption("--p4runtime-device", type=int, default=1, metavar="N", help="its device (1)")
    group.addoption("--p4runtime-section", action="append", metavar="S", help="only a section, like 9.1")


class P4RuntimeChecks(pytest.Collector):
    """All checks of the suite that were asked for."""

    def collect(self) -> Iterator[pytest.Item]:
        for check in all_checks(self.config.getoption("--p4runtime-section")):
            yield P4RuntimeCheck.from_parent(self, name=check.id, check=check)


class P4RuntimeCheck(pytest.Item):
    """One check."""

    def __init__(self, *, check: ConformanceCheck, **more: Any) -> None:
        super().__init__(**more)
        self.check = check

    def runtest(self) -> None:
        result = run_check(_session(self.config), self.check)
        if result.verdict is ConformanceVerdict.NOT_OFFERED:
            pytest.skip(result.got.splitlines()[-1])
        if result.verdict is ConformanceVerdict.UNSPECIFIED:
            pytest.skip(f"unspecified: {result.requirement} ({result.quote})")
        if result.verdict is ConformanceVerdict.DIFFERS:
            pytest.xfail(result.requirement)
        if result.verdict is ConformanceVerdict.FAIL:
            pytest.fail(details(result), pytrace=False)

    def reportinfo(self) -> tuple[Any, int, str]:
        return self.path, 0, f"P4Runtime {self.check.section}: {self.check.requirement}"


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--p4runtime"):
        items.extend(P4RuntimeChecks.from_parent(session, name="p4runtime", nodeid="p4runtime").collect())


def _session(config: pytest.Config) -> CheckSession:
    """The server is opened by the first test."""
    if _SESSION not in config.stash:
        device_id = int(config.getoption("--p4runtime-device") or 1)
        server = ServerUnderTest(str(config.getoption("--p4runtime")), device_id)
        stack, link = ExitStack(), RpcLink(server.address)
        stack.callback(link.close)
        config.stash[_SESSION], _ = stack.enter_context(opened(link, server))
        config.add_cleanup(stack.close)
    return config.stash[_SESSION]
