# SPDX-License-Identifier: Apache-2.0
"""A program for PSA that hashes inputs of many widths by many algorithms, made from what p4c made of `psa_externs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = Any
ALGORITHMS = ("crc16", "crc16_custom", "crc32", "crc32_custom", "crcCCITT", "csum16", "cksum16", "xor16", "identity")
WIDTHS = (1, 3, 4, 7, 8, 9, 12, 13, 17, 24, 31, 32)
TAIL_BITS = 5
"""of the destination, behind the lowest bits of the source"""
_EXTERNS = Path(__file__).resolve().parent / "programs" / "portable" / "psa_externs.json"
_RESULT_BITS = 32
"""BMv2 takes headers that grow by 512 bytes at most."""


def _field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def psa_hash_program() -> Json:
    """Answers with the header `results`: behind what it had, for every width and algorithm the hash of as many low bits
    of the source, the tail, and a byte of a header that is not there; of the last width also modulo 7 and plus 100."""
    program = json.loads(_EXTERNS.read_text())
    kinds = {kind["name"]: kind for kind in program["header_types"]}
    results, inputs = kinds["results_t"]["fields"], kinds["scalars_t"]["fields"]
    inputs += [["tail", TAIL_BITS, False], ["filled", -(TAIL_BITS + sum(WIDTHS)) % 8, False]]
    calls = [{"op": "assign", "parameters": [_field("scalars", "tail"), _field("ip", "destination")]}]
    calls.insert(0, {"op": "add_header", "parameters": [{"type": "header", "value": "results"}]})
    absent = {**next(h for h in program["headers"] if h["name"] == "ip"), "name": "absent"}
    absent["id"] = len(program["headers"])
    program["headers"].append(absent)
    for algorithm in ALGORITHMS:
        attributes = [{"name": "algo", "type": "string", "value": algorithm}]
        extern = {"name": algorithm, "id": 100 + len(program["extern_instances"]), "type": "Hash"}
        program["extern_instances"].append({**extern, "attribute_values": attributes})
    base, most = ({"type": "hexstr", "value": hex(number)} for number in (100, 7))
    for width in WIDTHS:
        inputs.append([f"w{width}", width, False])
        calls.append({"op": "assign", "parameters": [_field("scalars", f"w{width}"), _field("ip", "source")]})
        parts = [_field("scalars", f"w{width}"), _field("scalars", "tail"), _field("absent", "ttl")]
        for algorithm in ALGORITHMS:
            of, hashed = {"type": "extern", "value": algorithm}, {"type": "field_list", "value": parts}
            results.append([f"{algorithm}_{width}", _RESULT_BITS, False])
            calls.append({"op": "_Hash_get_hash", "parameters": [of, _field("results", results[-1][0]), hashed]})
            if width == WIDTHS[-1]:
                results.append([f"{algorithm}_modulo", _RESULT_BITS, False])
                target = _field("results", results[-1][0])
                calls.append({"op": "_Hash_get_hash_mod", "parameters": [of, target, base, hashed, most]})
    action = next(a for a in program["actions"] if any(p["op"] == "_Counter_count" for p in a["primitives"]))
    action["primitives"] = [*calls, *action["primitives"]]
    return program
