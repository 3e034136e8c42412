# SPDX-License-Identifier: Apache-2.0
"""From the typed program to the JSON: what the driver calls."""

from __future__ import annotations

from detour.p4 import core, ir
from detour.p4.bmv2.common import Target
from detour.p4.bmv2.document import document
from detour.p4.bmv2.values import Json
from detour.p4.elaborate import Elaboration
from detour.p4.lower import applies, statements
from detour.p4.lower.context import Context
from detour.p4.messages import CompileError, Messages
from detour.p4.types import Enum

LOWERING = (applies, statements)
"""Modules that register what they lower, or import those that do."""
PACKAGES = {"V1Switch": "v1model", "PSA_Switch": "psa", "PNA_NIC": "pna"}
V1MODEL_PARTS = ("p", "vr", "ig", "eg", "ck", "dep")


def lower(program: core.Program, elaboration: Elaboration, messages: Messages, name: str) -> Json | None:
    """The BMv2 JSON of a program; None if something in it cannot be executed, which `messages` says."""
    main = elaboration.main
    kind = PACKAGES.get(main.declaration.name)
    if kind in (None, "v1model") and isinstance(main.declaration, core.BlockType):
        # The parts decide: a package of the program's own may have those of V1Switch, one of its name others.
        names = tuple(each.name for each in main.declaration.parameters)
        kind = "v1model" if names == V1MODEL_PARTS else None
    if kind is None:
        messages.error(
            main.node.span,
            f"main is a {main.declaration.name}, whose parts are not those of an architecture of BMv2",
            f"BMv2's switches run {', '.join(sorted(PACKAGES))}",
        )
        return None
    lowered = ir.Program(errors=program.errors, enums=_enums(program))
    target = _target(kind)
    ctx = Context(lowered, target, messages)  # type: ignore[arg-type]
    try:
        target.build(ctx, main)  # type: ignore[attr-defined]
        return document(lowered, ctx.storage, name)
    except CompileError as error:
        if error.message is not None:
            at = ctx.span if error.message.span is core.NOWHERE and ctx.span else error.message.span
            messages.error(at, error.message.text, error.message.hint)
        return None


def _target(kind: str) -> Target:
    if kind == "v1model":
        from detour.p4.bmv2.v1model import V1Model

        return V1Model()
    if kind == "psa":
        from detour.p4.bmv2.psa import Psa

        return Psa()
    from detour.p4.bmv2.pna import Pna

    return Pna()


def _enums(program: core.Program) -> list[tuple[str, tuple[str, ...]]]:
    """Enums of the program itself; their members are numbered in order."""
    kinds = [
        each.type
        for each in program.declarations
        if isinstance(each, core.TypeDeclaration) and each.kind == "enum" and not each.span.file.standard
    ]
    return [(k.name, tuple(name for name, _ in k.members)) for k in kinds if isinstance(k, Enum) and k.base is None]
