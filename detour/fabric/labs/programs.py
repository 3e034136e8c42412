# SPDX-License-Identifier: Apache-2.0
"""Contents of a lab's switches, read and checked before there is any switch: programs, entries, commands.

A program whose source is there is compiled, else it is what a compiler left behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.base.files import read_bytes, read_text
from detour.base.progress import Progress, silent
from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info
from detour.engine.bmv2api.commands.interpreter import Understood, understand_all
from detour.engine.bmv2api.commands.program import ProgramNames
from detour.engine.bmv2api.commands.registry import CommandScope
from detour.engine.p4runtime import Compiled, Compiler, Refused, compile_program
from detour.fabric.labs.entries import LabUpdate, read_entries
from detour.fabric.labs.folder import LabFolder, is_json_with
from detour.fabric.labs.model import Lab, LabProgram, LabSwitch
from detour.p4.build import build

_INFO_ENDINGS = (".p4info.txtpb", ".p4info.txt", ".p4.p4info.txtpb", ".p4.p4info.txt", "_p4rt.txt")


@dataclass(frozen=True)
class ProgramFiles:
    """A switch's program: BMv2 JSON, and P4Info if there is one (P4Runtime needs it)."""

    json: Path
    p4info: Path | None

    @cached_property
    def text(self) -> bytes:
        """The JSON. Raises DetourError: it cannot be read."""
        return read_bytes(self.json)


def programs_of(
    lab: Lab, given: str | None = None, empty: bool = False, progress: Progress = silent, compiler: str = "detour"
) -> Mapping[str, ProgramFiles | None]:
    """The program of each switch: what was `given` (`P4INFO,JSON` or a P4 source), else the one that the lab names,
    else the only one that lies in the lab's folder or its folder `build`. `empty`: a switch of which the lab names none
    may have none, which a controller sets. `compiler`: see `p4.build`. Raises DetourError: there is none or more than
    one, or it does not compile."""
    chosen = None if given is None else _given(given)
    fallback: LabProgram | None = None
    programs: dict[str, ProgramFiles | None] = {}
    for switch in lab.switches:
        program = chosen or switch.program
        if program is None:
            fallback = fallback or _only(LabFolder(lab.folder, solution=lab.solution))
            program = fallback
            if empty and (program is None or not _is_there(program)):
                programs[switch.name] = None
                continue
        if program is None:
            raise DetourError(
                f"{switch.where}: {switch.name} has no program, and {lab.folder} has none; give one with "
                "--program P4INFO,JSON or --program NAME.p4"
            )
        programs[switch.name] = _files(program, compiler, progress)
    return programs


def _given(text: str) -> LabProgram:
    if text.endswith(".p4"):
        source = Path(text).absolute()
        if not source.is_file():
            raise DetourError(f"{text}: there is no such file")
        return LabProgram(source, where="--program")
    config = PipelineConfig.given(text)
    return LabProgram(None, config.blob, config.p4info, "--program")


def _is_there(program: LabProgram) -> bool:
    """Return whether a program is compiled, or can be."""
    return program.json is not None or (program.source is not None and program.source.is_file())


def _files(program: LabProgram, compiler: str, progress: Progress) -> ProgramFiles:
    """A program's files, compiled if its source is there."""
    if program.source is not None and program.source.is_file():
        made = build(program.source, compiler, progress=progress)
        return ProgramFiles(made.json, made.p4info if made.p4info.is_file() else None)
    if program.json is not None:
        return ProgramFiles(program.json, program.p4info or p4info_beside(program.json))
    raise DetourError(f"{program.where}: neither the program's P4 nor its JSON exists")


def p4info_beside(path: Path) -> Path | None:
    """The P4Info that belongs to a JSON, by its name."""
    names = (path.parent / f"{path.stem}{ending}" for ending in _INFO_ENDINGS)
    return next((name for name in names if name.is_file()), None)


def is_program(path: Path) -> bool:
    """Return whether a JSON is BMv2's, and not a topology."""
    return is_json_with(path, {"parsers", "pipelines", "actions"})


def _only(folder: LabFolder) -> LabProgram | None:
    """The only program in a lab's folder: its JSON, or else its source; None if there is none. Raises
    DetourError: there are several."""
    files = list(_candidates(folder.path))
    if not files and len(sources := list(folder.path.glob("*.p4"))) == 1:
        files = sources
    if len(files) > 1:
        named = ", ".join(str(path.relative_to(folder.path)) for path in files)
        raise DetourError(f"{folder.path} has several programs: {named}; give one with --program P4INFO,JSON")
    if not files:
        return None
    source, json = folder.find(f"{files[0].stem}.p4"), None if files[0].suffix == ".p4" else files[0]
    json = folder.made_of(source, json)
    return LabProgram(source, json, json and p4info_beside(json), str(folder.path))


def _candidates(folder: Path) -> Iterator[Path]:
    """Yield programs, those with a P4Info first: without one any BMv2 JSON counts."""
    every = [path for place in (folder, folder / "build") for path in sorted(place.glob("*.json"))]
    programs = [path for path in every if is_program(path)]
    pairs = [path for path in programs if p4info_beside(path) is not None]
    yield from pairs or programs


# -- what switches are to hold -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwitchContent:
    """The content of a switch: a program, as P4Runtime has it or without P4Info, entries, and commands of
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
    """Return the checked contents of all switches. Raises DetourError: a program or an entry that cannot be loaded, by
    file and line."""
    compiler = Compiler()
    loaded: dict[ProgramFiles, Compiled | None] = {}
    contents = []
    try:
        for switch in lab.switches:
            files = programs[switch.name]
            if files is not None and files not in loaded:
                progress(f"loading {files.json.name}")
                loaded[files] = _compiled(files, compiler)
            compiled = None if files is None else loaded[files]
            name, text = ("", b"") if files is None else (files.json.stem, files.text)
            updates, commands = _updates(switch, compiled), _commands(switch, text)
            contents.append(SwitchContent(switch, name, compiled, text, updates, commands, files))
    finally:
        compiler.close()
    return contents


def _compiled(files: ProgramFiles, compiler: Compiler) -> Compiled | None:
    """None: there is no P4Info."""
    try:
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


def _updates(switch: LabSwitch, compiled: Compiled | None) -> tuple[LabUpdate, ...]:
    if switch.runtime is None:
        return ()
    if compiled is None:
        raise DetourError(f"{switch.runtime}: P4Runtime entries need the program's P4Info, which does not exist")
    return tuple(read_entries(switch.runtime, compiled.message.p4info))


def _commands(switch: LabSwitch, text: bytes) -> tuple[Understood, ...]:
    if switch.commands is None:
        return ()
    if not text:
        raise DetourError(f"{switch.commands}: {switch.name} has no program for these commands")
    return tuple(understand_all(switch.commands, read_text(switch.commands), CommandScope(ProgramNames(text.decode()))))
