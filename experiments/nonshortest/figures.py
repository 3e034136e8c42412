# SPDX-License-Identifier: Apache-2.0
"""The figures: throughput over the number of connections, Table I as curves, throughput over time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.experiments.nonshortest.paper import TABLE_1

_STYLES = {
    "TelemetryLERP": ("tab:blue", "x", "-"),
    "TelemetryGBN": ("tab:red", "", "-"),
    "Benchmark": ("tab:green", "s", "--"),
    "ShortestPath": ("tab:gray", "^", ":"),
    "TelemetryGBN-DCQCN": ("tab:orange", "+", "-"),
    "TelemetryLERP-literal": ("tab:purple", "P", "-"),
}
_NAMES = {"unf": "UNF", "adv1": "ADV1", "adv2": "ADV2"}


def canvas(rows: int, columns: int, width: float = 4.3, height: float = 3.4) -> tuple[Any, Any, Any]:
    """(matplotlib.pyplot, figure, axes as an array of rows) without a display; inches of each axis.

    Raises:
        DetourError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise DetourError("plots need matplotlib: pip install 'detour-fabric[plot]'") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    size = width * columns, height * rows
    return plt, *plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")


def _figure(columns: int, width: float = 4.3) -> tuple[Any, Any, Any]:
    """(matplotlib.pyplot, figure, list of axes) of one row."""
    plt, figure, axes = canvas(1, columns, width)
    return plt, figure, axes[0]


def _connections(axis: Any) -> None:
    """A logarithmic axis of connections with plain numbers."""
    from matplotlib.ticker import NullLocator, ScalarFormatter

    axis.set_xscale("log", base=2)
    axis.set_xlabel("connections")
    axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.xaxis.set_minor_locator(NullLocator())
    axis.tick_params(axis="x", labelsize="x-small", rotation=45)


def save(plt: Any, figure: Any, file: Path) -> None:
    if file.suffix not in (".png", ".svg", ".pdf"):
        raise DetourError(f"{file}: plots are written as .png, .svg or .pdf")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # No dates and fixed names inside: the same numbers give the same file.
        plt.rcParams["svg.hashsalt"] = "detour"
        metadata = {"Date": None} if file.suffix == ".svg" else {}
        figure.savefig(file, dpi=110, metadata=metadata)
    except OSError as error:
        raise DetourError(f"{file}: {error.strerror}") from None
    finally:
        plt.close(figure)


def throughput(points: Sequence[dict[str, Any]], file: Path) -> None:
    """Wire rate over the number of connections, one picture a pattern, as in Figs. 5 to 7; whiskers: seeds."""
    patterns = [name for name in _NAMES if any(p["pattern"] == name for p in points)]
    if not patterns:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = _figure(len(patterns))
    for axis, pattern in zip(axes, patterns, strict=True):
        mine = [p for p in points if p["pattern"] == pattern]
        for name, (colour, marker, line) in _STYLES.items():
            runs = _by_pairs([p for p in mine if p["scheme"] == name], "wire_gbps")
            if runs:
                x, y = list(runs), [statistics.fmean(values) for values in runs.values()]
                spread = [[m - min(v) for m, v in zip(y, runs.values(), strict=True)],
                          [max(v) - m for m, v in zip(y, runs.values(), strict=True)]]  # fmt: skip
                axis.errorbar(x, y, spread, color=colour, marker=marker, linestyle=line, label=name, capsize=2)
        most = _by_pairs([p for p in mine if p["scheme"] != "ShortestPath"], "ceiling_gbps")
        if most:
            means = [statistics.fmean(values) for values in most.values()]
            axis.plot(list(most), means, color="black", linewidth=0.7, label="ceiling of these pairs")
        _connections(axis)
        axis.set(title=f"{mine[0]['topology']}, {_NAMES[pattern]}", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("wire rate, Gb/s")
    axes[-1].legend(fontsize="x-small")
    save(plt, figure, file)


def _by_pairs(points: Sequence[dict[str, Any]], field: str) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for point in sorted(points, key=lambda p: p["pairs"]):
        found.setdefault(point["pairs"], []).append(point[field])
    return found


def pfc_gain(points: Sequence[dict[str, Any]], file: Path) -> None:
    """Table I: goodput over the number of connections, ours, the max-min bound and the paper's."""
    if not points:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = _figure(1, 6.0)
    axis, x = axes[0], [p["connections"] for p in points]
    axis.plot(x, [p["lerp_gbps"] / 1e3 for p in points], "x-", color="tab:blue", label="LERP, no PFC")
    axis.plot(x, [p["pfc_gbps"] / 1e3 for p in points], "s--", color="tab:green", label="RoCEv2 with PFC")
    axis.plot(x, [p["bound_gbps"] / 1e3 for p in points], color="black", linewidth=0.7, label="max-min bound")
    paper = [row for row in TABLE_1 if min(x) <= row[0] <= max(x)]
    axis.plot([r[0] for r in paper], [r[2] / 1e3 for r in paper], ".", color="tab:blue", label="paper, without PFC")
    axis.plot([r[0] for r in paper], [r[3] / 1e3 for r in paper], ".", color="tab:green", label="paper, with PFC")
    _connections(axis)
    axis.set(ylabel="goodput, Tb/s", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(fontsize="x-small")
    save(plt, figure, file)


_REROUTING = {
    "uncongested": ("tab:gray", ":", "link not throttled"),
    "none": ("tab:blue", "-", "congestion control only"),
    "controller": ("tab:orange", "-", "controller reroutes"),
    "nic": ("tab:green", "--", "NIC reroutes"),
}


def rerouting(runs: Sequence[dict[str, Any]], file: Path) -> None:
    """Throughput at the receiver over time, as Fig. 3 of the path placement paper; a vertical line where the link was
    throttled."""
    if not runs:
        raise DetourError("there is no finished run to draw")
    plt, figure, axes = _figure(1, 6.5)
    axis = axes[0]
    longest = max(run["series"]["seconds"][-1] for run in runs)
    scale, unit = (1e3, "ms") if longest < 1 else (1, "s")
    large = max(max(run["series"]["mbps"]) for run in runs) >= 1000
    for run in runs:
        colour, line, label = _REROUTING[run["mode"]]
        times = [scale * when for when in run["series"]["seconds"]]
        rates = [rate / 1e3 if large else rate for rate in run["series"]["mbps"]]
        axis.plot(times, rates, line, color=colour, linewidth=1.2, label=label)
    onset = next((run["onset_s"] for run in runs if run["onset_s"] is not None), None)
    if onset is not None:
        axis.axvline(scale * onset, color="black", linewidth=0.7, linestyle="--")
    axis.set(xlabel=unit, ylabel=f"payload that arrives, {'Gb/s' if large else 'Mb/s'}", ylim=(0, None))
    axis.grid(alpha=0.3)
    axis.legend(fontsize="x-small", loc="lower right")
    save(plt, figure, file)


def over_time(points: Sequence[dict[str, Any]], file: Path) -> None:
    """Wire rate over time, one picture for each topology and pattern, a line for each scheme."""
    keys = list(dict.fromkeys((p["topology"], p["pattern"], p["pairs"]) for p in points))
    if not keys:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = _figure(len(keys))
    for axis, key in zip(axes, keys, strict=True):
        for point in points:
            if (point["topology"], point["pattern"], point["pairs"]) == key and "series" in point:
                series = point["series"]
                times = [series["interval_us"] * (k + 1) / 1e3 for k in range(len(series["wire_gbps"]))]
                colour, _, line = _STYLES[point["scheme"]]
                axis.plot(times, series["wire_gbps"], line, color=colour, linewidth=0.8, label=point["scheme"])
        axis.set(xlabel="ms", title=f"{key[0]}, {_NAMES[key[1]]}, {key[2]} pairs", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("wire rate, Gb/s")
    axes[-1].legend(fontsize="x-small")
    save(plt, figure, file)


_FORS = (
    ("fors_gbps", "FORS", "tab:blue"),
    ("default_gbps", "Ftree or Min-Hop", "tab:orange"),
    ("ftree_ar_gbps", "Ftree-AR", "tab:green"),
)


def fors(result: dict[str, Any], file: Path) -> None:
    """FORS: throughput a server in every scenario (Figs. 3 and 6), factors of phases (Fig. 7), and how long phases take
    when a link breaks."""
    rows = result["throughput"]
    if not rows:
        raise DetourError("there is no finished point to draw")
    plt, figure, axes = _figure(3, 6.0)
    _fors_throughput(axes[0], rows)
    _fors_break(axes[2], result["breaks"])
    for k, entry in enumerate(result["phases"]):
        most = max(entry["reduction"])
        axes[1].plot(entry["reduction"], entry["factor"], ".-", color=f"C{k}", label=entry["topology"])
        axes[1].plot(entry["reduction"], entry["paper_factor"], "x", color=f"C{k}", markersize=4)
        axes[1].axvline((most + 1) / 2, color=f"C{k}", linewidth=0.6)
    axes[1].plot([], [], "kx", markersize=4, label="paper's formula")
    axes[1].set(xlabel="failed links of a leaf at most", ylabel="phases, relative to no failure", ylim=(0.9, 6))
    axes[1].set_title("phases; lines: half of the links")
    axes[1].grid(alpha=0.3)
    axes[1].legend(fontsize="x-small")
    save(plt, figure, file)


def _fors_break(axis: Any, runs: Sequence[dict[str, Any]]) -> None:
    for run in runs:
        lengths = run["phase_lengths_us"]
        begins = [sum(lengths[:k]) for k in range(len(lengths))]
        label, colour = {"fors": ("FORS", "tab:blue"), "minhop": ("Min-Hop", "tab:orange")}[run["routing"]]
        axis.step(begins, lengths, where="post", color=colour, label=label)
        story = run["detections"][0]
        marks = (("broke_us", run["broke_us"], ":"), ("in_force_us", story["in_force_us"], "--"))
        for _, when, line in [mark for mark in marks if mark[1] is not None]:
            axis.axvline(when, color=colour, linestyle=line, linewidth=0.8)
    axis.set(xlabel="us", ylabel="length of a phase, us", ylim=(0, None))
    axis.set_title("one link breaks (dotted), the new plan is in force (dashed)", fontsize="small")
    axis.grid(alpha=0.3)
    if runs:
        axis.legend(fontsize="x-small")


def _fors_throughput(axis: Any, rows: Sequence[dict[str, Any]]) -> None:
    width = 0.27
    names = {"fors_gbps": "fors", "ftree_ar_gbps": "ftree-ar"}
    for k, (key, label, colour) in enumerate(_FORS):
        shown = [(x + (k - 1) * width, row) for x, row in enumerate(rows) if row[key] is not None]
        heights = [row[key] for _, row in shown]
        ranges = [row["ranges_gbps"][names.get(key) or row["default"]] for _, row in shown]
        spread = [[max(h - r[0], 0) for h, r in zip(heights, ranges, strict=True)],
                  [max(r[2] - h, 0) for h, r in zip(heights, ranges, strict=True)]]  # fmt: skip
        axis.bar(
            [x for x, _ in shown], heights, width, yerr=spread, color=colour, label=label, error_kw={"linewidth": 0.7}
        )
        paper = [(x, row[key.replace("gbps", "paper")]) for x, row in shown if row.get(key.replace("gbps", "paper"))]
        axis.plot([x for x, _ in paper], [y for _, y in paper], "kD", markersize=4)
    axis.plot([], [], "kD", markersize=4, label="paper (text)")
    axis.set_xticks(range(len(rows)), [row["scenario"] for row in rows], rotation=30, fontsize="x-small", ha="right")
    axis.set(ylabel="throughput a server, Gb/s", ylim=(0, 185), title="throughput; bars: slowest and fastest phase")
    axis.grid(alpha=0.3, axis="y")
    axis.legend(fontsize="x-small", ncols=2)
