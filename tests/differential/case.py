# SPDX-License-Identifier: Apache-2.0
"""What is run, what came of it, and the golden files that keep both.

A golden file is self-contained: the updates, the frames, and what BMv2 did with them. It stays valid when the
generators change, and is stale when the program's JSON does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from finsy.proto import p4r

from tests.differential.entries import Update
from tests.differential.packets import Frame
from tests.ptf.p4rt import Schema

Canonical = Callable[[Frame, Frame], Frame]
"""Makes of (frame in, frame out) what is compared: frame out without what may differ from run to run."""


@dataclass
class Case:
    """A program, how it is set up, and the frames that go through it, one after the other."""

    name: str
    json: bytes
    schema: Schema
    updates: list[Update]
    frames: list[Frame]
    batch: int = 8
    """Frames that may be in the switch at once: 1 where one frame's state is another one's input."""

    @property
    def digest(self) -> str:
        """Of the program."""
        return hashlib.sha256(self.json).hexdigest()[:16]


@dataclass
class Result:
    """What came of every frame, and what the switch says of itself afterwards."""

    outputs: list[list[Frame]]
    counters: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)


def batch_size(program: dict[str, Any]) -> int:
    """1 for programs with registers or meters, whose order of packets matters."""
    return 1 if program["register_arrays"] or program["meter_arrays"] else 8


def differences(case: Case, expected: Result, got: Result, canonical: Canonical | None = None) -> list[str]:
    """What is different, in words. Frames out of different ports have no order among them."""
    clean = canonical or (lambda _, out: out)
    problems = []
    for number, frame in enumerate(case.frames):
        want = sorted(clean(frame, f) for f in expected.outputs[number])
        have = sorted(clean(frame, f) for f in got.outputs[number])
        if want != have:
            problems.append(
                f"{case.name} frame {number}: {_show([frame])}\n  expected {_show(want)}\n  got      {_show(have)}"
            )
    for what in ("counters", "digests"):
        want, have = getattr(expected, what), getattr(got, what)
        if want != have:
            missing, extra = sorted(set(want) - set(have)), sorted(set(have) - set(want))
            problems.append(
                f"{case.name} {what}: missing {missing[:6]}, unexpected {extra[:6]}, order or number otherwise"
            )
    return problems


def _show(frames: Sequence[Frame]) -> str:
    return ", ".join(f"{port}:{data.hex()}" for port, data in frames) or "nothing"


def _pack(frame: Frame) -> str:
    return f"{frame[0]:x}:{frame[1].hex()}"


def _unpack(text: str) -> Frame:
    port, data = text.split(":")
    return int(port, 16), bytes.fromhex(data)


def save(path: Path, case: Case, result: Result) -> None:
    """Writes a golden file."""
    request = p4r.WriteRequest()
    for kind, entity in case.updates:
        request.updates.add(type=p4r.Update.Type.Value(kind), entity=entity)
    content = {
        "program": case.name,
        "digest": case.digest,
        "batch": case.batch,
        "updates": base64.b64encode(request.SerializeToString(deterministic=True)).decode(),
        "frames": [_pack(f) for f in case.frames],
        "outputs": [" ".join(sorted(map(_pack, frames))) for frames in result.outputs],
        "counters": result.counters,
        "digests": result.digests,
    }
    text = json.dumps(content, indent=0).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text, format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME))


def load(path: Path, json_bytes: bytes, schema: Schema, *, any_build: bool = False) -> tuple[Case, Result]:
    """Reads a golden file; the program comes from elsewhere and must be the one that was recorded, or with `any_build`
    another build of it, which must do the same."""
    content = json.loads(lzma.decompress(path.read_bytes()))
    request = p4r.WriteRequest.FromString(base64.b64decode(content["updates"]))
    updates = [(p4r.Update.Type.Name(u.type), u.entity) for u in request.updates]
    frames = [_unpack(f) for f in content["frames"]]
    case = Case(content["program"], json_bytes, schema, updates, frames, content["batch"])
    assert any_build or case.digest == content["digest"], f"{path.name} was recorded from another build: record it anew"
    outputs = [[_unpack(f) for f in line.split()] for line in content["outputs"]]
    return case, Result(outputs, content["counters"], content["digests"])
