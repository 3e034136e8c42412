# SPDX-License-Identifier: Apache-2.0
"""What the parts of the services share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from detour.engine.bmv2api.device import BmDevice

C = TypeVar("C", bound=Callable[..., object])


class CallPart:
    """Acts on one switch. Its methods are called while the switch stands, but for those marked `alone`."""

    def __init__(self, device: BmDevice) -> None:
        self.device = device


def alone(function: C) -> C:
    """Marks a method that stands for itself: it takes long, or takes turns by its own."""
    function.stands_alone = True  # type: ignore[attr-defined]
    return function
