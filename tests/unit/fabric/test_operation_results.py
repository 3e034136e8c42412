# SPDX-License-Identifier: Apache-2.0
"""What operations answer, as JSON: the same keys and types of values as scripts have always found there.

`python -m tests.unit.fabric.test_operation_results` records them anew, for a key that was added on purpose.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.base.records import as_json
from detour.fabric.backends import targets
from detour.fabric.daemon.daemon import UpOptions, boot
from detour.fabric.operations.session import Session
from tests.waiting import PATIENCE_S, until

RECORDED = Path(__file__).with_name("operation_results.json")
DRAGONFLY, LEAVES = "dragonfly:p=1,a=2,h=1", "leaf-spine:leaves=3,spines=3,hosts=2"
ENDLESS = 10**12
_NAME = re.compile(r"[sh]?\d+")
_MAPPINGS = ("verdicts",)


def keys(value: Any, parent: str = "") -> Any:
    """The keys in a document; of a list the kinds of elements that it has. Names of switches and the like are `*`."""
    if isinstance(value, dict):
        named = {"*" if _NAME.fullmatch(k) or parent in _MAPPINGS else k: keys(v, k) for k, v in value.items()}
        return dict(sorted(named.items()))
    if isinstance(value, list):
        kinds = {json.dumps(keys(element)) for element in value}
        return [json.loads(kind) for kind in sorted(kinds)]
    return "."


def types(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """(place in a document, type of what is there)."""
    if isinstance(value, dict):
        for key, element in value.items():
            yield from types(element, f"{place}.{'*' if _NAME.fullmatch(key) else key}")
    elif isinstance(value, list):
        for element in value:
            yield from types(element, f"{place}[]")
    else:
        yield place, type(value).__name__


def asked_of_a_dragonfly(session: Session) -> Iterator[tuple[str, Any]]:
    """Answers of a fabric without a placement."""
    yield "status", session.status()
    yield "provision", session.provision()
    yield "verify", session.verify()
    yield "entries", session.entries()
    yield "send", session.send("h0", "h5", 20_000)
    yield "counters", session.counters()
    yield "watch", session.watch(0.05)
    yield "path", session.path("h0", "h5", usid="s1,s3")
    yield "probe", session.probe("h0", "h5")
    yield "flows", session.flows()
    yield "placement", session.placement()
    yield "metrics", session.metrics()
    yield "fail", session.fail("s0-s1")
    yield "status with a failure", session.status()
    yield "heal", session.heal()
    yield "impair", session.impair("s0-s1", rate=0.5, loss=0.01)
    yield "impair no more", session.impair(clear=True)


def asked_while_flows_are_placed(session: Session, folder: Path) -> Iterator[tuple[str, Any]]:
    """Answers of one with a placement, and a flow that sends."""
    jobs = folder / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [{"name": "a", "collective": "ring-all-reduce", "hosts": "all"}]}))
    yield "place", session.place(str(jobs))
    yield "placement of flows", session.placement()
    cancelled = threading.Event()

    def send() -> None:
        with contextlib.suppress(DetourError):
            session.send("h1", "h2", ENDLESS, cancelled=cancelled)

    sender = threading.Thread(target=send)
    sender.start()
    until(session.live.all)
    yield "watch_flows", session.watch_flows(True)
    yield "flows that send", session.flows()
    yield "metrics of flows", session.metrics()
    yield "reroute", session.reroute("h1-h2", "s4")
    yield "fail with a placement", session.fail("s3")
    yield "heal with a placement", session.heal()
    cancelled.set()
    sender.join(PATIENCE_S)


def printed(*arguments: str) -> Any:
    """What a command prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert cli.main([*arguments, "--json"]) == 0
    return json.loads(text.getvalue())


def commanded(folder: Path) -> Iterator[tuple[str, Any]]:
    """What commands print that add something of their own."""
    place = ["place", str(folder / "jobs.json"), "--topo", LEAVES, "--seeds", "3"]
    yield "detour place", printed(*place)
    short = replace(targets.ENGINE, demo_seconds=(0.3, 0.3))
    with mock.patch.object(targets, "ENGINE", short):
        yield "detour demo", printed("demo", "--target", "engine", "--topo", DRAGONFLY)
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    try:
        yield "detour up", printed("up", "--detach", "--target", "engine", "--topo", DRAGONFLY)
        yield "detour status", printed("status")
        yield "detour metrics", printed("metrics")
        yield "detour down", printed("down")
    finally:
        cli.main(["down", "--json"])
        os.environ.pop("XDG_RUNTIME_DIR") if before is None else os.environ.update(XDG_RUNTIME_DIR=before)


def answers(folder: Path) -> dict[str, Any]:
    """All of them, in JSON."""
    collected: dict[str, Any] = {}
    for topology in (DRAGONFLY, LEAVES):
        with boot(UpOptions("engine", topology)) as session:
            asked = (
                asked_of_a_dragonfly(session)
                if topology == DRAGONFLY
                else asked_while_flows_are_placed(session, folder)
            )
            collected |= {name: json.loads(json.dumps(as_json(answer))) for name, answer in asked}
    return collected | dict(commanded(folder))


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return answers(tmp_path_factory.mktemp("answers"))


@pytest.mark.parametrize("name", json.loads(RECORDED.read_text()) if RECORDED.exists() else [])
def test_answers_have_the_keys_that_they_always_had(now: dict[str, Any], name: str) -> None:
    recorded = json.loads(RECORDED.read_text())[name]
    assert keys(now[name]) == recorded["keys"]
    wrong = [(at, kind) for at, kind in types(now[name]) if kind not in ("NoneType", *recorded["types"].get(at, ()))]
    assert not wrong


def record() -> None:
    """Writes down what is answered now."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        collected = answers(Path(folder))
    document = {}
    for name, answer in collected.items():
        kinds: dict[str, set[str]] = {}
        for at, kind in types(answer):
            kinds.setdefault(at, set()).add(kind)
        document[name] = {
            "keys": keys(answer),
            "types": {at: sorted(seen) for at, seen in sorted(kinds.items())},
        }
    RECORDED.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    record()
