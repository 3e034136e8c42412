# SPDX-License-Identifier: Apache-2.0
"""The same entries and packets through two JSONs of one program, on the engine and on BMv2."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from google.protobuf import text_format
from grpc import RpcError

from detour.base.errors import DetourError
from tests.differential import engine, observe
from tests.differential.case import Case, Result, batch_size, differences
from tests.differential.entries import EntryMaker, Update
from tests.differential.p4c_corpus.ours import Compiled
from tests.differential.p4c_corpus.reference import Reference
from tests.differential.packets import Frame, PacketMaker, Pool
from tests.differential.reference import PRIORITIES
from tests.differential.stream import PacketStream
from tests.ptf.bmv2 import Bmv2
from tests.ptf.p4rt import Client, Schema, WriteError

FRAMES = 20
_Run = Callable[[list[Frame]], list[list[Frame]]]


def include_folders(source: Path) -> tuple[Path, ...]:
    """Folders near a program that its includes may mean."""
    near = (source.parent, *source.parents[1:3])
    folders = [*near, *(folder / name for folder in near for name in ("include", "includes", "stdlib"))]
    return tuple(folder for folder in folders if folder.is_dir())


class NotCompared(Exception):
    """Why no packets are compared: p4c's JSON does not run."""


def compare(theirs: Reference, mine: Compiled, seed: str, frames: int = FRAMES, *, bmv2: bool = False) -> str:
    """Compare what entries and frames made from p4c's files do on both JSONs.

    With `bmv2`, simple_switch runs both as well: what it does with p4c's JSON is what is expected.

    Returns:
        The first difference; empty if there is none.

    Raises:
        NotCompared: p4c's JSON does not run.
    """
    if theirs.leaves_loops:
        raise NotCompared("p4c's JSON runs the bodies of its loops once")
    case, own = _cases(theirs, mine, seed, frames)
    switches = [("BMv2", _bmv2)] if bmv2 else []
    expected: Result | None = None
    for name, switch in [*switches, ("the engine", _engine)]:
        for whose, run in (("p4c's", case), ("our", own)):
            try:
                result = _play(run, switch, first=expected is None)
            except (DetourError, RuntimeError, RpcError) as error:
                details = error.details() if isinstance(error, RpcError) else str(error)
                if expected is None:
                    raise NotCompared(f"{name} refuses p4c's JSON: {details}") from error
                return f"{whose} JSON on {name}: {type(error).__name__}: {details}"
            expected = expected or result
            if problems := differences(run, expected, result):
                return f"{whose} JSON on {name}: {problems[0]}"
    return ""


def _cases(theirs: Reference, mine: Compiled, seed: str, frames: int) -> tuple[Case, Case]:
    """One for p4c's JSON, and the same for ours."""
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
    return case, replace(case, json=json.dumps(mine.json).encode(), schema=own_schema)


@contextmanager
def _engine(case: Case) -> Iterator[tuple[Client, _Run]]:
    with engine.switch() as switch, Client(switch.target) as client:
        client.set_pipeline(case.schema.config(case.json))
        yield client, switch.run


@contextmanager
def _bmv2(case: Case) -> Iterator[tuple[Client, _Run]]:
    with Bmv2(priorities=PRIORITIES) as switch, Client(switch.address) as client:
        client.set_pipeline(case.schema.config(case.json))
        stream = PacketStream(switch)
        try:
            yield client, stream.run
        finally:
            stream.close()


def _play(case: Case, switch: Callable[[Case], AbstractContextManager[tuple[Client, _Run]]], *, first: bool) -> Result:
    """Set a switch up, and let the frames through. What the first switch refuses leaves the case: p4c drops tables
    that it finds unreachable after its P4Info is written, and PI checks some keys too strictly. What others refuse is
    an output.
    """
    with switch(case) as (client, run):
        refused = [number for number, update in enumerate(case.updates) if not _accepts(client, update)]
        outputs: list[list[Frame]] = []
        for at in range(0, len(case.frames), case.batch):
            outputs += run(case.frames[at : at + case.batch])
        lines = [] if first else [f"update {number} refused" for number in refused]
        if first:
            case.updates[:] = [each for number, each in enumerate(case.updates) if number not in set(refused)]
        digests = observe.digests(client, None if case.schema.p4info.digests else 0, 0.1)
        return Result(outputs, [*lines, *observe.counters(client, case.schema)], digests)


def _accepts(client: Client, update: Update) -> bool:
    try:
        client.write(update)
    except WriteError:
        return False
    return True
