# SPDX-License-Identifier: Apache-2.0
"""The whole JSON document."""

from __future__ import annotations

from typing import Any

from detour.p4 import ir
from detour.p4.bmv2 import graphs
from detour.p4.bmv2.values import Json, plain
from detour.p4.lower.places import Storage

VERSION = [2, 23]
_LISTS = (
    *("parse_vsets", "meter_arrays", "counter_arrays", "register_arrays", "calculations", "learn_lists"),
    *("field_lists", "checksums", "extern_instances"),
)


def document(program: ir.Program, storage: Storage, name: str) -> Json:
    """The JSON of a lowered program."""
    pipelines = _pipelines(program)
    parsers = _parsers(program, storage)
    storage.finish()
    types = {each.name: number for number, each in enumerate(program.header_types.values())}
    items: dict[str, Any] = {
        "header_types": [_header_type(each, types[each.name]) for each in program.header_types.values()],
        "headers": [_header(each, number) for number, each in enumerate(program.headers)],
        **_stacks(program),
        "field_lists": [],
        "errors": [[error, number] for number, error in enumerate(program.errors)],
        "enums": [
            {"name": enum, "entries": [[member, number] for number, member in enumerate(members)]}
            for enum, members in program.enums
        ],
        "parsers": parsers,
        "parse_vsets": [],
        "deparsers": plain(program.deparsers),
        **{kind: plain(program.objects.get(kind, [])) for kind in _LISTS},
        "actions": [graphs.action(each) for each in program.actions],
        "pipelines": pipelines,
        "force_arith": [],
        "field_aliases": [[alias, list(field)] for alias, field in program.aliases],
        "program": name,
        "__meta__": {"version": VERSION, "compiler": "detour"},
    }
    return items


def _pipelines(program: ir.Program) -> list[Json]:
    ids: dict[str, int] = {}
    names = {each.name: 0 for each in program.actions}
    return [
        graphs.PipelineWriter(program, ids, names).write(pipeline, number)
        for number, pipeline in enumerate(program.pipelines)
    ]


def _parsers(program: ir.Program, storage: Storage) -> list[Json]:
    parsers: list[Json] = []
    states = 0
    for number, graph in enumerate(program.parsers):
        parsers.append(graphs.parser(graph, number, states, storage))
        states += len(parsers[-1]["parse_states"])
    return parsers


def _header_type(kind: ir.HeaderType, number: int) -> Json:
    fields = [[name, width, signed] for name, width, signed in kind.fields]
    item: dict[str, Any] = {"name": kind.name, "id": number, "fields": fields}
    if kind.max_bytes is not None:
        item["max_length"] = kind.max_bytes
    return item


def _header(header: ir.Header, number: int) -> Json:
    return {
        "name": header.name,
        "id": number,
        "header_type": header.type,
        "metadata": header.metadata,
        "pi_omit": True,
    }


def _stacks(program: ir.Program) -> dict[str, list[Json]]:
    def numbered(items: list[dict[str, Any]]) -> list[Json]:
        return [{"name": item["name"], "id": number, **item} for number, item in enumerate(items)]

    return {
        "header_stacks": numbered(program.stacks),
        "header_union_types": numbered(list(program.union_types.values())),
        "header_unions": numbered(program.unions),
        "header_union_stacks": numbered(program.union_stacks),
    }
