# SPDX-License-Identifier: Apache-2.0
"""How many small changes of programs the tests find that `detour test` generates: operators, constants, and fields of
tables' keys, drawn with a seed.

    python -m tests.differential.mutants                      # 200 in five programs; minutes
    python -m tests.differential.mutants --count 10 kinds     # fewer, in one

A change that no test finds is equivalent if z3 proves that every packet leaves as from the program itself
(`equivalence`); otherwise it was missed.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError, InternalError
from detour.base.places import BUILD
from detour.engine.compiler.program import Program
from detour.p4.build import build
from detour.testgen.generate import Plan, generate
from detour.testgen.switch import TestSwitch, differences
from detour.testgen.testcase import Test
from tests.differential.equivalence import equivalent
from tests.differential.p4testgen import use_cpu_time

LABS = Path(__file__).parents[2] / "docs" / "labs"
PROGRAMS: dict[str, Callable[[], Path]] = {
    "load_balancer": lambda: build(LABS / "load-balancer" / "load_balancer.p4").json,
    "ecn": lambda: build(LABS / "ecn" / "ecn.p4").json,
    "ipv4": lambda: BUILD / "ipv4.json",
    "sai": lambda: BUILD / "sai.json",
    "fabric": lambda: BUILD / "fabric.json",
}
"""without registers that packets write: what changes there only later packets show"""
_OPERATORS = {
    "==": ["!="], "!=": ["=="], "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="],
    "and": ["or"], "or": ["and"], "+": ["-"], "-": ["+"], "&": ["|"], "|": ["&"], "^": ["|"], "<<": [">>"],
    ">>": ["<<"], "*": ["+"],
}  # fmt: skip
Change = tuple[str, Callable[[], None]]


def changes(program: Any) -> Iterator[Change]:
    """All that could be changed of a program (BMv2 JSON), in words and as a function that does it."""
    for pipeline in program["pipelines"]:
        for table in pipeline["tables"]:
            yield from _keys(program, table)
        yield from _expressions(pipeline["conditionals"], pipeline["name"])
    used = {number for p in program["pipelines"] for t in p["tables"] for number in t["action_ids"]}
    for action in program["actions"]:
        if action["id"] in used:
            yield from _expressions(action["primitives"], action["name"])
    for parser in program["parsers"]:
        for state in parser["parse_states"]:
            yield from _expressions([op for op in state["parser_ops"] if op["op"] == "set"], state["name"])
            for transition in state["transitions"]:
                if transition.get("type") == "hexstr":
                    yield from _constant(transition, f"{state['name']}: select")


def _keys(program: Any, table: Any) -> Iterator[Change]:
    """Another field of the same header and width."""
    kinds = {header["name"]: header["header_type"] for header in program["headers"]}
    types = {each["name"]: each["fields"] for each in program["header_types"]}
    for part in table["key"] if "entries" not in table else ():
        header, name = part["target"]
        fields = {field[0]: field[1] for field in types[kinds[header]]}
        for other, bits in fields.items():
            if other != name and bits == fields.get(name) and not other.startswith("_padding"):
                text = f"{table['name']}: key {header}.{name} is {header}.{other}"
                yield text, lambda part=part, header=header, other=other: part.update(target=[header, other])


def _expressions(node: Any, where: str) -> Iterator[Change]:
    if isinstance(node, list):
        for each in node:
            yield from _expressions(each, where)
    elif isinstance(node, dict):
        place = (node.get("source_info") or {}).get("line")
        where = f"{where.split(' line ')[0]} line {place}" if place else where
        for other in _OPERATORS.get(node.get("op", ""), []) if "left" in node else ():
            yield f"{where}: {node['op']} is {other}", lambda node=node, other=other: node.update(op=other)
        if node.get("type") == "hexstr" and isinstance(node.get("value"), str):
            yield from _constant(node, where)
        for each in node.values():
            yield from _expressions(each, where)


def _constant(node: Any, where: str) -> Iterator[Change]:
    value = int(node["value"], 16)
    digits = len(node["value"].removeprefix("-").removeprefix("0x"))
    if value >= 0:
        text = f"0x{value ^ 1:0{digits}x}"
        yield f"{where}: {node['value']} is {text}", lambda: node.update(value=text)


def drawn(source: Any, count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Changed programs."""
    total = len(list(changes(source)))
    for number in sorted(random.Random(seed).sample(range(total), min(count, total))):
        program = copy.deepcopy(source)
        text, change = list(changes(program))[number]
        change()
        yield text, program


def found(file: Path, tests: list[Test]) -> bool:
    """Whether a test is not as expected on a program, or the engine refuses the program."""
    try:
        program = Program.from_json(file)
    except (DetourError, InternalError):
        return True
    with TestSwitch(program) as switch:
        for test in tests:
            try:
                if differences(switch.play(test.stf())):
                    return True
            except DetourError:
                return True
    return False


def judge(name: str, count: int, seed: int, seconds: float) -> Counter[str]:
    """Prints the changes that no test finds, and returns how many are found, equivalent, missed."""
    file = PROGRAMS[name]()
    generated = generate(file, Plan(seconds=seconds))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        mutant = Path(folder) / f"{name}.json"
        for text, program in drawn(json.loads(file.read_text()), count, seed):
            mutant.write_text(json.dumps(program))
            verdict = (
                "found" if found(mutant, generated.tests) else "equivalent" if equivalent(file, mutant) else "missed"
            )
            counts[verdict] += 1
            if verdict != "found":
                print(f"{name}: {verdict}: {text}", flush=True)
    shown = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    print(f"{name}: {len(generated.tests)} tests: {shown}", flush=True)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help=", ".join(PROGRAMS))
    parser.add_argument("--count", type=int, default=97)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0, help="of CPU for the tests of a program (120)")
    options = parser.parse_args()
    use_cpu_time()
    counts: Counter[str] = Counter()
    for name in options.programs or PROGRAMS:
        counts += judge(name, options.count, options.seed, options.seconds)
    different = counts["found"] + counts["missed"]
    print(
        f"{counts['found']} of {different} changes that are not equivalent: {100 * counts['found'] / different:.1f} %"
    )


if __name__ == "__main__":
    main()
