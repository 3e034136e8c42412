# SPDX-License-Identifier: Apache-2.0
"""Native code of the planners, compiled by using it (`python -m detour.control.warm`)."""

from __future__ import annotations

from detour.control.expander import warm as expander
from detour.control.fors import warm as fors
from detour.control.placement import warm as placement


def warm() -> None:
    """Fills the cache."""
    fors.warm()
    expander.warm()
    placement.warm()


if __name__ == "__main__":
    warm()
