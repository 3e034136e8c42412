# SPDX-License-Identifier: Apache-2.0
"""Expected durations of benchmarks, which they announce."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from detour.experiments.bench import namespace, processes


@dataclass(frozen=True)
class BenchDuration:
    """Seconds on two cores like those of docs/performance.md, with the defaults."""

    fixed: float = 0.0
    scaled: float = 0.0
    """what grows with each parameter in `by`: with its value, or with the number of its values"""
    bmv2: float = 0.0
    """the same, where there is BMv2 to compare with"""
    by: tuple[str, ...] = ()
    interfaces: bool = False
    """nothing of `scaled` and `bmv2` is measured without veth interfaces"""

    def expected_s(self, run: Callable[..., Any], given: Mapping[str, Any]) -> float:
        """Seconds that `run` takes with some parameters, here."""
        defaults = inspect.signature(run).parameters
        usual = {name: defaults[name].default for name in self.by}
        factor = prod(_amount(name, given.get(name, usual[name])) / _amount(name, usual[name]) for name in usual)
        scaled = self.scaled + (0.0 if processes.no_bmv2() else self.bmv2)
        if self.interfaces and namespace.unavailable():
            scaled = 0.0
        return self.fixed + factor * scaled


def _amount(name: str, value: Any) -> float:
    if isinstance(value, str):
        return value.count(",") + 1
    if isinstance(value, Sequence):
        return sum(value) if name == "hosts" else len(value)
    return float(value)


DURATIONS = {
    "switch": BenchDuration(10, 95, 50, ("sizes", "seconds"), interfaces=True),
    "fabric": BenchDuration(10, 25, 25, ("seconds",)),
    "tables": BenchDuration(5, 20, 0, ("entries", "seconds")),
    "p4runtime": BenchDuration(5, 25, 0, ("entries",)),
    "sai": BenchDuration(5, 2, 15, ("seconds",)),
    "sim": BenchDuration(20, 15, 0, ("message",)),
    "parallel": BenchDuration(10, 100, 0, ("turns", "message")),
    "growth": BenchDuration(0, 75, 0, ("hosts",)),
    "fast": BenchDuration(150),
    "gray": BenchDuration(90),
    "fairness": BenchDuration(85),
    "lab": BenchDuration(10, 40, 0, ("speeds", "seconds", "turns")),
    "start": BenchDuration(0, 20, 0, ("times",)),
    "compile": BenchDuration(0, 15, 0, ("times",)),
    "trace": BenchDuration(20),
    "fors": BenchDuration(20),
    "ai-fabric": BenchDuration(5, 90, 0, ("scheme", "sizes", "draws", "procedures")),
}
"""by benchmark, or part of one"""


def about(seconds: float) -> str:
    """A duration in words: `20 s`, `3 minutes`."""
    if seconds < 90:
        return f"{max(5, round(seconds / 5) * 5)} s"
    return f"{seconds / 60:.0f} minutes"
