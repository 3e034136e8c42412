# SPDX-License-Identifier: Apache-2.0
"""What the switches of a lab are to hold, read and checked before there is any switch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.progress import Progress, silent
from detour.control.p4runtime.pipeline import read_p4info
from detour.engine.bmv2api.commands.interpreter import Understood, understand_all
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import CommandScope
from detour.engine.p4runtime.config import Compiled, Compiler
from detour.engine.p4runtime.errors import Refused
from detour.engine.p4runtime.target import compile_program
from detour.fabric.labs.entries import LabUpdate, read_entries
from detour.fabric.labs.model import Lab, LabSwitch
from detour.fabric.labs.programs import ProgramFiles


@dataclass(frozen=True)
class SwitchContent:
    """What a switch is to hold: a program, as P4Runtime has it or without P4Info, entries, and commands of
    simple_switch_CLI; all of it checked but for what only the switch itself can refuse."""

    switch: LabSwitch
    name: str = ""
    """the program's"""
    compiled: Compiled | None = None
    text: bytes = b""
    updates: tuple[LabUpdate, ...] = ()
    commands: tuple[Understood, ...] = ()
    files: ProgramFiles | None = None


def contents_of(
    lab: Lab, programs: Mapping[str, ProgramFiles | None], progress: Progress = silent
) -> list[SwitchContent]:
    """What all switches are to hold, checked. Raises DetourError: a program or an entry that cannot be loaded, by file
    and line."""
    compiler = Compiler()
    known: dict[ProgramFiles, Compiled | None] = {}
    found = []
    try:
        for switch in lab.switches:
            files = programs[switch.name]
            if files is not None and files not in known:
                progress(f"loading {files.json.name}")
                known[files] = _compiled(files, compiler)
            compiled = None if files is None else known[files]
            name, text = ("", b"") if files is None else (files.json.stem, files.text)
            updates, commands = _updates(switch, compiled), _commands(switch, text)
            found.append(SwitchContent(switch, name, compiled, text, updates, commands, files))
    finally:
        compiler.close()
    return found


def _compiled(files: ProgramFiles, compiler: Compiler) -> Compiled | None:
    """None: there is no P4Info."""
    try:
        _check_architecture(files)
        if files.p4info is None:
            compile_program(files.text)
            return None
        message = p4r.ForwardingPipelineConfig(
            p4info=read_p4info(files.p4info, lenient=True), p4_device_config=files.text
        )
        return compiler.compile(message)
    except DetourError as error:
        raise DetourError(f"{files.json}: {error}") from None
    except Refused as error:
        raise DetourError(f"{files.json}: {error.text}") from None


def _check_architecture(files: ProgramFiles) -> None:
    """PSA's and PNA's programs have other metadata; as v1model's they would drop everything."""
    try:
        headers = [header["name"] for header in json.loads(files.text)["headers"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return  # the compiler says what is wrong
    if "standard_metadata" not in headers:
        raise DetourError("this is no program for v1model (it has no standard_metadata), which is all that runs here")


def _updates(switch: LabSwitch, compiled: Compiled | None) -> tuple[LabUpdate, ...]:
    if switch.runtime is None:
        return ()
    if compiled is None:
        raise DetourError(f"{switch.runtime}: entries of P4Runtime need the program's P4Info, which is not there")
    return tuple(read_entries(switch.runtime, compiled.message.p4info))


def _commands(switch: LabSwitch, text: bytes) -> tuple[Understood, ...]:
    if switch.commands is None:
        return ()
    if not text:
        raise DetourError(f"{switch.commands}: {switch.name} has no program to which commands could apply")
    return tuple(understand_all(switch.commands, read_text(switch.commands), CommandScope(ProgramNames(text.decode()))))
