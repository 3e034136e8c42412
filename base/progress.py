# SPDX-License-Identifier: Apache-2.0
"""How long work says where it is, for people who wait."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]
"""is told what happens now"""


def silent(_: str) -> None:
    """Tells nobody."""
