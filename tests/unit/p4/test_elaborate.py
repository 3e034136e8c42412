# SPDX-License-Identifier: Apache-2.0
"""Instances from `main` down, their bindings and names."""

from __future__ import annotations

from detour.p4 import core
from detour.p4.elaborate import Block, Elaboration, elaborate
from tests.unit.p4.checking import check

SOURCE = """
#include <core.p4>
extern Extra { Extra(bit<32> size); void use(); }
control C();
package Top(C one, C two);
Extra(7) shared;
control Inner()(bit<32> n, Extra e) {
    Extra(n) own;
    @name("x.y") action a() { own.use(); e.use(); }
    @name(".global") table t { actions = { a; } }
    table u { actions = { a; NoAction; } }
    apply { t.apply(); u.apply(); }
}
control Direct() { Extra(1) d; apply { d.use(); } }
control One() {
    @name("renamed") Inner(32w5, shared) first;
    Inner(9, Extra(11)) second;
    apply { first.apply(); second.apply(); Direct.apply(); }
}
@name("Other") control Two() { apply { } }
Top(One(), Two()) main;
"""


def _elaborated(source: str) -> Elaboration:
    checked = check(source)
    assert checked.program is not None, checked.errors
    elaboration = elaborate(checked.program)
    assert elaboration is not None
    return elaboration


def _block(elaboration: Elaboration, name: str) -> Block:
    return next(block for block in elaboration.blocks if block.name == name)


def test_names_follow_the_instances() -> None:
    elaboration = _elaborated(SOURCE)
    names = [block.name for block in elaboration.blocks]
    of_one = ["One", "One.renamed", "One.renamed.own", "One.second", "One.second.e", "One.second.own"]
    assert sorted(names) == sorted([*of_one, "One.Direct", "One.Direct.d", "Two", "shared"])


def test_names_inside_an_instance() -> None:
    elaboration = _elaborated(SOURCE)
    block = _block(elaboration, "One.renamed")
    assert isinstance(block.declaration, core.Control)
    named = {one.name: block.name_of(one) for one in block.declaration.locals if isinstance(one, core.Declaration)}
    assert named == {"own": "One.renamed.own", "a": "One.renamed.x.y", "t": "global", "u": "One.renamed.u"}
    tables = [one for one in block.declaration.locals if isinstance(one, core.Table)]
    assert block.name_of(tables[1].actions[1].action) == "NoAction"


def test_constructor_parameters_have_values() -> None:
    elaboration = _elaborated(SOURCE)
    first, second = _block(elaboration, "One.renamed"), _block(elaboration, "One.second")
    assert first.arguments["e"] is _block(elaboration, "shared")
    assert second.arguments["e"] is _block(elaboration, "One.second.e")
    for block, size in (("One.renamed.own", 5), ("One.second.own", 9), ("One.second.e", 11), ("shared", 7)):
        value = _block(elaboration, block).arguments["size"]
        assert isinstance(value, core.Literal)
        assert value.value == size


def test_arguments_of_the_package() -> None:
    elaboration = _elaborated(SOURCE)
    assert {name: value.name for name, value in elaboration.main.arguments.items() if isinstance(value, Block)} == {
        "one": "One",
        "two": "Two",
    }
