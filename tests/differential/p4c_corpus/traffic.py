# SPDX-License-Identifier: Apache-2.0
"""The same entries and packets through two JSONs of one program, on the engine."""

from __future__ import annotations

import json
import random
from pathlib import Path

from google.protobuf import text_format
from grpc import RpcError

from detour.base.errors import DetourError
from tests.differential import engine, observe
from tests.differential.case import Case, Result, batch_size, differences
from tests.differential.entries import EntryMaker
from tests.differential.p4c_corpus.ours import Compiled
from tests.differential.p4c_corpus.reference import Reference
from tests.differential.packets import Frame, PacketMaker, Pool
from tests.ptf.p4rt import Schema

FRAMES = 20


def include_folders(source: Path) -> tuple[Path, ...]:
    """Folders near a program that its includes may mean."""
    near = (source.parent, *source.parents[1:3])
    folders = [*near, *(folder / "include" for folder in near)]
    return tuple(folder for folder in folders if folder.is_dir())


class NotCompared(Exception):
    """Why no packets are sent: there is nothing to compare with."""


def compare(theirs: Reference, mine: Compiled, seed: str, frames: int = FRAMES) -> str:
    """Empty if entries and frames made from p4c's files do the same on both; else the first difference."""
    if theirs.leaves_loops:
        raise NotCompared("p4c's JSON runs the bodies of its loops once")
    own_p4info = theirs.folder / "ours.p4info.txtpb"
    own_p4info.write_text(text_format.MessageToString(mine.p4info))
    own_schema = Schema.load(own_p4info)
    schema = Schema.load(theirs.p4info) if theirs.p4info.exists() else own_schema
    text = theirs.json.read_bytes()
    program = json.loads(text)
    rng = random.Random(seed)
    pool = Pool(program, rng)
    updates = EntryMaker(program, schema, pool, rng, per_table=8).updates()
    maker = PacketMaker(program, pool, rng)
    case = Case(seed, text, schema, updates, [maker.frame() for _ in range(frames)], batch_size(program))
    try:
        expected = _run(case)
    except (DetourError, RuntimeError, RpcError) as error:
        details = error.details() if isinstance(error, RpcError) else str(error)
        raise NotCompared(f"the engine refuses p4c's JSON: {details}") from error
    own = Case(seed, json.dumps(mine.json).encode(), own_schema, updates, case.frames, case.batch)
    try:
        got = _run(own)
    except (DetourError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    problems = differences(case, expected, got)
    return problems[0] if problems else ""


def _run(case: Case) -> Result:
    """Sets a switch up, counting what it refuses as an output, and lets the frames through."""
    with engine.switch() as under_test:
        client = under_test.client
        client.set_pipeline(case.schema.config(case.json))
        refused = []
        for number, update in enumerate(case.updates):
            try:
                client.write(update)
            except Exception as error:
                refused.append(f"update {number} refused: {type(error).__name__}")
        outputs: list[list[Frame]] = []
        for at in range(0, len(case.frames), case.batch):
            outputs += under_test.run(case.frames[at : at + case.batch])
        expected = None if case.schema.p4info.digests else 0
        return Result(
            outputs, [*refused, *observe.counters(client, case.schema)], observe.digests(client, expected, 0.1)
        )
