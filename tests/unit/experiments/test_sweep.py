# SPDX-License-Identifier: Apache-2.0
"""Sweeps keep what is finished, report what failed, and do not depend on the number of processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.base.records import decoder
from detour.experiments import sweep
from detour.experiments.store import Store
from tests.unit.experiments.sweep_workers import Side, Square, area
from tests.waiting import PATIENCE_S, until

WORKER = "tests.unit.experiments.sweep_workers:square"


def points(log, count=6, **extra):
    return [{"x": x, "log": str(log)} | extra for x in range(count)]


@pytest.mark.parametrize("processes", [1, 3])
def test_kept_come_in_order(tmp_path, processes):
    seen = []
    outcome = sweep.run(
        points(tmp_path / "log"),
        WORKER,
        Store(None, "v"),
        processes=processes,
        report=lambda *state: seen.append(state),
    )
    assert [result and result["square"] for result in outcome.results] == [0, 1, 4, 9, 16, 25]
    assert seen[0] == (0, 0, 6)
    assert seen[-1] == (6, 0, 6)


def test_equal_points_run_once(tmp_path):
    log = tmp_path / "log"
    outcome = sweep.run(points(log, 2) * 3, WORKER, Store(None, "v"))
    assert len(outcome.results) == 6
    assert sorted(log.read_text().split()) == ["0", "1"]


def test_failed_points_do_not_take_the_others_along(tmp_path):
    work = points(tmp_path / "log")
    work[1]["fail"] = True
    work[3]["crash"] = True
    outcome = sweep.run(work, WORKER, Store(tmp_path / "store", "v"), processes=2)
    assert [result and result["square"] for result in outcome.results] == [0, None, 4, None, 16, 25]
    reasons = {failure.point["x"]: failure.reason for failure in outcome.failures}
    assert reasons[1] == "ValueError: cannot square 1"
    assert "process died" in reasons[3]


def test_finished_points_are_not_run_again(tmp_path):
    log, path = tmp_path / "log", tmp_path / "store"
    sweep.run(points(log, 3), WORKER, Store(path, "v"))
    outcome = sweep.run(points(log, 5), WORKER, Store(path, "v"))
    assert outcome.computed == 2
    assert sorted(log.read_text().split()) == ["0", "1", "2", "3", "4"]


def test_points_and_kept_are_records(tmp_path):
    sides, path = [Side(2.0), Side(-1.0), Side(3.0)], tmp_path / "store"
    outcome = sweep.run(sides, sweep.name_of(area), Store(path, "v", decoder(Square)), processes=2)
    assert outcome.results == [area(sides[0]), None, area(sides[2])]
    assert [failure.point for failure in outcome.failures] == [Side(-1.0)]
    kept = Store(path, "v", decoder(Square))
    assert [kept.get(side) for side in sides] == outcome.results
    record = json.loads(path.read_text().splitlines()[0])
    assert record["point"].keys() == {"length_m"}
    assert record["result"].keys() == {"area_m2", "corners"}


def test_other_sources_invalidate(tmp_path):
    log, path = tmp_path / "log", tmp_path / "store"
    sweep.run(points(log, 3), WORKER, Store(path, "old"))
    assert sweep.run(points(log, 3), WORKER, Store(path, "new")).computed == 3


def test_resumes_after_a_kill(tmp_path):
    log, path = tmp_path / "log", tmp_path / "store"
    work = points(log, 40, seconds=0.05)
    (tmp_path / "points.json").write_text(json.dumps(work))
    script = (
        "import json,sys; from detour.experiments import sweep; from detour.experiments.store import Store\n"
        "from pathlib import Path\n"
        "if __name__ == '__main__':\n"
        " print('ready', flush=True)\n"
        f" sweep.run(json.load(open(sys.argv[1])), {WORKER!r}, Store(Path(sys.argv[2]), 'v'))\n"
    )
    (tmp_path / "main.py").write_text(script)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    process = subprocess.Popen([sys.executable, tmp_path / "main.py", tmp_path / "points.json", path], env=env)
    while not path.exists() or path.read_bytes().count(b"\n") < 5:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(Store(path, "v")._kept)
    outcome = sweep.run(work, WORKER, Store(path, "v"), processes=2)
    assert kept >= 5
    assert outcome.computed == 40 - kept
    assert [result and result["square"] for result in outcome.results] == [x**2 for x in range(40)]


def test_workers_end_with_a_killed_parent(tmp_path):
    """Also in the middle of a long point. A worker keeps the parent's standard output open while it lives."""
    script = (
        "from detour.experiments import sweep; from detour.experiments.store import Store\n"
        "if __name__ == '__main__':\n"
        f" sweep.run([{{'x': 1, 'log': 'log', 'seconds': 1000}}], {WORKER!r}, Store(None, 'v'))\n"
    )
    (tmp_path / "main.py").write_text(script)
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    with subprocess.Popen([sys.executable, "main.py"], env=env, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        until((tmp_path / "log").exists)
        process.kill()
        assert process.communicate(timeout=PATIENCE_S) == (b"", None)


def test_no_processes_is_refused(tmp_path):
    with pytest.raises(DetourError, match="at least 1 process"):
        sweep.run([], WORKER, Store(None, "v"), processes=0)


def test_an_address_without_a_ray_cluster_is_refused_at_once():
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(DetourError, match="no Ray cluster there"):
            sweep.check_ray_address(f"127.0.0.1:{taken.getsockname()[1]}")


def test_a_ray_cluster_runs_the_points(tmp_path):
    ray = pytest.importorskip("ray", reason="Ray is not installed (extra `ray`)")
    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", logging_level="ERROR")
    try:
        work = points(tmp_path / "log")
        work[1]["fail"] = True
        outcome = sweep.run(work, WORKER, Store(None, "v"), ray="auto")
        assert [result and result["square"] for result in outcome.results] == [0, None, 4, 9, 16, 25]
        assert [failure.point["x"] for failure in outcome.failures] == [1]
        assert "cannot square 1" in outcome.failures[0].reason
    finally:
        ray.shutdown()


def test_an_archive_keeps_what_is_known_of_points(tmp_path: Path) -> None:
    store = Store(tmp_path / "points.jsonl", "v", decoder(Square))
    for length in (1.0, 2.0, 3.0):
        store.add(Side(length), area(Side(length)), 0.1)
    file = tmp_path / "kept.jsonl.xz"
    assert store.archive(file, [Side(1.0), Side(3.0), Side(1.0), Side(9.0)]) == 2
    result = Store.of_archive(file, decoder(Square))
    assert (result.get(Side(3.0)), result.get(Side(2.0))) == (area(Side(3.0)), None)
    later = Store(None, "w", decoder(Square))
    for length in (2.0, 3.0):
        later.add(Side(length), area(Side(10 * length)), 0.1)
    assert later.archive(file, [Side(1.0), Side(2.0), Side(3.0)]) == 3
    result = Store.of_archive(file, decoder(Square))
    assert [result.get(Side(length)) for length in (1.0, 2.0, 3.0)] == [area(Side(a)) for a in (1.0, 20.0, 30.0)]
    for content in (b"no archive", None):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        with pytest.raises(DetourError, match=r"kept\.jsonl\.xz"):
            Store.of_archive(file)
