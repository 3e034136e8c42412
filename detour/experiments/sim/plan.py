# SPDX-License-Identifier: Apache-2.0
"""From what is said to what is run: topology, workload and settings, all checked before any work starts; and scenario
files, a whole run in YAML with the names of the command's options:

    topo: leaf-spine:leaves=4,spines=4,hosts=8
    workload: poisson:sizes=web.txt,load=0.5,time=1ms
    fail:
      - s0-s3@200us
    reroute-after: 100us

Every error names file, line and rule. Files that a scenario names are looked for from the current folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.option_files import read_options
from detour.control.graph_files import open_topology
from detour.experiments.sim.settings import OptionError, SimOptions, SimSettings, links_of, settings_of
from detour.experiments.sim.workloads import SimWorkload, open_workload
from detour.topo import Topology

T = TypeVar("T")


@dataclass(frozen=True)
class SimPlan:
    """A run that can begin."""

    topology: Topology
    workload: SimWorkload
    settings: SimSettings


def plan_of(
    options: SimOptions, topology: Topology | None = None, workload: Callable[[Topology], SimWorkload] | None = None
) -> SimPlan:
    """Make a plan from options. `topology`, `workload` (of the topology): these, instead of what texts name. Raises
    `OptionError`: a missing or wrong value, named by its option."""
    for name, given in (("topo", topology), ("workload", workload)):
        if given is None and getattr(options, name) is None:
            raise OptionError(name, f"a run needs {name}: --{name}, or `{name}:` in a scenario file")
    links = links_of(options)
    if topology is None:
        gbps = None if options.rate is None else links.rate_bps / 1e9
        delay_ns = None if options.delay is None else links.host_delay_ps / 1e3
        topology = _opened("topo", str(options.topo), partial(open_topology, gbps=gbps, delay_ns=delay_ns))
    settings = settings_of(topology, options)
    if workload is not None:
        return SimPlan(topology, workload(topology), settings)
    opened = partial(open_workload, topology=topology, rate_bps=settings.links.rate_bps, seed=settings.seed)
    return SimPlan(topology, _opened("workload", str(options.workload), opened), settings)


def _opened(option: str, text: str, open_it: Callable[[str], T]) -> T:
    """As `read_option`, for texts whose errors name them already."""
    try:
        return open_it(text)
    except DetourError as error:
        raise OptionError(option, str(error)) from None


_LISTS = ("fail",)
_NAMES = {each.name.replace("_", "-"): each.name for each in fields(SimOptions)}
"""what keys are called, and the options that they are"""


@dataclass(frozen=True)
class Scenario:
    """`options`: what a file says; `lines`: where, by option."""

    file: Path
    options: SimOptions
    lines: Mapping[str, int]

    def under(self, given: SimOptions) -> SimOptions:
        """The file's, but for what is given otherwise."""
        return replace(self.options, **{name: value for name, value in vars(given).items() if value not in (None, ())})

    @contextmanager
    def blaming(self, given: SimOptions) -> Iterator[None]:
        """Errors in what the file says name file and line. Raises `DetourError`: these."""
        try:
            yield
        except OptionError as error:
            if getattr(given, error.option) in (None, ()) and error.option in self.lines:
                raise DetourError(f"{self.file}, line {self.lines[error.option]}: {error}") from None
            raise


def read_scenario(file: Path) -> Scenario:
    """Read a scenario file without interpreting its values. Raises `DetourError`: it cannot be read, is not YAML, or
    has a key that is not an option, or one twice."""
    lines = read_options(file, read_text(file), _NAMES, _LISTS)
    values: dict[str, Any] = {_NAMES[key]: one.value for key, one in lines.items()}
    return Scenario(file, SimOptions(**values), {_NAMES[key]: one.line for key, one in lines.items()})
