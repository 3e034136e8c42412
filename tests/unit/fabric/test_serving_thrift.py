# SPDX-License-Identifier: Apache-2.0
"""The socket at which a fabric serves BMv2's runtime API of all its switches."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pytest

from detour.base.addresses import UnixAddress, parse
from detour.base.errors import DetourError
from detour.engine.bmv2api.client import connect
from detour.engine.clock import Virtual
from detour.engine.network import Network
from detour.fabric.backends.serving import Serving
from detour.topo import parse_topology


def test_switches_are_asked_by_their_names(tmp_path: Path) -> None:
    switches = parse_topology("dragonfly:p=1,a=2,h=1").switches
    with Network(Virtual(), packets=64) as network, closing(Serving(scratch=tmp_path / "scratch")) as serving:
        for switch in switches:
            network.add_switch(switch.device_id, switch.name)
        serving.serve(network, switches)
        address = parse(serving.details().thrift, "Thrift")
        assert isinstance(address, UnixAddress)
        assert stat.S_IMODE(address.path.parent.stat().st_mode) == 0o700
        for switch in switches:
            with connect(address, switch.name) as connection:
                assert connection.standard.bm_mgmt_get_info().device_id == switch.device_id
                assert connection.standard.bm_get_config() == ""
                with pytest.raises(DetourError, match="the switch has no program yet"):
                    connection.standard.bm_mt_get_num_entries("t")
    assert not (tmp_path / "scratch").exists()
