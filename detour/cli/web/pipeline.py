# SPDX-License-Identifier: Apache-2.0
"""A P4 program as the page draws it: parser states, tables and conditions of its BMv2 JSON, with where they stand in
the source, and the headers that packets can be built of.

Statements outside of tables are tables without a key to p4c (`tbl_...`); here they are nodes of kind `code`, one for
those that follow each other. Ids of nodes are `PART/NAME`, parts are `parser`, `ingress`, `egress`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import read_bytes
from detour.cli.web.layers import layered
from detour.engine.compiler.older import in_present_form

_WIDE, _HIGH = 172, 46
"""pixels from a node to the next one beside and below it"""
_TEXT = 44
_MOST_SOURCE = 1 << 20
_SOURCES = (".p4", ".p4i", ".h", ".inc")

Document = dict[str, Any]


def pipeline_of(blob: Path) -> Document:
    """`program`; `parts`: `name`, `width`, `height`, `first`, `nodes` (`id`, `kind`, `label`, `x`, `y`, `source`,
    `lines` of code), `edges` (`from`, `to`, `label`, `points`); `headers` (`fields`: name and bits, `metadata`),
    `parser` for who builds a packet, `sources`: text by file, or single lines where the file is not there. Raises
    `DetourError`: the file cannot be read, or is not a BMv2 JSON."""
    try:
        program = in_present_form(json.loads(read_bytes(blob)))
        texts = _texts(program, list(blob.absolute().parents)[:3])
        parts = [_parser_part(program)]
        parts += [_control_part(program, each, texts) for each in program["pipelines"]]
        return {
            "program": program.get("program", ""),
            "parts": [part for part in parts if part["nodes"]],
            "headers": _headers(program),
            "deparser": [name for each in program["deparsers"] for name in each["order"]],
            "parser": _states(program),
            "sources": texts,
        }
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise DetourError(f"{blob}: this is not BMv2 JSON: {error}") from None


# -- parser ----------------------------------------------------------------------------------------------------


def _states(program: Mapping[str, Any]) -> Document:
    """Return the parser's states, without computed values: for every state the headers that it extracts (`stack`: the
    next one of a stack), the fields that it selects on, and the next states."""
    parser = program["parsers"][0]
    return {"first": parser["init_state"], "states": {state["name"]: _state(state) for state in parser["parse_states"]}}


def _state(state: Mapping[str, Any]) -> Document:
    """`ops` in order: an extracted header, or a variable that is set. Values are as in the JSON, with their types."""
    ops = []
    for op in state["parser_ops"]:
        given = op["parameters"]
        if op["op"] in ("extract", "extract_VL"):
            length = given[1]["value"] if op["op"] == "extract_VL" else None
            ops.append({"extract": given[0]["value"], "stack": given[0]["type"] == "stack", "length": length})
        elif op["op"] == "set" and given[0]["type"] == "field":
            ops.append({"set": given[0]["value"], "to": given[1]})
    onward = [
        {"value": each["value"], "mask": each["mask"], "next": each["next_state"], "kind": each["type"]}
        for each in state["transitions"]
    ]
    return {"ops": ops, "key": state["transition_key"], "transitions": onward}


def _parser_part(program: Mapping[str, Any]) -> Document:
    parser = program["parsers"][0]
    states = {state["name"]: state for state in parser["parse_states"]}
    edges: dict[str, list[str]] = {}
    labels: dict[tuple[str, str], list[str]] = {}
    for name, state in states.items():
        for onward in state["transitions"]:
            to = onward["next_state"] or "accept"
            edges.setdefault(name, []).append(to)
            labels.setdefault((name, to), []).append(onward["value"] or "")
    nodes = {name: {"kind": "state", "label": name, "source": None} for name in (*states, "accept")}
    for name, state in states.items():
        headers = [op["parameters"][0]["value"] for op in state["parser_ops"] if op["op"].startswith("extract")]
        nodes[name]["extracts"] = headers
    return placed("parser", parser["init_state"], nodes, edges, labels)


# -- controls --------------------------------------------------------------------------------------------------


def _control_part(program: Mapping[str, Any], pipeline: Mapping[str, Any], texts: Document) -> Document:
    tables = {each["name"]: each for each in pipeline["tables"]}
    code = {name for name, each in tables.items() if not each["key"] and name.startswith("tbl_")}
    actions = {each["id"]: each for each in program["actions"]}
    onward = {name: [to for to, _ in _ways(each)] for name, each in tables.items()}
    merged = _merged(code, onward, pipeline)
    nodes: dict[str, Document] = {}
    edges: dict[str, list[str]] = {}
    labels: dict[tuple[str, str], list[str]] = {}

    def add(a: str, b: str | None, label: str) -> None:
        to = "end" if b is None else b
        edges.setdefault(a, []).append(to)
        labels.setdefault((a, to), []).append(label)

    for name, each in tables.items():
        if name in merged:
            continue
        chain = _chain(name, merged, onward)
        nodes[name] = _code(chain, tables, actions, texts) if name in code else _table(each)
        for to, label in _ways(tables[chain[-1]]):
            add(name, to, "" if name in code else label)
    for each in pipeline["conditionals"]:
        place = _place(each)
        nodes[each["name"]] = {"kind": "condition", "label": (place or {}).get("text") or each["name"], "source": place}
        add(each["name"], each["true_next"], "yes")
        add(each["name"], each["false_next"], "no")
    nodes["end"] = {"kind": "end", "label": f"end of {pipeline['name']}", "source": None}
    return placed(pipeline["name"], pipeline["init_table"] or "end", nodes, edges, labels)


def _ways(table: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    by: dict[str | None, list[str]] = {}
    for action, to in table["next_tables"].items():
        by.setdefault(to, []).append({"__HIT__": "hit", "__MISS__": "miss"}.get(action) or action.rsplit(".", 1)[-1])
    if table.get("base_default_next") is not None or not by:
        by.setdefault(table.get("base_default_next"), [])
    for to, names in by.items():
        yield to, ", ".join(names) if len(by) > 1 else ""


def _merged(code: set[str], onward: Mapping[str, list[str | None]], pipeline: Mapping[str, Any]) -> dict[str, str]:
    """Code that can only follow other code, and the first of what it follows."""
    before: dict[str, list[str]] = {}
    branches = {each["name"]: [each["true_next"], each["false_next"]] for each in pipeline["conditionals"]}
    for name, ways in (*onward.items(), *branches.items()):
        for to in filter(None, ways):
            before.setdefault(to, []).append(name)
    behind = {ways[0]: name for name, ways in before.items() if name in code and len(ways) == 1}
    follows = {name: behind[name] for name in code & behind.keys() if len(onward[name]) == 1}
    heads: dict[str, str] = {}
    for head in code - set(follows.values()):
        at = head
        while at := follows.get(at, ""):
            heads[at] = head
    return heads


def _chain(name: str, merged: Mapping[str, str], onward: Mapping[str, list[str | None]]) -> list[str]:
    """A table, and the code that is one node with it."""
    chain = [name]
    while (to := onward[chain[-1]][0]) is not None and merged.get(to) == name:
        chain.append(to)
    return chain


def _table(table: Mapping[str, Any]) -> Document:
    key = [field.get("name") or ".".join(map(str, field["target"])) for field in table["key"]]
    return {"kind": "table", "label": table["name"].split(".", 1)[-1], "key": key, "source": _place(table)}


def _code(chain: list[str], tables: Mapping[str, Any], actions: Mapping[int, Any], texts: Document) -> Document:
    steps = [
        place
        for name in chain
        for number in tables[name]["action_ids"]
        for primitive in actions[number]["primitives"]
        if (place := _place(primitive)) is not None
    ]
    lines = list(dict.fromkeys(f"{each['file']}:{each['line']}" for each in steps))
    more = f" … {len(lines)} lines" if len(lines) > 1 else ""
    texts_of = [_line(each, texts) for each in steps]
    label = next((text for text in texts_of if not text.startswith("const ")), (texts_of or ["by the compiler"])[0])
    return {
        "kind": "code",
        "label": label[: _TEXT - len(more)] + more,
        "lines": lines,
        "source": steps[0] if steps else None,
    }


def _line(place: Document, texts: Document) -> str:
    """The line of the source, where it is there; p4c often quotes only an expression in it."""
    lines = texts.get(place["file"], {}).get("text", "").splitlines()
    whole = lines[place["line"] - 1].strip() if 0 < place["line"] <= len(lines) else ""
    return whole.split("//")[0].strip() or place["text"]


def _place(of: Mapping[str, Any]) -> Document | None:
    info = of.get("source_info")
    if not info or not info.get("filename"):
        return None
    return {
        "file": info["filename"],
        "line": info.get("line", 0),
        "column": info.get("column", 0),
        "text": " ".join(str(info.get("source_fragment", "")).split()),
    }


def placed(
    name: str, first: str, shown: Mapping[str, Document], edges: Mapping[str, list[str]],
    labels: Mapping[tuple[str, str], list[str]],
) -> Document:  # fmt: skip
    layout = layered(first, edges)

    def at(place: tuple[float, float]) -> list[int]:
        return [round((place[0] + 0.5) * _WIDE), round((place[1] + 0.5) * _HIGH)]

    nodes = []
    for node, place in layout.place.items():
        x, y = at(place)
        nodes.append({**shown[node], "id": f"{name}/{node}", "label": shown[node]["label"][:_TEXT], "x": x, "y": y})
    drawn = []
    for (a, b), bends in layout.bends.items():
        text = list(dict.fromkeys(label for label in labels[a, b] if label))
        label = ", ".join(text[:2]) + (f" … {len(text)}" if len(text) > 2 else "")
        points = [at(place) for place in (layout.place[a], *bends, layout.place[b])]
        drawn.append({"from": f"{name}/{a}", "to": f"{name}/{b}", "label": label, "points": points})
    return {
        "name": name, "first": f"{name}/{first}", "nodes": nodes, "edges": drawn,
        "width": round(layout.columns * _WIDE), "height": layout.layers * _HIGH,
    }  # fmt: skip


# -- headers and sources ---------------------------------------------------------------------------------------


def _headers(program: Mapping[str, Any]) -> Document:
    types = {each["name"]: each for each in program["header_types"]}
    by_id = {header["id"]: header["name"] for header in program["headers"]}
    headers: Document = {}
    for each in program["headers"]:
        fields = [[field[0], field[1]] for field in types[each["header_type"]]["fields"]]
        headers[each["name"]] = {"fields": fields, "metadata": bool(each["metadata"])}
    for each in program.get("header_stacks", ()):
        members = [by_id[number] for number in each["header_ids"]]
        fields = headers[members[0]]["fields"] if members else []
        headers[each["name"]] = {"members": members, "metadata": False, "fields": fields}
    return headers


def _texts(program: Mapping[str, Any], folders: list[Path]) -> Document:
    """By file: `text` if it lies beside the program, else `lines`, those that the JSON quotes. Only P4 sources in those
    folders: a program may name any file of the machine."""
    quoted: dict[str, dict[int, str]] = {}
    for place in _all_places(program):
        lines = quoted.setdefault(place["file"], {})
        lines[place["line"]] = max(lines.get(place["line"], ""), place["text"], key=len)
    texts: Document = {}
    for file, lines in quoted.items():
        text = _read(file, folders)
        texts[file] = {"text": text} if text is not None else {"lines": {str(k): v for k, v in sorted(lines.items())}}
    return texts


def _all_places(value: Any) -> Iterator[Document]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            place = _place(each) if "source_info" in each else None
            if place is not None:
                yield place
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _read(file: str, folders: list[Path]) -> str | None:
    if not file.endswith(_SOURCES):
        return None
    for folder in folders:
        base = folder.resolve()
        path = (base / file).resolve()
        try:
            if path.is_relative_to(base) and path.is_file() and path.stat().st_size <= _MOST_SOURCE:
                return path.read_text()
        except (OSError, UnicodeDecodeError):
            continue
    return None
