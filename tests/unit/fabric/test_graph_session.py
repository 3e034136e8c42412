# SPDX-License-Identifier: Apache-2.0
"""A network from a file, booted on the engine: tables are verified, and messages arrive."""

from __future__ import annotations

from pathlib import Path

from detour.fabric.daemon.daemon import UpOptions, boot


def test_a_network_from_a_file_is_booted(tmp_path: Path) -> None:
    path = tmp_path / "house.edges"
    path.write_text("a b\nb c {'speed': 2}\nc d\nd e\ne a {'delay_us': 50}\na c\n")
    session = boot(UpOptions("engine", f"graph:{path}"))
    try:
        assert session.verify().verified
        assert session.send("h0", "h3", 3000).bytes_ok == 3000
        assert session.send("h1", "h4", 3000, usid="s2,s3,s4").paths[0].switches == ["s1", "s2", "s3", "s4"]
    finally:
        session.close()


def test_a_table_of_links_is_booted(tmp_path: Path) -> None:
    """The links between switches are faster and longer than those of hosts."""
    path = tmp_path / "net.csv"
    path.write_text("a,b,gbps,delay_ns\nh0,s0,100,\nh1,s2,100,\ns0,s1,400,500\ns1,s2,400,\ns0,s3,,\ns3,s2,,\n")
    session = boot(UpOptions("engine", str(path)))
    try:
        assert session.verify().verified
        assert session.send("h0", "h1", 3000).bytes_ok == 3000
        assert session.topology.spec.startswith(f"{path}#")
    finally:
        session.close()
