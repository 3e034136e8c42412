# SPDX-License-Identifier: Apache-2.0
"""Entries of generated tests obey what the program demands of them: the engine's P4Runtime server takes all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from detour import cli
from detour.engine.compiler.ir import const
from detour.fabric.tracing.stf import StfAdd, parse_stf
from detour.fabric.tracing.stf_player import StfRun
from detour.p4.build import build
from detour.testgen.entries import Searched, anything_of, chosen_entries, exact_match
from detour.testgen.generate import Generated, Plan, generate, load
from detour.testgen.p4runtime import Entities
from detour.testgen.rules import EntryRules
from detour.testgen.state import z3
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.testcase import Entry
from tests.ptf.p4rt import Client, Schema, WriteError
from tests.ptf.platforms import EnginePlatform

RULES = Path(__file__).parent / "rules.p4"
BUILT = build(RULES)


@pytest.fixture(scope="module")
def generated() -> Generated:
    return generate(BUILT.json, Plan(p4info=BUILT.p4info))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    platform = EnginePlatform()
    with Client(platform.address) as client:
        yield client
    platform.close()


def _refused(client: Client, generated: Generated) -> list[str]:
    """The tests that the server does not take, as text."""
    entities = Entities(BUILT.p4info)
    config = Schema.load(BUILT.p4info).config(BUILT.json.read_bytes())
    refused = []
    for test in generated.tests:
        client.set_pipeline(config)
        try:
            for each in entities.of(test):
                default = getattr(each, "is_default_action", False)
                client.write(("MODIFY" if default else "INSERT", each.encode(entities.schema)))
        except (WriteError, ValueError) as error:  # or finsy refuses it
            refused.append(f"{error}: {test.stf()}")
    return refused


def test_the_server_takes_them(client: Client, generated: Generated) -> None:
    assert len(generated.tests) > 10
    assert _refused(client, generated) == []


def test_without_p4info_it_would_refuse_some(client: Client) -> None:
    refused = _refused(client, generate(BUILT.json, Plan()))
    rules = ("@entry_restriction is not met", "@action_restriction is not met", "@refers_to")
    assert any(rule in each for rule in rules for each in refused)


def test_what_restrictions_exclude_is_proven_unreachable(generated: Generated) -> None:
    assert not generated.unknown
    excluded = [each.where for each in generated.unreachable]
    assert any("hdr.h.id = 8" in where for where in excluded)
    assert all("id = 8" in where or "kind == 7" in where for where in excluded)


def test_a_packet_may_hit_what_an_entry_refers_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`set_hop` refers to an entry of `hops`, which is added, where z3 has the packet hit none."""
    text = RULES.read_text().replace("hops.apply();", "if (!hops.apply().hit && m.hop != 0) { hdr.h.rest = 9; }")
    text = text.replace("default_action", "const default_action")
    (tmp_path / "hops.p4").write_text(text)
    built = build(tmp_path / "hops.p4")
    refused: list[str] = []
    play = TestSwitch.play

    def noted(switch: TestSwitch, text: str, path: Path = Path("test.stf")) -> StfRun:
        run = play(switch, text, path)
        refused.extend(differences(run))
        return run

    monkeypatch.setattr(TestSwitch, "play", noted)
    generated = generate(built.json, Plan(p4info=built.p4info))
    assert any("rest = 9" in each.where for each in generated.unknown)
    assert refused == []


def test_wide_matches_are_tested_where_only_they_are_allowed(generated: Generated) -> None:
    adds = [each for test in generated.tests for each in parse_stf(test.stf()) if isinstance(each, StfAdd)]
    rules = [{match.field: match.number for match in each.key} for each in adds if each.table == "I.rules"]
    assert any(key["id"].mask == 0 for key in rules)
    assert any(key["id"].mask != 0 for key in rules)


@pytest.mark.parametrize(
    "text",
    [
        'tables { nothing: 1 annotations: "@refers_to(a, b)" }',
        "nothing {\n  more: 1\n}\n",
        BUILT.p4info.read_text().replace("@", "")[:1000],
        "{}",
    ],
    ids=["demands", "names", "cut off", "JSON"],
)
def test_a_p4info_that_is_none_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.json").write_bytes(BUILT.json.read_bytes())
    (tmp_path / "rules.p4info.txtpb").write_text(text)
    assert cli.main(["test", str(tmp_path / "rules.json")]) == 2
    assert f"{tmp_path}/rules.p4info.txtpb is not P4Info in text format: " in capsys.readouterr().err


def test_actions_are_where_they_may_be(tmp_path: Path) -> None:
    text = RULES.read_text().replace("{ set_hop; NoAction; }", "{ set_hop; @defaultonly NoAction; }")
    text = text.replace("{ mark; NoAction; }", "{ @tableonly mark; NoAction; }")
    (tmp_path / "scopes.p4").write_text(text)
    built = build(tmp_path / "scopes.p4")
    told, alone = (generate(built.json, Plan(p4info=p4info)).tests for p4info in (built.p4info, None))
    for tests, actions in ((told, {"I.set_hop"}), (alone, {"I.set_hop", "NoAction"})):
        assert {e.action for test in tests for e in test.entries if e.table == "I.routes"} == actions
    rules = EntryRules(built.p4info, load(built.json, Plan()).model.tables)
    assert z3.is_false(rules.of_call("I.rules", False, "I.mark", [const(8, 1)]))
    assert not z3.is_false(rules.of_call("I.rules", True, "I.mark", [const(8, 1)]))


def test_an_entry_refers_to_a_table_to_which_its_packet_does_not_come(tmp_path: Path) -> None:
    text = RULES.read_text().replace("hops.apply();", "if (hdr.h.kind == 3) { hops.apply(); }")
    (tmp_path / "apart.p4").write_text(text)
    built = build(tmp_path / "apart.p4")
    tests = generate(built.json, Plan(p4info=built.p4info)).tests
    actions = [{entry.action for entry in test.entries} for test in tests if test.packets[0].frame[0] != 3]
    assert any("I.set_hop" in some for some in actions)


def test_entries_beside_those_that_are_hit_match_nothing() -> None:
    """Also where a table is searched for several keys, and where a part of a key matches everything."""
    table = load(BUILT.json, Plan()).model.pipelines["ingress"].tables["I.rules"]
    keys = [tuple(exact_match(table, at, value) for at, value in enumerate(key)) for key in ((1, 5, 3), (1, 4, 3))]
    hit, missed = (Entry("I.rules", key, "I.mark", (("flags", 1),), 1) for key in keys)
    wide = replace(hit, key=(*map(anything_of, keys[0][:2]), keys[0][2]))
    choose = random.Random(0)
    alone = chosen_entries([Searched(table, hit, True)], [], choose, tight=True)
    assert missed.key in {each.key for each in alone}
    both = chosen_entries([Searched(table, hit, True), Searched(table, missed, False)], [missed], choose)
    assert hit in both
    assert missed.key not in {each.key for each in both}
    near = chosen_entries([Searched(table, wide, True)], [], choose, tight=True)
    assert [each.key[2].value for each in near] == [3, 2]
    routes = load(BUILT.json, Plan()).model.pipelines["ingress"].tables["I.routes"]
    route = Entry("I.routes", (anything_of(exact_match(routes, 0, 5)), exact_match(routes, 1, 4)), "NoAction", (), None)
    near = chosen_entries([Searched(routes, route, True)], [], choose, tight=True)
    assert [(each.key[0], each.key[1].value) for each in near] == [(route.key[0], 4), (route.key[0], 5)]
