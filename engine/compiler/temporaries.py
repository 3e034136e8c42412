# SPDX-License-Identifier: Apache-2.0
"""Which fields of the metadata are variables of the parser or of one pipeline and need no memory in the PHV.

p4c turns local variables and what it splits expressions into to fields of a header `scalars`; the program's own
metadata are there too, with a dot in their names. What the parser, ingress or egress alone mentions lives in registers
while that function runs: a packet that waits in a queue does not carry it.
"""

from __future__ import annotations

from collections.abc import Iterator

from detour.engine.compiler.model import FieldSpec, Header, Json, Model, PipelineIr

SCALARS = "scalars"
"""p4c's name of the header."""

_NOT_REST = ("parsers", "pipelines", "actions", "header_types")


def temporaries(model: Model) -> dict[str, tuple[FieldSpec, ...]]:
    """The fields of `scalars` that are variables of a function, by its name: `parse`, `ingress`, `egress`."""
    header = model.headers.get(SCALARS)
    if header is None or not header.metadata or any(h.type is header.type for h in _others(model)):
        return {}
    used = {name: set(_mentioned(_parts(model, pipeline))) for name, pipeline in model.pipelines.items()}
    used["parse"] = set(_mentioned(model.json["parsers"]))
    elsewhere = set(_mentioned(_rest(model)))
    found: dict[str, tuple[FieldSpec, ...]] = {}
    for name in used:
        outside = elsewhere.union(*(fields for other, fields in used.items() if other != name))
        # None stands for the header as a whole.
        if None not in outside | used[name]:
            mine = used[name] - outside
            found[name] = tuple(f for f in header.type.fields if f.name in mine and _is_local(f))
    return found


def _others(model: Model) -> list[Header]:
    return [h for name, h in model.headers.items() if name != SCALARS]


def _is_local(spec: FieldSpec) -> bool:
    return "." not in spec.name and not spec.variable


def _parts(model: Model, pipeline: PipelineIr) -> list[Json]:
    """The JSON that runs as one pipeline: its nodes and the actions that they name."""
    ids = {call["action_id"] for call in pipeline.calls.values()}
    actions = [a.json for a in model.actions if a.id in ids]
    for table in pipeline.tables.values():
        known = (*table.actions, *(table.profile.actions.values() if table.profile else ()))
        actions += [a.json for a in known]
        actions += [table.profile.selector.inputs] if table.profile and table.profile.selector else []
    return [*(p for p in model.json["pipelines"] if p["name"] == pipeline.name), *actions]


def _rest(model: Model) -> list[Json]:
    """The JSON of everything else: field lists, digests, calculations, meters, the deparser."""
    return [part for name, part in model.json.items() if name not in _NOT_REST]


def _mentioned(part: Json) -> Iterator[str | None]:
    """Names of the fields of `scalars` that a part of the program mentions; `None` for the whole header."""
    if isinstance(part, dict):
        if part.get("type") == "header" and part.get("value") == SCALARS:
            yield None
        for inner in part.values():
            yield from _mentioned(inner)
    elif isinstance(part, list):
        if len(part) == 2 and part[0] == SCALARS and isinstance(part[1], str):
            yield part[1]
        for inner in part:
            yield from _mentioned(inner)
