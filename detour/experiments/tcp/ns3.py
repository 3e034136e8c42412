# SPDX-License-Identifier: Apache-2.0
"""TCP of the IP hosts beside ns-3's: `detour reproduce tcp --ns3`.

`ns3_flow.cc`, a program of ours against Debian's `libns3-dev`, is compiled and run for each case; its bottleneck is as
much slower as a frame of ns-3's is shorter than one of Ethernet, so that full frames take as long. Where libns3-dev is
missing, the curves of ns-3 3.37 in `ns3_curves.json` stand in their place. `python -m detour.experiments.tcp.ns3`
writes that file anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from detour.base.errors import DetourError
from detour.base.files import write_file
from detour.base.tables import Column, Table, fixed, right
from detour.base.times import MS
from detour.experiments import drawing
from detour.experiments.columns import columns, row, shown
from detour.experiments.tcp.dumbbell import Bottleneck, Dumbbell, address
from detour.hosts.ip.tcp.config import TcpConfig

_SECOND = 1_000 * MS
_NO_MARKS = 1 << 20
_FALL, _RISE = 0.87, 1.04
"""of the window before: less than that is a reduction, more than that the end of one"""
_FEWEST = 3
_EDGES = (1, 99)


@dataclass(frozen=True)
class LinkConditions:
    """A bottleneck, and how long it is watched. `marks`: packets in the queue from which on it marks, 0: never; the
    first `settle` seconds do not count."""

    name: str
    mbps: float
    rtt_ms: float
    queue: int
    seconds: float
    step: float
    settle: float
    marks: int = 0


@dataclass(frozen=True)
class Curve:
    """`cwnd`: segments, one value every `step` seconds of the run, from the first step on; `goodput`: Mb/s."""

    cwnd: Sequence[float]
    goodput: float


@dataclass(frozen=True)
class Sawtooth:
    """Segments and seconds: means of the tops and of the bottoms, the time from top to top (None if there are fewer
    than three; then `highest` and `lowest` are percentiles), and the mean window."""

    highest: float
    lowest: float
    mean: float
    period: float | None


def sawtooth(curve: Curve, link: LinkConditions) -> Sawtooth:
    """Measure the sawtooth behind `link.settle`."""
    window = np.asarray(curve.cwnd, np.float64)[round(link.settle / link.step) :]
    tops, bottoms = _turns(window)
    mean = float(window.mean())
    if len(tops) < _FEWEST:
        least, most = np.percentile(window, _EDGES)
        return Sawtooth(float(most), float(least), mean, None)
    period = (tops[-1] - tops[0]) / (len(tops) - 1) * link.step
    return Sawtooth(float(window[tops].mean()), float(window[bottoms].mean()), mean, period)


def _turns(window: np.ndarray) -> tuple[list[int], list[int]]:
    """Return where the window was highest before each reduction, and lowest after each that has ended."""
    tops: list[int] = []
    bottoms: list[int] = []
    falling, edge = False, 0
    for at, value in enumerate(window):
        if falling:
            if value < window[edge]:
                edge = at
            elif value > _RISE * window[edge]:
                bottoms.append(edge)
                falling, edge = False, at
        elif value > window[edge]:
            edge = at
        elif value < _FALL * window[edge]:
            tops.append(edge)
            falling, edge = True, at
    return tops, bottoms


def ours(link: LinkConditions, cc: str) -> Curve:
    """Our TCP on it, with an ACK for each segment, as ns-3 was told to."""
    config = TcpConfig(cc=cc, delayed_ack_ps=1, receive_buffer=1 << 24)
    rate_bps, delay_ps = round(link.mbps * 1e6), round(link.rtt_ms * MS / 2)
    cable = Bottleneck(rate_bps, delay_ps, link.queue, marking_depth=link.marks or _NO_MARKS)
    steps = round(link.seconds / link.step)
    window, counted_from = [], 0
    with Dumbbell(1, cable) as bell:
        bell.stack.host("b0").tcp_port(config=config)
        flow = bell.stack.host("a0").tcp(address(2, 0), config=config)
        for step in range(1, steps + 1):
            bell.network.run(round(step * link.step * _SECOND))
            state = flow.result()
            window.append(state.cwnd)
            if step * link.step <= link.settle:
                counted_from = state.acked
        acked = flow.result().acked - counted_from
    return Curve(window, acked * 8 / (link.seconds - link.settle) / 1e6)


# -- ns-3 ---------------------------------------------------------------------------------------------------

NS3_CONDITIONS = (
    LinkConditions("short", 10.0, 20.0, 50, 60.0, 0.05, 10.0),
    LinkConditions("long", 50.0, 100.0, 200, 200.0, 0.2, 40.0),
    LinkConditions("marking", 10.0, 20.0, 100, 60.0, 0.05, 10.0, marks=20),
)
_UNMARKED = (("newreno", "TcpNewReno"), ("newreno", "TcpLinuxReno"), ("cubic", "TcpCubic"))
NS3_CASES = (*((name, *pair) for name in ("short", "long") for pair in _UNMARKED), ("marking", "dctcp", "TcpDctcp"))
"""name of a link, our congestion control, the class of ns-3's"""
_SOURCE = Path(__file__).with_name("ns3_flow.cc")
_STORED = Path(__file__).with_name("ns3_curves.json")
_HEADER = Path("/usr/include/ns3/tcp-cubic.h")
_LIBRARIES = ("applications", "internet", "traffic-control", "point-to-point", "network", "core")
_PPP_FRAME, _ETHERNET_FRAME = 1_502, 1_514


@row
class Ns3Row:
    """One flow of each. `measured`: ns-3 has run; otherwise its curve is the stored one."""

    road: str = shown("road", means="short and marking: 10 Mb/s, 20 ms; long: 50 Mb/s, 100 ms")
    cc: str = shown("control")
    control: str = shown("ns-3's")
    measured: bool
    ns3_goodput: float = shown("goodput, Mb/s", ".3f")
    ns3: Sawtooth
    goodput: float = shown("ours", ".3f")
    ours: Sawtooth


@dataclass(frozen=True)
class Ns3Findings:
    """All rows, and the curves by link and control, ns-3's by its class."""

    rows: Sequence[Ns3Row]
    curves: Mapping[str, Curve]


def missing() -> str | None:
    """Why ns-3 cannot run here; None if it can."""
    if shutil.which("g++") is None:
        return "g++ is not on PATH"
    return None if _HEADER.exists() else f"{_HEADER} is not there: install libns3-dev"


def conditions_of(name: str) -> LinkConditions:
    """The link of that name."""
    return next(link for link in NS3_CONDITIONS if link.name == name)


def build(folder: Path) -> Path:
    """Compile the program. Raises `DetourError`: the compiler refuses it (another version of ns-3 perhaps)."""
    program = folder / "ns3_flow"
    libraries = [f"-lns3-{name}" for name in _LIBRARIES]
    _run(["g++", "-std=c++17", "-O2", str(_SOURCE), "-o", str(program), *libraries])
    return program


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DetourError(f"{Path(command[0]).name} ended with {done.returncode}: {last}")
    return done.stdout


def theirs(program: Path, link: LinkConditions, control: str) -> Curve:
    """ns-3's TCP on it. Raises `DetourError`: the program fails."""
    rate = round(link.mbps * 1e6 * _PPP_FRAME / _ETHERNET_FRAME)
    values: dict[str, Any] = {"control": control, "rate": rate, "delay": link.rtt_ms / 2e3}
    values |= {name: getattr(link, name) for name in ("queue", "marks", "seconds", "step", "settle")}
    lines = _run([str(program), *(f"--{name}={value}" for name, value in values.items())]).split()
    numbers: dict[str, list[float]] = {"cwnd": [], "acked": []}
    for name, value in zip(lines[::2], lines[1::2], strict=True):
        numbers[name].append(float(value))
    return Curve(numbers["cwnd"], numbers["acked"][0] * 8 / (link.seconds - link.settle) / 1e6)


def measure(cases: Sequence[tuple[str, str, str]] = NS3_CASES) -> dict[str, Curve]:
    """ns-3's curves, by link and class. Raises `DetourError`: there is no ns-3, or it fails."""
    if why := missing():
        raise DetourError(why)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        program = build(Path(folder))
        curves = pool.map(lambda case: theirs(program, conditions_of(case[0]), case[2]), cases)
        return {_key(road, control): curve for (road, _, control), curve in zip(cases, curves, strict=True)}


def stored() -> dict[str, Curve]:
    """The same, of Debian's ns-3 3.37, as it was kept."""
    return {key: Curve(**curve) for key, curve in json.loads(_STORED.read_text()).items()}


def _key(road: str, control: str) -> str:
    return f"{road} {control}"


def compare(cases: Sequence[tuple[str, str, str]] = NS3_CASES) -> Ns3Findings:
    """Both, side by side; ns-3 runs if it can."""
    measured = missing() is None
    curves = measure(cases) if measured else stored()
    rows = []
    for name, cc, control in cases:
        link, key = conditions_of(name), _key(name, cc)
        if key not in curves:
            curves[key] = ours(link, cc)
        other, own = curves[_key(name, control)], curves[key]
        rows.append(
            Ns3Row(
                road=name, cc=cc, control=control, measured=measured, ns3_goodput=other.goodput,
                ns3=sawtooth(other, link), goodput=own.goodput, ours=sawtooth(own, link),
            )
        )  # fmt: skip
    return Ns3Findings(rows, curves)


def ns3_document(findings: Ns3Findings) -> dict[str, Any]:
    """For --json: the rows, and the links they were measured on."""
    return {"rows": [asdict(row) for row in findings.rows], "roads": [asdict(link) for link in NS3_CONDITIONS]}


def ns3_table(findings: Ns3Findings) -> Table[Ns3Row]:
    """Both beside each other: ns-3's value, then ours."""

    def pair(head: str, name: str, digits: int, means: str) -> tuple[Column[Ns3Row], Column[Ns3Row]]:
        theirs = right(head, lambda row: fixed(getattr(row.ns3, name), digits), means=means)
        return theirs, right("ours", lambda row: fixed(getattr(row.ours, name), digits))

    of_windows = (
        *pair("highest", "highest", 1, "window in segments, mean of the tops"),
        *pair("lowest", "lowest", 1, "mean of the bottoms"),
        *pair("mean", "mean", 1, ""),
        *pair("period, s", "period", 2, "from top to top"),
    )
    how = "both run here" if all(row.measured for row in findings.rows) else "ns-3's curves are stored ones"
    return Table((*columns(Ns3Row), *of_windows), findings.rows, f"TCP of the IP hosts and ns-3 ({how})")


def keep(curves: Mapping[str, Curve], file: Path = _STORED) -> None:
    """Write curves of ns-3's to where they are looked for."""
    text = {
        key: {"cwnd": [round(value, 2) for value in curve.cwnd], "goodput": round(curve.goodput, 6)}
        for key, curve in curves.items()
    }
    write_file(file, json.dumps(text, separators=(",", ":")).replace('},"', '},\n"') + "\n")


# -- a figure -----------------------------------------------------------------------------------------------

_PANELS = (("short", "newreno"), ("short", "cubic"), ("marking", "dctcp"), ("long", "newreno"), ("long", "cubic"))
_TITLES = {"newreno": "NewReno", "cubic": "CUBIC", "dctcp": "DCTCP"}
_SHOWN = {"short": (10.0, 22.0), "marking": (0.0, 12.0), "long": (0.0, 200.0)}
"""seconds"""
_COLOURS = (drawing.ORANGE, drawing.GREEN)


def draw(findings: Ns3Findings, file: Path) -> None:
    """A panel for each link and control."""
    plt, figure, axes = drawing.canvas(2, 3, 4.6, 3.2)
    for axis, (name, cc) in zip(axes.flat, _PANELS, strict=False):
        link = conditions_of(name)
        controls = [row.control for row in findings.rows if (row.road, row.cc) == (name, cc)]
        for control, colour in zip(controls, _COLOURS, strict=False):
            _curve(axis, findings, link, control, label=f"ns-3: {control}", color=colour)
        _curve(axis, findings, link, cc, label="ours", color=drawing.BLUE)
        axis.set(title=f"{_TITLES[cc]}: {_text(link)}", xlabel="time, s", ylabel="window, segments", xlim=_SHOWN[name])
        axis.set_ylim(bottom=0)
    axes.flat[-1].set_axis_off()
    for line in axes:
        drawing.legend_below(line)
    drawing.save(plt, figure, file)


def _curve(axis: Any, findings: Ns3Findings, link: LinkConditions, control: str, **looks: Any) -> None:
    window = findings.curves[f"{link.name} {control}"].cwnd
    first, last = _SHOWN[link.name]
    points = [(link.step * (at + 1), value) for at, value in enumerate(window)]
    shown = [point for point in points if first <= point[0] <= last]
    axis.plot(*zip(*shown, strict=True), linewidth=1.2, **looks)


def _text(link: LinkConditions) -> str:
    marks = f", marks from {link.marks}" if link.marks else ""
    return f"{link.mbps:g} Mb/s, {link.rtt_ms:g} ms, {link.queue} packets{marks}"


if __name__ == "__main__":
    keep(measure())
