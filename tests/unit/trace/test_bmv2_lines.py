# SPDX-License-Identifier: Apache-2.0
"""The log of packets, as BMv2 writes it. The golden files are our own lines (`DETOUR_GOLDEN=write` writes them anew).
Of counter_direct, clone_and_multicast and register_48 other frames were compared with simple_switch 1.15.5
(`tests/differential/test_packet_log.py`)."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

import pytest

from detour.engine.bmv2api.commands.interpreter import program_of
from detour.engine.bmv2api.commands.registry import COMMANDS, CommandScope
from detour.engine.bmv2api.interface import Api
from detour.engine.switch.options import SwitchOptions, parse
from detour.engine.trace import LOG_TRACE
from tests.unit.trace.logged import logged

GOLDEN = Path(__file__).parent / "golden"
COUNTERS = (
    "table_add by_packet counted 1 => 0x10",
    "table_add by_byte silent 0x20&&&0xf0 => 0x20 5",
    "table_add by_both default_counted 1 0x22 =>",
)
COPIES = (
    "mc_mgrp_create 1", "mc_node_create 7 4 5", "mc_node_associate 1 0", "mirroring_add 1 9", "mirroring_add_mc 3 1",
)  # fmt: skip


def _set_up(commands: tuple[str, ...], api: Api) -> None:
    scope = CommandScope(program_of(api))
    for each in commands:
        name, *words = each.split()
        COMMANDS[name].understand(words, scope)(api, lambda line: None)


@pytest.mark.parametrize(
    ("program", "commands", "frames"),
    [
        ("counter_direct", COUNTERS, ["010000", "0122", "012200"]),
        ("clone_and_multicast", COPIES, ["0200000000", "0500000000", "00"]),
        ("checksum_ipv4", (), ["450000140000000040110000c0a80001c0a80002", "460000140000000040110000c0a80001c0a80002"]),
        ("action_if", (), ["01900000", "01000700", "02000300", "09000200", "09000100"]),
        ("register_48", (), ["00030000000000ff00", "030300000000000000"]),
    ],
)
def test_lines_are_those_of_bmv2(program: str, commands: tuple[str, ...], frames: list[str]) -> None:
    got = logged(program, lambda api: _set_up(commands, api), [(1, bytes.fromhex(frame)) for frame in frames])
    text = "".join(f"{level} {line}\n" for level, line in got)
    golden = GOLDEN / f"{program}.log"
    if os.environ.get("DETOUR_GOLDEN") == "write":
        golden.write_text(text)
    assert text == golden.read_text()
    assert {level for level, _ in got} >= {LOG_TRACE, 10}


def test_actions_of_one_name_are_told_apart() -> None:
    """p4c's ids tell actions apart; several may have one name."""

    def renamed(text: str) -> str:
        return re.sub(r"\b(TheIngress\.)?(default_counted|counted|silent)\b", "same", text)

    frames = [(1, bytes.fromhex(frame)) for frame in ("010000", "012200")]
    plain = logged("counter_direct", partial(_set_up, COUNTERS), frames)
    same = logged("counter_direct", partial(_set_up, tuple(map(renamed, COUNTERS))), frames, renamed)
    assert same == [(level, renamed(line)) for level, line in plain]


@pytest.mark.parametrize(
    ("arguments", "level", "packets"),
    [
        (["--log-console"], "trace", False),
        (["--log-console", "-L", "trace"], "trace", True),
        (["--log-file", "x", "--log-level", "debug"], "debug", True),
        (["--log-console", "-L", "info"], "info", False),
        (["-L", "trace"], "trace", False),
    ],
)
def test_packets_are_logged_if_asked_for(arguments: list[str], level: str, packets: bool) -> None:
    options = parse(["--no-p4", *arguments])
    assert isinstance(options, SwitchOptions)
    assert (options.log_level, options.log_packets) == (level, packets)
