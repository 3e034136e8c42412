# SPDX-License-Identifier: Apache-2.0
"""Programs as graphs, and the page's modules that follow a trace through them and take frames apart."""

import itertools
import json
import shutil
import subprocess
from typing import Any

import pytest

from detour.base.errors import DetourError
from detour.base.places import PACKAGE
from detour.cli.web.answers import PacketShelf
from detour.cli.web.layers import layered
from detour.cli.web.pipeline import pipeline_of
from detour.control.p4runtime.pipeline import PipelineConfig
from detour.fabric.tracing.program import TracedProgram
from detour.hosts.frames.sample import data_frame
from detour.topo import parse_topology

PROGRAMS = ("fabric", "adaptive", "ugal", "ugal_graph", "qcn", "ipv4", "queues", "bench_tables")
STATIC = PACKAGE / "cli" / "web" / "static"
NODE = shutil.which("node")


def source(program: str) -> dict[str, Any]:
    return json.loads(PipelineConfig.of(program).blob.read_text())


def test_edges_lead_down_but_for_those_that_close_a_cycle():
    edges = {"a": ["b", "c"], "b": ["d"], "c": ["d", "e"], "d": ["f"], "e": ["f"], "f": ["b"]}
    graph = layered("a", edges)
    layer = {node: place[1] for node, place in graph.place.items()}
    assert layer == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 2, "f": 3}
    assert graph.layers == 4
    assert graph.bends["a", "b"] == []
    assert set(graph.bends) == {(a, b) for a, many in edges.items() for b in many}


def test_an_edge_over_layers_passes_each_of_them():
    graph = layered("a", {"a": ["b", "d"], "b": ["c"], "c": ["d"]})
    assert [layer for _, layer in graph.bends["a", "d"]] == [1, 2]


@pytest.mark.parametrize("program", PROGRAMS)
def test_nodes_of_a_layer_do_not_lie_on_each_other(program):
    for part in pipeline_of(PipelineConfig.of(program).blob)["parts"]:
        rows: dict[int, list[int]] = {}
        for node in part["nodes"]:
            rows.setdefault(node["y"], []).append(node["x"])
            assert 0 < node["x"] < part["width"]
            assert 0 < node["y"] < part["height"]
        for columns in rows.values():
            columns.sort()
            assert all(b - a > 160 for a, b in itertools.pairwise(columns))


@pytest.mark.parametrize("program", PROGRAMS)
def test_everything_that_can_be_reached_is_drawn_once(program):
    drawn, blob = pipeline_of(PipelineConfig.of(program).blob), source(program)
    parts = {part["name"]: part for part in drawn["parts"]}
    for pipeline in blob["pipelines"]:
        nodes = {node["id"].split("/", 1)[1]: node for node in parts[pipeline["name"]]["nodes"]}
        keyed = {t["name"] for t in pipeline["tables"] if t["key"]}
        assert keyed <= nodes.keys()
        assert {c["name"] for c in pipeline["conditionals"]} <= nodes.keys()
        ends = {edge["to"] for edge in parts[pipeline["name"]]["edges"]}
        starts = {parts[pipeline["name"]]["first"]}
        assert {node["id"] for node in nodes.values()} == ends | starts
        for condition in pipeline["conditionals"]:
            out = [e for e in parts[pipeline["name"]]["edges"] if e["from"].endswith(f"/{condition['name']}")]
            assert {label for edge in out for label in edge["label"].split(", ")} == {"yes", "no"}


def test_sources_are_there_and_only_those_of_the_program(tmp_path):
    drawn = pipeline_of(PipelineConfig.of("fabric").blob)
    assert "control" in drawn["sources"]["include/pipeline.p4"]["text"]
    secret = tmp_path / "secret.p4"
    secret.write_text("nobody's")
    folder = tmp_path / "a" / "b" / "c" / "d"
    folder.mkdir(parents=True)
    blob = source("ipv4")
    first, second = (t for t in blob["pipelines"][0]["conditionals"][:1] + blob["pipelines"][0]["tables"][:1])
    first["source_info"] = {"filename": str(secret), "line": 1, "column": 0, "source_fragment": "quoted"}
    second["source_info"] = {"filename": "../" * 9 + "etc/passwd", "line": 3, "column": 0, "source_fragment": "x"}
    (folder / "own.json").write_text(json.dumps(blob))
    sources = pipeline_of(folder / "own.json")["sources"]
    assert sources[str(secret)] == {"lines": {"1": "quoted"}}
    assert "nobody" not in json.dumps(sources)
    assert "root:" not in json.dumps(sources)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"parsers": []}', '{"parsers": 3, "pipelines": []}'])
def test_what_is_no_program_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DetourError, match="not BMv2 JSON"):
        pipeline_of(tmp_path / "x.json")
    with pytest.raises(DetourError, match="No such file"):
        pipeline_of(tmp_path / "y.json")


def test_the_last_packets_are_kept_with_numbers_that_javascript_can_hold():
    shelf = PacketShelf(kept=2)
    for number in range(3):
        shelf.keep({"hops": [{"value": 1 << 53 | number, "small": 7, "ok": True}], "outcomes": []}, f"packet {number}")
    assert [row["id"] for row in shelf.listed()] == [3, 2]
    assert shelf.find("3")["hops"] == [{"value": hex(1 << 53 | 2), "small": 7, "ok": True}]
    for wrong in ("1", "x", "", "-1", "³", "4"):
        with pytest.raises(DetourError, match="is not there"):
            shelf.find(wrong)


def ran(script: str, **given: Any) -> Any:
    """What a script in Node makes of what is handed in; it imports from `static`."""
    text = f"const given = {json.dumps(given)};\n{script}"
    command = [str(NODE), "--no-warnings", "--experimental-default-type=module", "--input-type=module", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


needs_node = pytest.mark.skipif(NODE is None, reason="node is not on PATH (Debian: nodejs)")


def frame() -> bytes:
    topology = parse_topology("dragonfly:p=1,a=2,h=1")
    return data_frame(topology.host("h0"), topology.host("h5"), 0x8001, (), 64)


@needs_node
def test_every_step_of_a_trace_has_its_node_and_the_way_has_no_gap():
    files = PipelineConfig.of("fabric")
    with TracedProgram(files) as switch:
        kept = PacketShelf().keep(switch.trace(frame(), 1).as_json(), "")
    places, gaps, headers = ran(
        f"""
        import {{ Places, along, stateAfter }} from "{STATIC}/trace.js";
        const {{ events }} = along(given.trace), places = new Places(given.pipeline), of = places.of(events);
        const steps = of.filter((place, i) => place && place !== of[i - 1] && places.nodes.has(place));
        const part = (place) => place.split("/")[0];
        const gaps = steps.slice(1).map((to, i) => [steps[i], to])
          .filter(([a, b]) => part(a) === part(b) && a !== b && !places.way(a, b).length);
        const state = stateAfter(events, events.length, (name) => given.pipeline.headers[name]?.metadata);
        console.log(JSON.stringify([events.map((event, i) => [event.kind, event.name ?? event.table, of[i]]), gaps,
          [...state.headers.keys()]]));
        """,
        trace=kept["hops"][0]["trace"],
        pipeline=pipeline_of(files.blob),
    )
    assert gaps == []
    looked = [(name, place) for kind, name, place in places if kind in ("table_lookup", "branch")]
    assert len(looked) > 20
    assert all(place in (f"ingress/{name}", f"egress/{name}") for name, place in looked)
    assert all(place is not None for kind, _, place in places if kind in ("action", "assign", "extern_call"))
    assert {"ethernet", "ipv6", "udp"} <= set(headers)


@needs_node
def test_a_frame_is_taken_apart_as_the_program_parses_it_and_changed_field_by_field():
    files = PipelineConfig.of("fabric")
    headers, length, hop_limit, other, grown = ran(
        f"""
        import {{ bytesOf, dissect, hexOf, setBits, turned, typed }} from "{STATIC}/builder.js";
        const bytes = bytesOf(given.frame), found = dissect(given.pipeline, bytes, 1);
        const ipv6Fields = found.headers.find(({{ name }}) => name === "ipv6").fields;
        const limit = ipv6Fields.find(({{ field }}) => field === "hop_limit"), changed = Uint8Array.from(bytes);
        setBits(changed, limit.offset, limit.bits, typed("7", limit.bits));
        const turn = found.turns.find(({{ state }}) => state === "ethernet");
        const none = dissect(given.pipeline, new Uint8Array(1), 1);
        const ipv6 = none.turns.find(({{ state }}) => state === "ethernet");
        const grown = dissect(given.pipeline, turned(none.bytes, ipv6, 0), 1);
        const names = (of) => of.headers.map(({{ name }}) => name);
        console.log(JSON.stringify([names(found), found.length / 8, hexOf(changed), turn.taken, names(grown)]));
        """,
        frame=frame().hex(),
        pipeline=pipeline_of(files.blob),
    )
    assert headers == ["ethernet", "ipv6", "transit", "udp"]
    assert length == 14 + 40 + 8 + 8
    changed = bytearray(frame())
    changed[14 + 7] = 7
    assert hop_limit == changed.hex()
    assert other == 0
    assert grown[:2] == ["ethernet", "ipv6"]


@needs_node
def test_what_people_type_into_fields():
    given = [
        ["7", 8, 7], ["0xff", 8, 255], ["256", 8, None], ["-1", 8, None], ["", 8, None], ["x", 8, None],
        ["10.0.0.1", 32, 0x0A000001], ["10.0.0.256", 32, None], ["2:0:0:0:0:1", 48, 0x020000000001],
        ["02:00:00:00:00:01", 48, 0x020000000001], ["::1", 128, 1], ["::", 128, 0], ["1:2", 128, None],
        ["1::2::3", 128, None],
    ]  # fmt: skip
    values = ran(
        f"""
        import {{ typed }} from "{STATIC}/builder.js";
        console.log(JSON.stringify(given.rows.map(([text, bits]) => {{
          const value = typed(text, bits);
          return value === null ? null : Number(value);
        }})));
        """,
        rows=given,
    )
    assert values == [value for _, _, value in given]


@needs_node
def test_forks_are_chosen_and_outcomes_told():
    leaf = {"events": [{"kind": "stage", "stage": "egress"}], "outcome": {"output": {"port": 3, "hex": ""}}}
    other = {"events": [], "outcome": {"dropped": {"reason": "no route", "source": None}}}
    branches = [{"label": "a", "fraction": 0.5, "trace": leaf}, {"label": "b", "fraction": 0.5, "trace": other}]
    tree = {
        "events": [{"kind": "stage", "stage": "ingress"}],
        "fork": {"reason": "hash", "all": False, "branches": branches},
    }
    first, second = ran(
        f"""
        import {{ along, outcomeText }} from "{STATIC}/trace.js";
        const said = (chosen) => {{ const {{ events, forks, outcome }} = along(given.tree, chosen);
          return [events.length, forks.map(({{ taken }}) => taken), outcomeText(outcome)]; }};
        console.log(JSON.stringify([said([]), said([1])]));
        """,
        tree=tree,
    )
    assert first == [2, [0], "leaves by port 3"]
    assert second == [1, [1], "dropped: no route"]
