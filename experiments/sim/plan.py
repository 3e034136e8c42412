# SPDX-License-Identifier: Apache-2.0
"""From what is said to what is run: topology, workload and settings, all checked before any work starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from detour.base.errors import DetourError
from detour.control.topology_files import open_topology
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
    said: SimOptions, topology: Topology | None = None, workload: Callable[[Topology], SimWorkload] | None = None
) -> SimPlan:
    """What is said, understood. `topology`, `workload` (of the topology): these, instead of what texts name.

    Raises:
        OptionError: what is missing or wrong, named by its option.
    """
    for name, given in (("topo", topology), ("workload", workload)):
        if given is None and getattr(said, name) is None:
            raise OptionError(name, f"a run needs {name}: --{name}, or `{name}:` in a scenario file")
    links = links_of(said)
    if topology is None:
        gbps = None if said.rate is None else links.rate_bps / 1e9
        delay_ns = None if said.delay is None else links.host_delay_ps / 1e3
        topology = _opened("topo", str(said.topo), partial(open_topology, gbps=gbps, delay_ns=delay_ns))
    settings = settings_of(topology, said)
    if workload is not None:
        return SimPlan(topology, workload(topology), settings)
    opened = partial(open_workload, topology=topology, rate_bps=settings.links.rate_bps, seed=settings.seed)
    return SimPlan(topology, _opened("workload", str(said.workload), opened), settings)


def _opened(option: str, text: str, open_it: Callable[[str], T]) -> T:
    """As `read_option`, for texts whose errors name them already."""
    try:
        return open_it(text)
    except DetourError as error:
        raise OptionError(option, str(error)) from None
