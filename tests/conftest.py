# SPDX-License-Identifier: Apache-2.0
"""What cannot run here is skipped, and says why. Examples of hypothesis are the same in every run."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from detour.base.cores import PROCESSES, cores
from detour.base.garbage import keep_all
from detour.cli import main, output
from detour.engine.compiler.covering import Collector
from detour.engine.coverage.document import CoverageDocument, document_of
from detour.fabric.backends.bmv2.switch import missing
from tests.skipped import skip_lines
from tests.waiting import PATIENCE_S

hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("repeatable")

_HOME_OF_FABRICS = "XDG_RUNTIME_DIR"


_SHARING_NOTHING = ("tests/unit/test_shown_commands.py",)
"""files whose tests each take seconds, in processes of their own"""

pytest_plugins = ["pytester"]
COLLECTED = pytest.StashKey[Collector]()


@pytest.fixture(autouse=True)
def _nobody_is_told_that_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints does not depend on how fast the machine is."""
    monkeypatch.setattr(output, "_WAIT_S", PATIENCE_S)


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The file with a module's `OWN`: code of a user's own."""
    (tmp_path / "own.py").write_text(request.module.OWN)
    return str(tmp_path / "own.py")


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command line that succeeds; what `--json` prints."""

    def run(*arguments: object) -> Any:
        capsys.readouterr()
        assert main([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command line that is refused; the line that says why."""

    def run(*arguments: object) -> str:
        capsys.readouterr()
        assert main([*map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), err
        assert err.startswith("detour: ")
        return err

    return run


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--coverage`, which tests/ptf uses."""
    text = "write what the packet tests on the engine reach of the P4 programs (docs/coverage.md)"
    parser.addoption("--coverage", metavar="FILE", type=Path, help=text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Writes the counters to a file: each worker to its own, then their parent all of them to one."""
    file, collector = session.config.getoption("--coverage"), session.config.stash.get(COLLECTED, None)
    if file is None:
        return
    if collector is not None:
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        document_of(collector).write(file.with_suffix(f".{worker}") if worker else file)
    elif parts := _coverage_of_workers(file):
        CoverageDocument.read(parts).write(file)


def _coverage_of_workers(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.stem}.gw*"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are processors: for a third of its time a test waits for others."""
    return cores() * 3 // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`: files whose tests share nothing are not kept on one worker, which would be the last to
    end."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return nodeid if file in _SHARING_NOTHING else file

    return Scheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Fabrics and labs that this user has up are neither seen nor touched by tests. And a shell starts what it puts
    into the background with SIGINT ignored, and all its children inherit that; here some are to be interrupted. Workers
    share the cores."""
    os.environ[_HOME_OF_FABRICS] = tempfile.mkdtemp(prefix="detour-tests-")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
        PROCESSES.value = int(workers)
    if (file := config.getoption("--coverage")) is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        for part in _coverage_of_workers(file):
            part.unlink()


def pytest_unconfigure() -> None:
    """What was made for fabrics of tests goes."""
    shutil.rmtree(os.environ[_HOME_OF_FABRICS], ignore_errors=True)


def pytest_collection_finish() -> None:
    """The garbage collector does not look at thousands of tests and their modules whenever a fabric is built, and
    seldom at what is new: fabrics that are over say so (`garbage.leave_cycles`)."""
    keep_all()
    gc.set_threshold(10_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """The collector does not look at the modules and caches that a file's tests leave behind: each fabric that is over
    asks for a full collection, which took a sixth of the time of such tests. Not after each test: fabrics that a file's
    tests share would stay in memory for ever."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        keep_all()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """The last lines say what was skipped for want of what, and what provides it; `-rs` lists each test."""
    yield
    if _without_long(terminalreporter.config):
        terminalreporter.line("tests marked long were left out: make test-long")
    if skipped := terminalreporter.stats.get("skipped"):
        terminalreporter.section(f"{len(skipped)} skipped for want of")
        for line in skip_lines(report.longrepr[2].removeprefix("Skipped: ") for report in skipped):
            terminalreporter.line(line)


def _without_interfaces() -> str | None:
    """Why no interfaces can be made here; None: they can."""
    if os.geteuid() != 0:
        return "needs root"
    probe = ["unshare", "--net", "ip", "link", "add", "name", "a", "type", "veth", "peer", "name", "b"]
    return None if subprocess.run(probe, capture_output=True, check=False).returncode == 0 else "needs veth"


def _without_long(config: pytest.Config) -> bool:
    return "long" not in config.option.markexpr


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `long` run only where `-m` names them. Tests marked `bmv2` need simple_switch_grpc and root; those
    marked `kernel` need root and interfaces. Files with slow tests come first, then those with many: at the end workers
    have short ones to share."""
    marks = {item: {mark.name for mark in item.iter_markers()} for item in items}
    if _without_long(config):
        config.hook.pytest_deselected(items=[item for item in items if "long" in marks[item]])
        items[:] = [item for item in items if "long" not in marks[item]]
    slow = {item.path for item in items if "slow" in marks[item]}
    counts = Counter(item.path for item in items)
    place = {path: (path not in slow, -count, path) for path, count in counts.items()}
    items.sort(key=lambda item: place[item.path])
    reasons = {"bmv2": missing(), "kernel": _without_interfaces()}
    for item in items:
        for marker, reason in reasons.items():
            if reason and marker in marks[item]:
                item.add_marker(pytest.mark.skip(reason=reason))
