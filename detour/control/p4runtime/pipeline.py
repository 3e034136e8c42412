# SPDX-License-Identifier: Apache-2.0
"""The P4 program that switches run: the files that are made of it. Loads no gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.places import BUILD
from detour.control.entries import Plan

if TYPE_CHECKING:
    from finsy.proto import p4i


@dataclass(frozen=True)
class PipelineConfig:
    """A P4 program for a switch: P4Info and the target's device config (BMv2 JSON)."""

    p4info: Path
    blob: Path

    @staticmethod
    def fabric() -> PipelineConfig:
        """`detour/p4src/fabric.p4` as checked in."""
        return PipelineConfig.of("fabric")

    @staticmethod
    def of(program: str) -> PipelineConfig:
        """A program of `p4src/` as checked in, by its name (`Policy.program`)."""
        return PipelineConfig(BUILD / f"{program}.p4info.txtpb", BUILD / f"{program}.json")

    @staticmethod
    def given(text: str) -> PipelineConfig:
        """Files that somebody names, `P4INFO,JSON`, or those made of a program `NAME.p4`. Raises `DetourError`: it is
        neither, one is not a file, or the program has errors."""
        if text.endswith(".p4"):
            from detour.p4.build import build

            made = build(Path(text), p4info=True)
            return PipelineConfig(made.p4info, made.json)
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 2 or not all(parts):
            raise DetourError(
                f"{text!r} is neither a P4 program, like my.p4, nor a P4Info and a BMv2 JSON, like "
                "my.p4info.txtpb,my.json"
            )
        for part in parts:
            if not Path(part).is_file():
                raise DetourError(f"{part}: there is no such file")
        return PipelineConfig(*(Path(part).absolute() for part in parts))

    @property
    def own(self) -> bool:
        """Return whether it is not one of ours."""
        return self.blob.parent != BUILD

    def require(self, plan: Plan) -> None:
        """See that switches with this program can hold entries. Raises `DetourError`: the P4Info is none, or lacks a
        table, a field, an action or a meter, which is named."""
        from detour.control.p4runtime.codec import Codec

        codec = Codec(read_p4info(self.p4info))
        for entities in plan.values():
            for entity in entities:
                try:
                    codec.encode(entity)
                except DetourError as error:
                    raise DetourError(
                        f"{self.p4info}: {error}; a fabric runs fabric.p4 or what has its tables (`detour switch` runs "
                        "any program)"
                    ) from None


def read_p4info(path: Path, lenient: bool = False) -> p4i.P4Info:
    """P4Info in text format. `lenient`: with fields of which nothing is known. Raises `DetourError`: the file cannot be
    read, or is something else."""
    from finsy.proto import p4i  # 0.2 s, for which runs without a program of their own need not wait
    from google.protobuf import text_format

    try:
        return text_format.Parse(read_text(path), p4i.P4Info(), allow_unknown_field=lenient)
    except text_format.ParseError as error:
        raise DetourError(f"{path} is not P4Info in text format: {' '.join(str(error).split())}") from None
