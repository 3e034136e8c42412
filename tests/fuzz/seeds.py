# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: programs, the state that they run on, packets to begin with and words that they ask for."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from detour.base.places import BUILD
from detour.control.entries import Plan
from detour.control.planner import plan
from detour.engine.compiler.program import Program
from detour.engine.state import SwitchState
from detour.experiments.bench.dragonfly import D1, frame
from detour.fabric.backends.virtual.load import load
from detour.topo import Topology, address, parse_topology
from tests.differential.packets import PacketMaker, Pool
from tests.fuzz.job import SEED_BYTES
from tests.fuzz.populate import Populator

PROGRAMS = Path(__file__).resolve().parents[1] / "programs"
FABRIC = "fabric"
_FRAMES = 48
_WORD_BYTES = 16
_NO_NETWORK: Any = SimpleNamespace(set_clone_session=lambda *_: None, set_multicast_group=lambda *_: None)


@dataclass
class Subject:
    """A program with its state, packets and words for one round."""

    program: Program
    state: SwitchState
    packets: list[bytes]
    words: list[bytes]


def corpus() -> list[str]:
    """All programs under tests/, by path."""
    files = (p for p in PROGRAMS.rglob("*.json") if "pipelines" in json.loads(p.read_text()))
    return sorted(str(p.relative_to(PROGRAMS)) for p in files)


@cache
def text(name: str) -> str:
    """The BMv2 JSON of a program of the corpus, or of fabric.p4."""
    return (BUILD / "fabric.json" if name == FABRIC else PROGRAMS / name).read_text()


@cache
def source(name: str) -> dict[str, Any]:
    """The same, read."""
    return json.loads(text(name))


@cache
def words(name: str) -> list[bytes]:
    """Constants of a program as bytes, each as wide as it is written."""
    return _words(source(name))


@cache
def _dragonfly() -> tuple[Topology, Plan]:
    topology = parse_topology(D1)
    return topology, plan(topology)


@cache
def _fabric_program() -> Program:
    return Program.from_json(source(FABRIC))


def make(name: str, rng: random.Random) -> Subject:
    """A subject; everything random about it comes from `rng`."""
    program_json = source(name)
    pool = Pool(program_json, rng)
    maker = PacketMaker(program_json, pool, rng)
    packets = [maker.frame()[1] for _ in range(_FRAMES)]
    if name == FABRIC:
        program = _fabric_program()
        state = _fabric_state(program, rng)
        packets += _fabric_packets(rng)
    else:
        program = Program.from_json(program_json)
        state = SwitchState(program, rng.getrandbits(32))
        Populator(state, pool, rng).everything()
    if rng.random() < 0.5:
        state.enable_log()
    return Subject(program, state, packets, words(name))


def _fabric_state(program: Program, rng: random.Random) -> SwitchState:
    """One of the switches of D1 as the planner programs it."""
    topology, plans = _dragonfly()
    device = rng.choice(topology.switches).device_id
    state = SwitchState(program, rng.getrandbits(32))
    load(_NO_NETWORK, device, state, plans[device])
    return state


def _fabric_packets(rng: random.Random) -> list[bytes]:
    """Between any hosts, by addresses and by uSID lists of any switches."""
    topology, _ = _dragonfly()
    made = []
    for _ in range(_FRAMES):
        source_host, target = rng.sample(topology.hosts, 2)
        destination = target.address
        if rng.random() < 0.5:
            switches = rng.choices(topology.switches, k=rng.randrange(1, 5))
            destination = address.usid_address([*(s.node_id for s in switches), target.node_id])
        made.append(frame(source_host, destination, rng.getrandbits(16), rng.choice((64, 80, 128, 300)), 64))
    return made


def _words(node: Any) -> list[bytes]:
    seen: set[bytes] = set()

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            value = node.get("value")
            if node.get("type") == "hexstr" and isinstance(value, str) and value.startswith("0x"):
                digits = value[2:]
                seen.add(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)))
            node = [child for key, child in node.items() if key != "source_info"]
        if isinstance(node, list):
            for child in node:
                visit(child)

    visit(node)
    return sorted(w for w in seen if len(w) <= _WORD_BYTES) or [b"\0"]


def packed_words(words: list[bytes]) -> np.ndarray:
    """As `mutate` takes them."""
    array = np.zeros((len(words), 1 + _WORD_BYTES), np.uint8)
    for row, word in zip(array, words, strict=True):
        row[0] = len(word)
        row[1 : 1 + len(word)] = np.frombuffer(word, np.uint8)
    return array


def packed_packets(packets: list[bytes], room: int) -> tuple[np.ndarray, np.ndarray]:
    """(packets side by side, their lengths), with room for more."""
    seeds = np.zeros((room, SEED_BYTES), np.uint8)
    lengths = np.zeros(room, np.int64)
    for i, packet in enumerate(packets):
        data = packet[:SEED_BYTES]
        seeds[i, : len(data)] = np.frombuffer(data, np.uint8)
        lengths[i] = len(data)
    return seeds, lengths
