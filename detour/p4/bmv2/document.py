# SPDX-License-Identifier: Apache-2.0
"""From the typed program to the JSON document: what the driver calls."""

from __future__ import annotations

from detour.p4 import core, ir
from detour.p4.bmv2 import graphs
from detour.p4.bmv2.common import Target
from detour.p4.bmv2.values import Json, plain
from detour.p4.elaborate import Elaboration
from detour.p4.lower import statements
from detour.p4.lower.context import Context
from detour.p4.lower.places import Storage
from detour.p4.messages import CompileError, Messages
from detour.p4.types import Enum

LOWERING = statements
"""The module that registers what it lowers, and imports those that do so too."""
PARTS = {
    ("p", "vr", "ig", "eg", "ck", "dep"): "v1model",
    ("ingress", "pre", "egress", "bqe"): "psa",
    ("main_parser", "pre_control", "main_control", "main_deparser"): "pna",
}
"""Architectures by the parameters of their package, which decide: one of a program's own may have those of V1Switch,
one of that name others."""
_VERSION = [2, 23]


def lower(program: core.Program, elaboration: Elaboration, messages: Messages, name: str) -> Json | None:
    """The BMv2 JSON of a program; None if something in it cannot be executed, which `messages` says."""
    main = elaboration.main
    parameters = main.declaration.parameters if isinstance(main.declaration, core.BlockType) else ()
    kind = PARTS.get(tuple(each.name for each in parameters))
    if kind is None:
        messages.error(
            main.node.span,
            f"main is a {main.declaration.name}, whose parts are not those of an architecture of BMv2",
            "BMv2's switches run PNA_NIC, PSA_Switch, V1Switch",
        )
        return None
    lowered = ir.Program(errors=program.errors, enums=_enums(program))
    target = _target(kind)
    ctx = Context(lowered, target, main)
    try:
        target.build(ctx, main)
        return document(lowered, ctx.storage, name)
    except CompileError as error:
        if error.message is not None:
            # What is laid out before the first statement has no place of its own.
            at = next((s for s in (error.message.span, ctx.span) if s is not core.NOWHERE), main.node.span)
            messages.error(at, error.message.text, error.message.hint)
        return None


def _target(kind: str) -> Target:
    if kind == "v1model":
        from detour.p4.bmv2.v1model import V1Model

        return V1Model()
    from detour.p4.bmv2.portable import Pna, Psa

    return Psa() if kind == "psa" else Pna()


def _enums(program: core.Program) -> list[tuple[str, tuple[str, ...]]]:
    """Enums of the program itself; their members are numbered in order."""
    kinds = [
        each.type
        for each in program.declarations
        if isinstance(each, core.TypeDeclaration) and each.kind == "enum" and not each.span.file.standard
    ]
    return [(k.name, tuple(name for name, _ in k.members)) for k in kinds if isinstance(k, Enum) and k.base is None]


def document(program: ir.Program, storage: Storage, name: str) -> Json:
    """The JSON of a lowered program."""
    ids: dict[str, int] = {}
    names = {each.name: 0 for each in program.actions}
    pipelines = [
        graphs.PipelineWriter(program, ids, names).write(pipeline, number)
        for number, pipeline in enumerate(program.pipelines)
    ]
    parsers: list[Json] = []
    for number, (parser, entry) in enumerate(program.parsers):
        states = sum(len(each["parse_states"]) for each in parsers)
        parsers.append(graphs.parser(parser, entry, number, states, storage))
    storage.finish()
    objects = {kind: plain(items) for kind, items in program.objects.items()}

    def listed(*kinds: str) -> dict[str, Json]:
        return {kind: objects.get(kind, []) for kind in kinds}

    return {
        **listed("header_types", "headers", "header_stacks", "header_union_types", "header_unions"),
        **listed("header_union_stacks", "field_lists"),
        "errors": [[error, number] for number, error in enumerate(program.errors)],
        "enums": [
            {"name": enum, "entries": [[member, number] for number, member in enumerate(members)]}
            for enum, members in program.enums
        ],
        "parsers": parsers,
        **listed("parse_vsets", "deparsers", "meter_arrays", "counter_arrays", "register_arrays", "calculations"),
        **listed("learn_lists", "checksums", "extern_instances"),
        "actions": [graphs.action(each) for each in program.actions],
        "pipelines": plain(pipelines),
        "force_arith": [],
        "field_aliases": [[alias, list(field)] for alias, field in program.aliases],
        "program": name,
        "__meta__": {"version": _VERSION, "compiler": "detour"},
    }
