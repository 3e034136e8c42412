# SPDX-License-Identifier: Apache-2.0
"""Time inside detour is an `int64` of picoseconds (docs/architecture.md)."""

from __future__ import annotations

from typing import Final

MAX_TIME: Final = (1 << 62) - 1
"""Later than anything that happens: "never". Times may be added to it without overflow."""
