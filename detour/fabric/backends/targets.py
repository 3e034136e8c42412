# SPDX-License-Identifier: Apache-2.0
"""The target on which a fabric runs. Modules of a target are imported only if it is used: both are large."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from detour.base.errors import DetourError
from detour.base.progress import Progress, silent
from detour.control.planner import plan
from detour.fabric.backends.base import Fabric
from detour.fabric.backends.settings import BMV2, ENGINE, BackendChanges, BackendSettings
from detour.fabric.linux.hosts import LinuxRequest
from detour.topo import Topology

AS_IT_IS = BackendChanges()
TARGETS = ("auto", "engine", "bmv2", "virtual")


def choose(target: str) -> str:
    """`engine`, `bmv2` or `virtual`; `auto` is BMv2 where it is on PATH and the user is root. Raises DetourError: there
    is no such target."""
    if target not in TARGETS:
        raise DetourError(f"there is no target {target!r}; allowed: {', '.join(TARGETS)}")
    if target != "auto":
        return target
    from detour.fabric.backends.bmv2.switch import missing

    return "engine" if missing() else "bmv2"


def explained(target: str) -> str:
    """The switches that `choose` takes and why; where BMv2 was found, how to run on the engine."""
    from detour.fabric.backends.bmv2.switch import missing

    name, reason = choose(target), missing()
    shown = "BMv2's switches" if name == "bmv2" else f"detour's engine{' in virtual time' * (name == 'virtual')}"
    if target != "auto":
        return f"running on {shown}"
    if reason is not None:
        return f"running on {shown} ({reason.partition(': ')[0]})"
    found = "simple_switch_grpc is installed and you are root"
    return f"running on {shown} ({found}); --target engine (`make run TARGET=engine`) runs on detour's engine"


def make_fabric(
    target: str,
    topology: Topology,
    *,
    scratch: Path | None = None,
    grpc_address: str | None = None,
    grpc_tls: Mapping[str, str] | None = None,
    changes: BackendChanges = AS_IT_IS,
    linux: LinuxRequest | None = None,
    pace: str | None = None,
    progress: Progress = silent,
) -> Fabric:
    """A running fabric. `scratch`: a missing folder for what it needs while it runs. `grpc_tls`: files for
    `engine.endpoint.Tls`, by the names of its fields. `changes`: what is to be otherwise. `linux`: hosts that are
    namespaces of Linux. `pace`: of virtual time beside the wall clock (`virtual.pace.TimePace`). Raises DetourError:
    there is no such target, an option does not apply to it, or it cannot be booted."""
    if pace is not None and target != "virtual":
        raise DetourError(f"--pace is for virtual time (--target virtual); {target} runs in real time")
    if target == "virtual" and linux is not None and (linux.interfaces or linux.processes):
        raise DetourError("--linux and --netns need real time: --target engine or bmv2")
    if choose(target) == "bmv2":
        from detour.fabric.backends.bmv2.fabric import Bmv2Fabric

        if grpc_address is not None:
            raise DetourError("--grpc needs --target engine; BMv2 has one UNIX socket per switch")
        for name, value in (("--delay", changes.delay_ps), ("--loss", changes.loss)):
            if value is not None:
                raise DetourError(f"{name}: BMv2's links (veth pairs) do not support it; use --target engine")
        settings = _settings(BMV2, changes, topology)
        return Bmv2Fabric(topology, settings, scratch=scratch, linux=linux, progress=progress)
    from detour.engine.endpoint import Tls
    from detour.fabric.backends.engine import EngineFabric

    tls = None if grpc_tls is None else Tls(**{name: Path(file) for name, file in grpc_tls.items()})
    if target == "virtual":
        from detour.fabric.backends.serving import Serving
        from detour.fabric.backends.virtual.fabric import paced_fabric

        return paced_fabric(topology, changes, pace or "1x", partial(Serving, grpc_address, tls, scratch), progress)
    settings = _settings(ENGINE, changes, topology)
    return EngineFabric(
        topology, settings, grpc_address=grpc_address, tls=tls, scratch=scratch, linux=linux, progress=progress
    )


def _settings(usual: BackendSettings, changes: BackendChanges, topology: Topology) -> BackendSettings:
    """Return a backend's settings with changes. Raises DetourError: they make no sense, or a user's own program cannot
    hold what planners write."""
    settings = changes.applied(usual)
    if changes.pipeline is not None:
        changes.pipeline.require(plan(topology, settings.policy(topology)))
    return settings
