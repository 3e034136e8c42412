# SPDX-License-Identifier: Apache-2.0
"""Externs of PSA in BMv2's primitives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from detour.p4.compile import compile_file

_PROGRAM = """
#include <core.p4>
#include <psa.p4>
header head_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ head_t h; }}
struct none_t {{ }}
struct pair_t {{ bit<8> a; bit<8> b; }}
parser InP(packet_in p, out headers_t h, inout none_t m, in psa_ingress_parser_input_metadata_t i, in none_t r,
           in none_t c) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
parser OutP(packet_in p, out headers_t h, inout none_t m, in psa_egress_parser_input_metadata_t i, in none_t n,
            in none_t c, in none_t e) {{
    state start {{ transition accept; }}
}}
control In(inout headers_t h, inout none_t m, in psa_ingress_input_metadata_t i,
           inout psa_ingress_output_metadata_t o) {{
    {locals}
    action body() {{ {body} }}
    apply {{ body(); }}
}}
control Out(inout headers_t h, inout none_t m, in psa_egress_input_metadata_t i,
            inout psa_egress_output_metadata_t o) {{ apply {{ }} }}
control InD(packet_out p, out none_t c, out none_t r, out none_t n, inout headers_t h, in none_t m,
            in psa_ingress_output_metadata_t o) {{ apply {{ p.emit(h.h); }} }}
control OutD(packet_out p, out none_t c, out none_t r, inout headers_t h, in none_t m,
             in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t d) {{ apply {{ }} }}
IngressPipeline(InP(), In(), InD()) ip;
EgressPipeline(OutP(), Out(), OutD()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
"""


def _result(folder: Path, body: str, declarations: str = "") -> Any:
    path = folder / "program.p4"
    path.write_text(_PROGRAM.format(body=body, locals=declarations))
    return compile_file(path)


def test_assert_and_assume_are_primitives(tmp_path: Path) -> None:
    result = _result(tmp_path, "assert(h.h.a == 1); assume(h.h.b == 2);")
    assert not result.errors
    operations = [primitive["op"] for action in result.json["actions"] for primitive in action["primitives"]]
    assert operations == ["assert", "assume"]


def test_a_register_of_structures_is_refused(tmp_path: Path) -> None:
    (error,) = _result(tmp_path, "h.h.a = r.read(1).a;", "Register<pair_t, bit<8>>(8) r;").errors
    assert error.text == "a register of BMv2 holds numbers, not pair_t"
