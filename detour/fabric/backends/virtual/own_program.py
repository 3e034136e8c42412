# SPDX-License-Identifier: Apache-2.0
"""A P4 program of one's own in the switches of a fabric in virtual time: a variant of fabric.p4.

What planners write must have its place in it (`PipelineConfig.require`). It may have more of everything, and do with
packets what it likes.
"""

from __future__ import annotations

from dataclasses import dataclass

from detour.base.errors import DetourError
from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info
from detour.engine.compiler.program import Program


@dataclass(frozen=True)
class OwnProgram:
    """A compiled program, and its machine code."""

    files: PipelineConfig
    code: Program


def read_program(text: str) -> OwnProgram:
    """The program that `P4INFO,JSON` names. Raises DetourError if a file is missing or is none of these, the two are
    not of one program, or the JSON needs what the engine does not have."""
    files = PipelineConfig.given(text)
    code = Program.from_json(files.blob)
    _check_info(files, code)
    return OwnProgram(files, code)


def _check_info(files: PipelineConfig, code: Program) -> None:
    """P4Info is of the same program as the JSON."""
    from detour.engine.p4runtime import Refused, schema

    info = read_p4info(files.p4info)
    try:
        schema.build(info, code.model)
    except Refused as error:
        raise DetourError(f"{files.p4info} and {files.blob}: {error.brief}") from None
