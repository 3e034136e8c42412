# SPDX-License-Identifier: Apache-2.0
"""Parameters of hosts by name: those of all (`HostConfig`), and of path schemes, congestion control, transports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from detour.base.errors import DetourError
from detour.base.times import MS
from detour.hosts.cc import CC_REGISTRY
from detour.hosts.config import HOST_NUMBERS, HostConfig
from detour.hosts.paths import PATH_REGISTRY
from detour.hosts.plugins import Plugin
from detour.hosts.transport import TRANSPORT_REGISTRY

_REGISTRIES = (PATH_REGISTRY, CC_REGISTRY, TRANSPORT_REGISTRY)


def _plugins() -> Iterator[Plugin]:
    """All that have names, the built-in ones first."""
    for registry in _REGISTRIES:
        yield from map(registry.find, registry.built_in)
    for registry in _REGISTRIES:
        for name in registry.names()[len(registry.built_in) :]:
            with suppress(DetourError):  # another's, which cannot be imported
                yield registry.find(name)


@cache
def _owner(name: str) -> Plugin | None:
    return next((plugin for plugin in _plugins() if name in plugin.values), None)


def is_parameter(name: str) -> bool:
    """Return whether hosts, a path scheme, congestion control or a transport have a parameter of that name."""
    return name in HOST_NUMBERS or _owner(name) is not None


def parameter_names() -> list[str]:
    """All of them."""
    return [*HOST_NUMBERS, *(name for plugin in _plugins() for name in plugin.values)]


def host_config(base: HostConfig | None = None, /, **values: Any) -> HostConfig:
    """Hosts with these values of parameters instead of those of `base` (default: `HostConfig()`).

    Raises:
        DetourError: no such parameter, or it is out of range.
    """
    base, own = base or HostConfig(), {name: values.pop(name) for name in HOST_NUMBERS if name in values}
    for name, value in values.items():
        plugin = _owner(name)
        if plugin is None:
            raise DetourError(f"there is no host parameter {name!r}")
        plugin.with_values({name: value})
    return replace(base, **own, plugins={**base.plugins, **values})


def real_time(link_rate_bps: int = 20_000_000, **changes: Any) -> HostConfig:
    """Defaults for the wall clock: 1 us ticks, timeouts and patience that a laptop can keep."""
    values: dict[str, Any] = {
        "link_rate_bps": link_rate_bps,
        "tick_ps": 1_000_000,
        "min_rto_ps": 20 * MS,
        "initial_rto_ps": 200 * MS,
        "max_rto_ps": 2_000 * MS,
        # More than a minute: paths come back when the controller gets to it, and it shares the machine with us.
        "retry_ps": 65_000 * MS,
        "min_probe_timeout_ps": 5 * MS,
        "min_silence_ps": 100 * MS,
        "frame_life_ps": 60_000 * MS,
        "spray_dead_ps": 500 * MS,
        "react_delay_ps": 5 * MS,
        "react_hold_ps": 50 * MS,
        "react_penalty_ps": 5_000 * MS,
        "dcqcn_min_bps": max(1, link_rate_bps // 100),
        "dcqcn_ai_bps": max(1, link_rate_bps // 5000),
        "dcqcn_hai_bps": max(1, link_rate_bps // 500),
    }
    return host_config(**(values | changes))


def host_changes(texts: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Pairs of name and value from texts like `delta3=200` or `own_share=no`.

    Raises:
        DetourError: no such parameter, or no value of its kind.
    """
    changes: list[tuple[str, Any]] = []
    for text in texts:
        name, _, value = text.partition("=")
        if not is_parameter(name):
            raise DetourError(f"there is no host parameter {name!r}; see HostConfig in detour/hosts/config.py")
        owner = _owner(name)
        kind = type(getattr(HostConfig, name) if owner is None else owner.values[name]).__name__
        try:
            changes.append((name, _VALUES[kind](value.strip().lower())))
        except (KeyError, ValueError):
            raise DetourError(f"host parameter {name} must be {kind}, not {value!r}") from None
    return tuple(changes)


_VALUES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}.__getitem__,
}
