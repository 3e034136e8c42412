# SPDX-License-Identifier: Apache-2.0
"""PSA and PNA: our packet tests in `tests/programs/portable`, p4c's own where they are, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour import cli
from detour.base.errors import DetourError
from detour.engine.compiler.load import load
from detour.engine.compiler.portable import PNA, PSA, V1MODEL, architecture_of
from detour.engine.compiler.program import Program
from tests.portable_samples import compiled, packet_tests

Json = Any
PORTABLE = Path(__file__).resolve().parents[2] / "programs" / "portable"
OURS = sorted(PORTABLE.glob("*.stf"))
THEIRS = packet_tests()


def _source(name: str) -> Json:
    return json.loads((PORTABLE / f"{name}.json").read_text())


def _check(run_json: Callable[..., Any], base: Path, stf: Path) -> Json:
    report = run_json("trace", "--program", f"{base}.p4info.txtpb,{base}.json", "--stf", stf)
    assert report["mismatches"] == []
    assert report["unchecked"] == 0
    return report


@pytest.mark.parametrize("stf", [pytest.param(each, id=each.stem) for each in OURS])
def test_ours(stf: Path, run_json: Callable[..., Any]) -> None:
    report = _check(run_json, stf.with_suffix(""), stf)
    assert report["expected"] >= 3


@pytest.mark.skipif(not THEIRS, reason="P4C_SAMPLES does not name p4_16_samples of p4c")
@pytest.mark.parametrize("stf", [pytest.param(each, id=each.stem) for each in THEIRS])
def test_those_of_p4c(stf: Path, tmp_path: Path, run_json: Callable[..., Any]) -> None:
    base = tmp_path / stf.stem
    assert compiled(stf.with_suffix(".p4"), base)
    _check(run_json, base, stf)


def test_an_expectation_that_is_wrong_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wrong.stf").write_text("packet 1 00000000 0000 0003\nexpect 3 00010200 0000 0003 $\n")
    base = PORTABLE / "psa_paths"
    code = cli.main(["trace", "--program", f"{base}.p4info.txtpb,{base}.json", "--stf", f"{tmp_path / 'wrong.stf'}"])
    assert code == 1
    assert "byte 2 is 01, not 02" in capsys.readouterr().out


def test_drop_packet(tmp_path: Path, run_json: Callable[..., Any]) -> None:
    source = _source("pna_ports")
    for action in source["actions"]:
        for call in action["primitives"]:
            if call["op"] == "send_to_port":
                call |= {"op": "drop_packet", "parameters": []}
    (tmp_path / "drop.json").write_text(json.dumps(source))
    shutil.copyfile(PORTABLE / "pna_ports.p4info.txtpb", tmp_path / "drop.p4info.txtpb")
    (tmp_path / "drop.stf").write_text("packet 4 01 00 0009\nno_packet\n")
    _check(run_json, tmp_path / "drop", tmp_path / "drop.stf")


def test_architectures_are_told_by_their_metadata() -> None:
    names = {"psa_paths": PSA, "psa_externs": PSA, "pna_ports": PNA}
    assert {name: architecture_of(_source(name)) for name in names} == names
    assert architecture_of({"headers": [{"name": "standard_metadata"}]}) == V1MODEL


def test_coverage_counts_both_parsers_and_deparsers() -> None:
    places = {site.name for site in Program(_source("psa_paths"), covered=True).coverage_sites}
    assert {"ingress_deparser emit order", "deparser emit order"} <= places


def _with_call(op: str, *parameters: Json) -> Json:
    source = _source("psa_externs")
    source["actions"][0]["primitives"] = [{"op": op, "parameters": list(parameters)}]
    return source


FIELD = {"type": "field", "value": ["results", "hash"]}


def _with_attribute(**attribute: Json) -> Json:
    source = _source("psa_externs")
    meter = next(each for each in source["extern_instances"] if each["type"] == "Meter")
    meter["attribute_values"] = [attribute]
    return source


REFUSED = {
    "a call without parameters": (_with_call("_Hash_get_hash"), "malformed"),
    "an attribute without value": (_with_attribute(name="algo", type="string"), "malformed"),
    "a number that is none": (_with_attribute(name="n_meters", type="hexstr", value="x"), "malformed"),
    "another extern": (_with_call("_Hash_get_hash", {"type": "extern", "value": "none"}, FIELD, FIELD), "no extern"),
    "no list": (_with_call("_Hash_get_hash", {"type": "extern", "value": "MyIngress.crc"}, FIELD, FIELD), "as input"),
    "adding entries": (_with_call("add_entry", {"type": "string", "value": "x"}, [], FIELD), "add_entry"),
    "no such counter": (
        _with_call("_Counter_count", {"type": "extern", "value": "none"}, {"type": "hexstr", "value": "0x1"}),
        "counter",
    ),
}


@pytest.mark.parametrize(("source", "says"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
def test_what_is_refused(source: Json, says: str) -> None:
    with pytest.raises(DetourError, match=says) as caught:
        Program(source)
    assert "\n" not in str(caught.value)


def test_a_colour_whose_result_is_not_used() -> None:
    # p4c's psa-meter1: the colour, then the index, both parameters of the action.
    meter = {"type": "extern", "value": "MyIngress.meter"}
    given = [{"type": "runtime_data", "value": number} for number in (1, 0)]
    source = _with_call("_Meter_execute", meter, *given)
    source["actions"][0]["runtime_data"] = [{"name": name, "bitwidth": 8} for name in ("index", "color")]
    for table in (table for pipeline in source["pipelines"] for table in pipeline["tables"]):
        if table["default_entry"]["action_id"] == source["actions"][0]["id"]:
            table["default_entry"]["action_data"] = ["0x3", "0x1"]
    (call,) = load(source).actions[0].json["primitives"]
    assert call["parameters"][1] == given[1]
    Program(source, traced=True)


def test_a_program_may_have_no_deparser() -> None:
    source = _source("psa_paths")
    del source["deparsers"]
    assert Program(source).max_header_bytes == 0


def test_a_switch_takes_the_programs_of_its_architecture_only(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["switch", "--arch", "pna", f"{PORTABLE / 'psa_paths.json'}", "--", "--grpc-server-addr", "127.0.0.1:0"]
    assert cli.main(line) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith("psa_paths.json: --arch pna: this is a program for psa")
