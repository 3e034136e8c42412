# SPDX-License-Identifier: Apache-2.0
"""Frames with valid checksums and arbitrary fields: nothing crashes, breaks state or touches other memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from detour.hosts.config import HostConfig
from detour.hosts.endpoint import MAX_FRAME, deadline, expire, receive, transmit
from detour.hosts.verbs import QP, CongestionControl, Path, QPInitAttr, QPState, SendWR, Transport
from tests.property.lossy import US, Pair, make_pair
from tests.unit.hosts.frames import reseal

CANDIDATES = [Path(1), Path(0x8001), Path(0x8002)]
SNAPSHOT = 12
"""own frames that are kept as raw material"""
PATIENCE = 500 * US


def mutate(source: random.Random, frame: bytes) -> bytes:
    """Changes some bytes behind UDP, perhaps the length, and reseals."""
    mutant = bytearray(frame)
    udp = 62 if frame[20] == 0 else 54
    if source.random() < 0.2:
        delta = source.choice([-24, -16, -4, -1, 1, 4, 40])
        mutant = mutant + bytes(delta) if delta > 0 else mutant[:delta]
        length = len(mutant) - udp
        if length >= 0:
            mutant[udp + 4 : udp + 6] = length.to_bytes(2, "big")
            mutant[18:20] = (len(mutant) - 54).to_bytes(2, "big")
    for _ in range(source.randint(1, 6)):
        # mostly headers; interesting values
        at = udp + 8 + min(source.randrange(60), source.randrange(len(mutant)))
        if at < len(mutant):
            mutant[at] = source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
    return reseal(mutant)


def check(pair: Pair) -> None:
    """The lists of every QP are what its counters say."""
    hs = pair.hs
    for i in (pair.qp_a.index, pair.qp_b.index):
        q = hs.qp[i]
        assert q["snd_una"] <= q["snd_nxt"] <= q["snd_end"]
        assert q["sq_una"] <= q["sq_end"] <= q["sq_una"] + hs.wqe.shape[1]
        flight = walk(hs.slot[i], int(q["flight_head"]), int(q["flight_tail"]), 1)
        lost = walk(hs.slot[i], int(q["lost_head"]), int(q["lost_tail"]), 2)
        assert len(lost) == q["n_lost"]
        current = [k for k in flight if hs.slot[i, k]["epoch"] == q["epoch"]]
        assert len(current) == q["inflight"]
        assert q["epoch_head"] == (current[0] if current else -1)
        order = [int(hs.slot[i, k]["txn"]) for k in flight]
        assert order == sorted(order)
        assert not set(flight) & set(lost)
        idle = q["snd_una"] == q["snd_end"] or q["state"] != QPState.RTS
        assert idle or q["active"] or q["heap_pos"] >= 0, "work to do and nothing that would wake the QP"
        assert q["heap_pos"] < 0 or hs.heap[q["host"], q["heap_pos"]]["who"] == i
        assert q["rcv_early"] == np.count_nonzero(hs.arrival[i]["flags"])


def renew(pair: Pair, source: random.Random, kind: dict[str, Any], now: int) -> None:
    """Replaces the QPs by new ones if one of them has failed, or has sent nothing for long: it waits for what a mutant
    refused, or has acknowledged although the receiver never saw it."""
    silent = now - pair.hs.qp[pair.qp_a.index]["last_sent"] > PATIENCE
    if QPState.ERR not in (pair.qp_a.state, pair.qp_b.state) and not silent:
        return
    pair.qp_a.close()
    pair.qp_b.close()
    pair.qp_a = QP(pair.pd_a, pair.cq_a, QPInitAttr(psn=source.choice([0, (1 << 24) - 5]), **kind))
    pair.qp_b = QP(pair.pd_b, pair.cq_b, QPInitAttr(**kind))
    pair.qp_a.connect(pair.qp_b.endpoint, candidates=CANDIDATES)
    pair.qp_b.connect(pair.qp_a.endpoint)
    pair.hs.qp[pair.qp_a.index]["last_sent"] = now


def walk(slots: np.ndarray, head: int, tail: int, state: int) -> list[int]:
    """Indices on a list, which must end where its tail is."""
    found: list[int] = []
    index = head
    while index != -1:
        assert slots[index]["state"] == state
        found.append(index)
        assert len(found) <= len(slots)
        index = int(slots[index]["next"])
    assert (found[-1] if found else -1) == tail
    return found


GO_BACK_N = {"transport": Transport.GO_BACK_N, "congestion_control": CongestionControl.DCQCN}


@pytest.mark.parametrize(
    ("seed", "kind"),
    [*((seed, {}) for seed in range(6)), *((seed, GO_BACK_N | {"reordering": seed > 7}) for seed in range(6, 10))],
)
def test_mutated_frames_with_valid_checksums(seed: int, kind: dict[str, Any]) -> None:
    source = random.Random(seed)
    config = HostConfig(
        ack_every=1 + seed % 3,
        cnp_interval_ps=seed % 2 * 50 * US,
        probe_backlog=2,
        delta3=5,
        retry_ps=2_000 * US,
        initial_rto_ps=100 * US,
        min_rto_ps=50 * US,
    )
    attr: dict[str, Any] = {"attr_a": QPInitAttr(**kind), "attr_b": QPInitAttr(**kind)}
    pair = make_pair(memory=1 << 16, config=config, seed=seed, connect={"candidates": CANDIDATES}, window=32, **attr)
    allowed = np.zeros(len(pair.hs.memory), bool)
    allowed[pair.mr_b.addr : pair.mr_b.addr + pair.mr_b.length] = True
    before = pair.hs.memory.copy()
    buf = np.zeros(2 * MAX_FRAME, np.uint8)
    frames: list[tuple[int, bytes]] = []
    now = 0
    for step in range(6000):
        now += source.randrange(3 * US)
        q = pair.hs.qp[pair.qp_a.index]
        if step % 50 == 0 and q["sq_end"] - q["sq_una"] < 8:
            wr = SendWR(step, pair.mr_a.sge(0, 9000), pair.mr_b.addr, pair.mr_b.rkey, imm_data=step)
            pair.qp_a.post_send(wr)
        for host in (0, 1):
            if length := int(transmit(pair.hs, host, buf, 0, now)):
                frames = [*frames[-SNAPSHOT:], (1 - host, buf[:length].tobytes())]
            if deadline(pair.hs, host) <= now:
                expire(pair.hs, host, now)
        if frames:
            host, frame = source.choice(frames)
            frame = frame if source.random() < 0.3 else mutate(source, frame)
            buf[: len(frame)] = np.frombuffer(frame, np.uint8)
            receive(pair.hs, host, buf, 0, len(frame), now)
        pair.cq_a.poll()
        pair.cq_b.poll()
        if step % 20 == 0:
            check(pair)
            assert pair.hs.qp[pair.qp_a.index]["srtt"] <= now
            renew(pair, source, kind, now)
    assert (before == pair.hs.memory)[~allowed].all()
    for cq in (pair.cq_a, pair.cq_b):
        assert 0 <= pair.hs.cq[cq.index]["reserved"] <= 10
    counters = pair.a.stats()
    assert counters["rx_bad_icrc"] == counters["rx_bad_checksum"] == 0, "the mutants got past the checksums"
    assert counters["rx_malformed"] > 0
    assert counters["tx_frames"] > 200, "connections that a mutant broke are replaced, traffic goes on"


def test_uncompiled_code_does_the_same() -> None:
    """`NUMBA_DISABLE_JIT=1` runs every function as Python; the frames are the same to the last byte."""
    program = (
        "import hashlib, random\n"
        "from tests.property.lossy import *\n"
        "from detour.hosts.verbs import *\n"
        "pair = make_pair(memory=1 << 16, seed=3, connect={'candidates': [Path(1), Path(0x8001), Path(0x8002)]})\n"
        "weather = Weather(loss=0.1, duplicate=0.05, corrupt=0.05, reorder=0.05, mark=0.1)\n"
        "digest = hashlib.sha256()\n"
        "net = Network(pair.hs, weather, 3, filter=lambda host, frame: digest.update(frame) or frame)\n"
        "pair.qp_a.post_send(SendWR(1, pair.mr_a.sge(0, 60_001), pair.mr_b.addr, pair.mr_b.rkey, 5))\n"
        "assert net.run(lambda: bool(pair.cq_a.poll())), net.schedule()\n"
        "assert pair.mr_b.read(60_001) == pair.mr_a.read(60_001)\n"
        "print(net.now, net.frames, digest.hexdigest())\n"
    )

    def run(disable: str) -> str:
        environment = os.environ | {"NUMBA_DISABLE_JIT": disable}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("0") == run("1")
