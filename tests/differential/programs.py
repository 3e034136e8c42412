# SPDX-License-Identifier: Apache-2.0
"""The corpus: small programs of our own, what p4c makes of them, and the golden files recorded with them."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.differential.case import Case, batch_size
from tests.differential.entries import EntryMaker
from tests.differential.packets import PacketMaker, Pool
from tests.ptf.p4rt import Schema

CORPUS = Path(__file__).parents[1] / "programs" / "corpus"
LIBRARY = "lib.p4"
COMPILER = "p4c-bm2-ss"


@dataclass(frozen=True)
class Program:
    """One program of the corpus."""

    name: str

    @property
    def source(self) -> Path:
        return CORPUS / f"{self.name}.p4"

    @property
    def json(self) -> Path:
        return CORPUS / "compiled" / f"{self.name}.json"

    @property
    def p4info(self) -> Path:
        return CORPUS / "compiled" / f"{self.name}.p4info.txtpb"

    @property
    def golden(self) -> Path:
        return CORPUS / "golden" / f"{self.name}.json.xz"

    def load(self) -> tuple[bytes, Schema]:
        """What p4c made of it."""
        return self.json.read_bytes(), Schema.load(self.p4info)

    def case(self, frames: int, seed: int = 0) -> Case:
        """Random entries and frames for it: the same for the same numbers."""
        text, schema = self.load()
        program = json.loads(text)
        rng = random.Random(f"{self.name} {seed}")
        pool = Pool(program, rng)
        updates = EntryMaker(program, schema, pool, rng).updates()
        maker = PacketMaker(program, pool, rng)
        return Case(self.name, text, schema, updates, [maker.frame() for _ in range(frames)], batch_size(program))


def programs() -> list[Program]:
    """All of them."""
    return [Program(p.stem) for p in sorted(CORPUS.glob("*.p4")) if p.name != LIBRARY]


def source_digest(program: Program) -> str:
    """Of the program's source and of what it includes."""
    digest = hashlib.sha256((CORPUS / LIBRARY).read_bytes())
    digest.update(program.source.read_bytes())
    return digest.hexdigest()[:16]


def digests() -> dict[str, str]:
    """Name -> digest of the source that the checked-in JSON was compiled from."""
    path = CORPUS / "compiled" / "sources.json"
    return json.loads(path.read_text()) if path.exists() else {}


def compiler_missing() -> str | None:
    """Why nothing can be compiled here; None if it can."""
    return None if shutil.which(COMPILER) else f"{COMPILER} is not on PATH"


def compile_to(program: Program, folder: Path) -> tuple[bytes, bytes]:
    """(JSON, P4Info) as p4c makes them now, without its layout and without paths of this machine."""
    raw, info = folder / "out.json", folder / "out.p4info.txtpb"
    command = [COMPILER, "--arch", "v1model", "--p4runtime-files", str(info), "-o", str(raw), program.source.name]
    done = subprocess.run(command, cwd=CORPUS, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program.name}: {done.stderr}")
    content: dict[str, Any] = json.loads(raw.read_text())
    text = json.dumps(content, separators=(",", ":")) + "\n"
    assert str(CORPUS) not in text
    return text.encode(), info.read_bytes()


def compile_all(chosen: list[Program]) -> list[str]:
    """Compiles those whose sources have changed; returns their names."""
    recorded, changed = digests(), []
    (CORPUS / "compiled").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for program in chosen:
            digest = source_digest(program)
            if recorded.get(program.name) == digest and program.json.exists():
                continue
            text, info = compile_to(program, Path(folder))
            program.json.write_bytes(text)
            program.p4info.write_bytes(info)
            recorded[program.name] = digest
            changed.append(program.name)
    present = {p.name for p in programs()}
    recorded = {name: digest for name, digest in sorted(recorded.items()) if name in present}
    (CORPUS / "compiled" / "sources.json").write_text(json.dumps(recorded, indent=0) + "\n")
    return changed
