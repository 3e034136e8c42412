# SPDX-License-Identifier: Apache-2.0
"""Native hosts on the loop: frames, deadlines, kicks, the same bytes for the same seed."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from script_program import CrossProgram, ScriptState

from detour.base.errors import DetourError
from detour.engine.clock import Clock, RealTime, Virtual
from detour.engine.network import Network
from detour.hosts.config import HostConfig
from detour.hosts.endpoint import make_hosts
from detour.hosts.parameters import real_time
from detour.hosts.verbs import CQ, MR, PD, QP, AccessFlag, Context, Device, SendWR, WCStatus
from tests.waiting import until

US = 1_000_000
MS = 1_000_000_000
GBIT = 1_000_000_000
SIZE = 300_000
WRITE = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE


class Pair:
    """Hosts 0 and 1 on a chain of two switches, and a message from the one to the other."""

    def __init__(self, clock: Clock, config: HostConfig, seed: int = 3, rate_bps: int = 100 * GBIT) -> None:
        hosts = make_hosts(2, 2, 1 << 21, config=config, seed=seed)
        self.net = Network(clock, seed=seed, hosts=hosts)
        program = CrossProgram()
        for device_id in (1, 2):
            self.net.add_switch(device_id)
            self.net.set_pipeline(device_id, program, ScriptState())
        self.net.attach_host((1, 1), 0, rate_bps, US)
        self.net.attach_host((2, 2), 1, rate_bps, US)
        self.net.connect((1, 2), (2, 1), rate_bps, US)
        device = Device(hosts, self.net.call, self.net.kick_host)
        self._keep: list[Any] = [device]
        sides = []
        for host in (0, 1):
            pd = PD(Context(device, host))
            cq = CQ(pd.context)
            sides.append((MR(pd, SIZE, WRITE), cq, QP(pd, cq)))
            self._keep.append(pd)
        (self.source, self.cq, self.qp), (self.target, _, far) = sides
        self.qp.connect(far.endpoint)
        far.connect(self.qp.endpoint)
        self._keep.append(far)
        self.data = np.random.default_rng(seed).integers(0, 256, SIZE, np.uint8).tobytes()
        self.source.write(self.data)

    def post(self) -> None:
        self.qp.post_send(SendWR(1, self.source.sge(), self.target.addr, self.target.rkey))

    def done(self) -> bool:
        completions = self.cq.poll()
        assert all(c.status == WCStatus.SUCCESS for c in completions)
        return bool(completions)


def test_a_message_in_virtual_time():
    pair = Pair(Virtual(), HostConfig())
    with pair.net as net:
        pair.post()
        net.run(200 * US)
        assert pair.done()
        assert pair.target.read() == pair.data
        stats = net.host_stats()
        assert stats["tx_packets"][0] >= SIZE // 1000
        assert stats["rx_packets"].tolist() == stats["tx_packets"].tolist()[::-1]
        assert net.loop_stats()["used"] == 0
        assert int(net.switch_stats()["packets"].sum()) == 2 * int(stats["tx_packets"].sum())


def test_zero_load_latency_is_the_sum_of_its_parts():
    pair = Pair(Virtual(), HostConfig())
    with pair.net as net:
        pair.post()
        # The first frame needs three times to be sent and to travel.
        size = 14 + 40 + 8 + 8 + 12 + 16 + 1000 + 4
        one_way = 3 * (size * 8 * 10 + US)
        net.run(one_way - 1)
        assert net.host_stats()["rx_packets"][1] == 0
        net.run(one_way)
        assert net.host_stats()["rx_packets"][1] == 1


def _digest(seed: int, tmp_path: Any) -> str:
    pair = Pair(Virtual(), HostConfig(), seed=seed)
    with pair.net as net:
        net.capture(tmp_path)
        net.set_faults((1, 2), loss=0.02, duplicate=0.02, corrupt=0.02)
        pair.post()
        net.run(100 * MS)
        assert pair.target.read() == pair.data
    files = sorted(tmp_path.iterdir())
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()


def test_same_seed_same_bytes(tmp_path):
    digests = [_digest(seed, tmp_path / name) for name, seed in (("a", 7), ("b", 7), ("c", 8))]
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_a_message_in_real_time():
    rate = 200_000_000
    pair = Pair(RealTime(), real_time(rate), rate_bps=rate)
    with pair.net as net:
        net.start()
        pair.post()
        until(pair.done)
        assert pair.target.read() == pair.data


def test_attaching_hosts_wrongly():
    with Network(Virtual(), hosts=make_hosts(2, 2)) as net:
        net.add_switch(1)
        net.attach_host((1, 1), 0)
        with pytest.raises(DetourError, match="host 0 is already attached"):
            net.attach_host((1, 2), 0)
        with pytest.raises(DetourError, match="there is no host 2"):
            net.attach_host((1, 2), 2)
        with pytest.raises(DetourError, match="host 1 is not attached"):
            net.kick_host(1)
    with pytest.raises(DetourError, match="native hosts need"):
        Network(Virtual(), hosts=make_hosts(2, 2), frame_bytes=1500)
