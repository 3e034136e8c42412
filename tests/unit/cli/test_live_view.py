# SPDX-License-Identifier: Apache-2.0
"""`detour watch` on a terminal: it fits whatever the size is, rows do not jump, and keys do what they say."""

import fcntl
import os
import pty
import random
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import live_script
import pyte
import pytest

from detour.cli.live.screen import LINK_COLUMNS, WatchScreen, fitting, link_rows, natural, spark
from detour.fabric.operations.results import LinkUse
from tests.waiting import PATIENCE_S

SIZES = [(80, 24), (60, 20), (200, 50), (33, 6), (5, 3)]


def link(name: str, use: float, **more: int) -> LinkUse:
    values = {"queue_packets": 0, "drops": 0, "marks": 0} | more
    return LinkUse(link=name, from_="s0:1", kind="local", up=True, mbps=20 * use, use=use, **values)


def picture(screen: WatchScreen, width: int, height: int) -> list[str]:
    return ["".join(text for _, text in line) for line in screen.lines(width, height)]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("flows", [False, True])
def test_it_fits(width, height, flows):
    rng, screen = (
        random.Random(width),
        WatchScreen("dragonfly:p=22,a=44,h=22 on engine" * 4, in_flows=flows, message="m" * 300),
    )
    huge = [
        link(f"s{n}-s{1000 + n}#2", rng.random() * 3, drops=10**9, queue_packets=123456, marks=10**7)
        for n in range(400)
    ]
    made_up = live_script.MadeUp()
    for _ in range(5):
        screen.links.rows.update(huge)
        screen.flows.rows.update(made_up.flows().flows)
        for by in (0, 10**9, -3):
            screen.view.move(by)
            lines = picture(screen, width, height)
            assert [len(line) for line in lines] == [width] * height
            words = [word for line in lines for word in line.split() if word.endswith("%")]
            shares = [int(word[:-1]) for word in words if word[:-1].isdigit()]
            assert max(shares, default=0) <= 100


def test_what_there_is_room_for():
    heads = {width: [column.head for column in fitting(LINK_COLUMNS, width)[0]] for width in (80, 60, 42, 40)}
    assert heads[80] == heads[60] == ["link", "from", "Mb/s", "use", "queue", "drops", "marks"]
    assert heads[42] == ["link", "from", "Mb/s", "use"]
    assert heads[40] == ["link", "Mb/s", "use"]
    assert [fitting(LINK_COLUMNS, width)[1] for width in (200, 80, 60)] == [60, 26, 6]


def test_a_chart_of_values():
    assert spark([0.0, 0.001, 0.5, 1.0], 6, 1.0) == "   ▁▄█"
    assert spark([1, 2, 4], 2) == "▄█"
    assert spark([], 3) == "   "


def test_rows_do_not_jump():
    rng, rows = random.Random(1), link_rows()
    names = [f"s{n}-s{n + 1}" for n in range(30)]
    first: list[str] = []
    for turn in range(200):
        rows.update([link(name, 0.55 + 0.04 * (rng.random() - 0.5)) for name in names])
        order = [row.name for row in rows.shown()]
        first = first or order
        assert order == first == sorted(first, key=natural), turn
    rows.update([link(name, 0.55) for name in names])
    for _ in range(20):
        rows.update([link(name, 1.0 if name == "s20-s21" else 0.55) for name in names])
    assert [row.name for row in rows.shown()][:2] == ["s20-s21 s0:1", "s0-s1 s0:1"]


def test_idle_links_go_later_and_come_back_with_a():
    rows = link_rows()
    rows.update([link("s0-s1", 0.5), link("s1-s2", 0.0)])
    assert [row.now.link for row in rows.shown()] == ["s0-s1"]
    rows.update([link("s0-s1", 0.0), link("s1-s2", 0.0)])
    assert [row.now.link for row in rows.shown()] == ["s0-s1"]
    for _ in range(30):
        rows.update([link("s0-s1", 0.0), link("s1-s2", 0.0)])
    assert rows.shown() == []
    rows.everything = True
    assert len(rows.shown()) == 2


def test_what_is_down_comes_first():
    rows = link_rows()
    rows.update([link("s0-s1", 0.9), LinkUse("s1-s2", "s1:1", "local", False, 0.0, 0.0, 0, 0, 0)])
    assert [row.now.link for row in rows.shown()] == ["s1-s2", "s0-s1"]


def test_what_is_added_up_and_what_is_not():
    rows = link_rows()
    for _ in range(3):
        rows.update([link("a-b", 0.9, marks=0), link("b-c", 0.1, marks=5)])
    assert rows.shown()[0].now.link == "a-b"
    order = []
    for _ in range(5):
        rows.next_sort()
        order.append((rows.sort, rows.shown()[0].now.link))
    assert order == [("queue", "a-b"), ("drops", "a-b"), ("marks", "b-c"), ("name", "a-b"), ("use", "a-b")]


def test_the_chosen_row_is_followed():
    screen = WatchScreen()
    screen.links.rows.update([link(f"s{n}-x", 0.5) for n in range(50)])
    picture(screen, 80, 24)
    screen.view.move(7)
    assert screen.links.chosen == "s7-x s0:1"
    for _ in range(20):
        screen.links.rows.update([link(f"s{n}-x", 0.05 if n == 7 else 0.5) for n in range(50)])
    lines = picture(screen, 80, 24)
    assert next(line for line in lines if line.startswith(">")).startswith(">s7-x ")
    assert "directions 31 to 50 of 50" in lines[0]


class Terminal:
    """A program in a terminal of a size."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._fd, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        command = [sys.executable, str(Path(live_script.__file__))]
        environment = os.environ | {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """What is on the screen once that is so."""
        end = time.monotonic() + PATIENCE_S
        while not condition(list(self.screen.display)):
            assert time.monotonic() < end, "\n".join(self.screen.display)
            if select.select([self._fd], [], [], 0.2)[0]:
                self._stream.feed(os.read(self._fd, 65536))
        return list(self.screen.display)

    def close(self) -> int:
        while self.process.poll() is None:
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    self._stream.feed(os.read(self._fd, 65536))
                except OSError:
                    break
        os.close(self._fd)
        return self.process.wait(PATIENCE_S)


@pytest.fixture(params=[(80, 24), (60, 20), (200, 50)], ids=str)
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    started = Terminal(*request.param)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


def test_keys(terminal):
    height, width = terminal.screen.lines, terminal.screen.columns
    shown = terminal.until(lambda lines: "100%" in lines[2] and lines[-1].startswith(" f fail"))
    assert shown[0].startswith(f" directions 1 to {height - 4} of ")
    assert ", by use" in shown[0]
    assert [line[0] for line in shown[2 : height - 2]] == [">"] + [" "] * (height - 5)
    assert "█" in shown[2]
    assert all(len(line) == width for line in shown)
    first = live_script.LINKS[0].name
    assert (
        shown[2].split()[0:2] == [">", first] or shown[2].startswith(f"> {first}") or shown[2].startswith(f">{first}")
    )
    terminal.press("j" * (height + 3))
    terminal.until(lambda lines: lines[0].startswith(" directions 9 to "))
    terminal.press("g")
    terminal.until(lambda lines: lines[0].startswith(" directions 1 to") and lines[2].startswith(">"))
    terminal.press("f")
    terminal.until(lambda lines: lines[-2].startswith(f" {first} is down") and any(" down " in line for line in lines))
    terminal.press("h")
    terminal.until(lambda lines: lines[-2].startswith(f" {first} is back"))
    terminal.press("H")
    terminal.until(lambda lines: lines[-2].startswith(" nothing was down"))
    terminal.press("s")
    terminal.until(lambda lines: ", by queue" in lines[0])
    terminal.press("p")
    terminal.until(lambda lines: "PAUSED" in lines[0])
    terminal.press("p")
    terminal.press("v")
    flows = terminal.until(lambda lines: lines[0].startswith(" flows 1 to") and "h34-h43" in lines[2])
    assert flows[1].split()[:2] == ["flow", "Mb/s"]
    terminal.press("q")
    assert terminal.close() == 0
