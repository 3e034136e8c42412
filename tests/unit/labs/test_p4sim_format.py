# SPDX-License-Identifier: Apache-2.0
"""p4sim's `topo.txt`: numbers of ports and addresses as its scripts give them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from detour.base.errors import DetourError
from detour.fabric.labs.model import Lab, LabEnd

ReadLab = Callable[..., Lab]
TOPO = "2 2 3\n2 h 0 s 1000Mbps 0.1ms\n0 s 1 s 10Gbps 5us\n3 h 1 s 40Mbps 1ms\n0 BASIC\n1 BASIC\n"


def test_nodes_ports_and_addresses(lab: ReadLab, tmp_path: Path) -> None:
    parsed = lab(topo__txt=TOPO, flowtable_1__txt="")
    assert [s.name for s in parsed.switches] == ["s0", "s1"]
    assert parsed.switch("s1").commands == tmp_path / "flowtable_1.txt"
    assert parsed.switch("s0").commands is None
    assert [(h.name, str(h.address), h.mac) for h in parsed.hosts] == [
        ("h0", "10.1.1.1/24", "00:00:00:00:00:01"),
        ("h1", "10.1.1.2/24", "00:00:00:00:00:05"),
    ]
    assert [(k.a, k.b) for k in parsed.links] == [
        (LabEnd("h0", 0), LabEnd("s0", 0)),
        (LabEnd("s0", 1), LabEnd("s1", 0)),
        (LabEnd("h1", 0), LabEnd("s1", 1)),
    ]
    assert [(k.rate_bps, k.delay_ps) for k in parsed.links] == [(10**9, 10**8), (10**10, 5 * 10**6), (4 * 10**7, 10**9)]


def test_the_flow_tables_say_which_network_hosts_have(lab: ReadLab) -> None:
    parsed = lab(topo__txt=TOPO, flowtable_0="table_add arp set 0x0A010001 => 0x1\n")
    assert [str(h.address) for h in parsed.hosts] == ["10.1.0.1/24", "10.1.0.2/24"]


@pytest.mark.parametrize(
    ("topo", "text"),
    [
        ("", "line 1: expected three numbers"),
        ("1 two 3\n", "line 1: expected three numbers"),
        ("2 2 9\n2 h 0 s 1Gbps 1ms\n", "line 1: 9 links are declared, 1 follow"),
        (TOPO.replace("3 h 1 s", "4 h 1 s"), r"line 4: there is no node 4 h; switches are 0 to 1 \(s\), hosts 2 to 3"),
        (TOPO.replace("3 h 1 s", "3 s 1 s"), "line 4: there is no node 3 s"),
        (TOPO.replace("40Mbps", "fast"), "line 4: 'fast' is not a rate"),
        (TOPO.replace("5us", "late"), "line 3: 'late' is not a delay"),
        (TOPO.replace(" 5us", ""), "line 3: expected a link"),
        (TOPO.replace("1 BASIC", "7 BASIC"), "line 6: expected a switch"),
        (TOPO.replace("3 h 1 s", "2 h 1 s"), "line 4: h0 has a second link"),
    ],
)
def test_what_is_refused(lab: ReadLab, topo: str, text: str) -> None:
    with pytest.raises(DetourError, match=f"topo.txt, {text}"):
        lab(topo__txt=topo)
