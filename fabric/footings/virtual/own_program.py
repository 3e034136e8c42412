# SPDX-License-Identifier: Apache-2.0
"""A P4 program of one's own in the switches of a fabric in virtual time: a variant of fabric.p4.

What planners write must have its place in it: tables with those fields, actions with those parameters, meters. It may
have more of everything, and do with packets what it likes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from detour.base.errors import DetourError
from detour.control.entries import Action, ActionSet, DefaultAction, Entity, MeterConfig, TableEntry
from detour.engine.compiler.model import TableIr
from detour.engine.compiler.program import Program


@dataclass(frozen=True)
class OwnProgram:
    """`json`: the file that it was compiled from, in errors."""

    json: Path
    code: Program


def read_program(text: str) -> OwnProgram:
    """The program that `P4INFO,JSON` names, as p4c writes them.

    Raises:
        DetourError: a file cannot be read or is none of them, the two are not of one program, or the JSON needs what
            the engine does not have.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(parts):
        raise DetourError(f"{text!r} is not P4INFO,JSON, like my.p4info.txtpb,my.json")
    info, json = map(Path, parts)
    content = _content(info)
    _content(json)
    code = Program.from_json(json)
    _check_info(info, content, json, code)
    return OwnProgram(json, code)


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError) as error:
        raise DetourError(f"{file}: {error.strerror if isinstance(error, OSError) else 'it is no text'}") from None


def _check_info(info: Path, content: str, json: Path, code: Program) -> None:
    """P4Info is of the same program as the JSON."""
    from finsy.proto import p4i  # 0.2 s, which runs without a program of their own need not wait
    from google.protobuf import text_format

    from detour.engine.p4runtime import schema
    from detour.engine.p4runtime.errors import Refused

    try:
        schema.build(text_format.Parse(content, p4i.P4Info()), code.model)
    except text_format.ParseError as error:
        raise DetourError(f"{info} is not a P4Info text: {' '.join(str(error).split())}") from None
    except Refused as error:
        raise DetourError(f"{info} and {json}: {error.brief}") from None


def check_carries(program: OwnProgram, entities: Iterable[Entity]) -> None:
    """That a switch with the program can hold entities of a plan.

    Raises:
        DetourError: the first thing that it lacks.
    """
    seen: set[tuple[str, ...]] = set()
    for entity in entities:
        match entity:
            case TableEntry():
                fields = tuple(name for name, _ in entity.match)
                actions = entity.action.members() if isinstance(entity.action, ActionSet) else (entity.action,)
                wanted = entity.table, fields, actions
            case DefaultAction():
                wanted = entity.table, (), (entity.action,)
            case MeterConfig() if entity.meter not in program.code.model.meters:
                raise _lacks(program, f"meter {entity.meter}")
            case _:
                continue
        for action in wanted[2]:
            kind = (wanted[0], *wanted[1], "/", action.name, *(name for name, _ in action.params))
            if kind not in seen:
                seen.add(kind)
                _check(program, wanted[0], wanted[1], action)


def _check(program: OwnProgram, name: str, fields: tuple[str, ...], action: Action) -> None:
    table: TableIr | None = program.code.model.tables.get(name)
    if table is None:
        raise _lacks(program, f"table {name}")
    for field in fields:
        if field not in {each.name for each in table.key}:
            raise _lacks(program, f"field {field} of table {name}")
    known = next((each for each in table.actions if each.name == action.name), None)
    if known is None:
        raise _lacks(program, f"action {action.name} of table {name}")
    for parameter, _ in action.params:
        if parameter not in {each.name for each in known.params}:
            raise _lacks(program, f"parameter {parameter} of action {action.name}")
    more = {each.name for each in known.params} - {parameter for parameter, _ in action.params}
    if more:
        raise DetourError(
            f"{program.json}: action {action.name} has a parameter {sorted(more)[0]}, of which detour's planners know "
            "nothing"
        )


def _lacks(program: OwnProgram, what: str) -> DetourError:
    return DetourError(
        f"{program.json} cannot carry detour's hosts: it has no {what}, which planners write; take p4src/fabric.p4 as "
        "a beginning"
    )
