# SPDX-License-Identifier: Apache-2.0
"""Time inside detour is an `int64` of picoseconds (docs/architecture.md)."""

from __future__ import annotations

from typing import Final

NS: Final = 1_000
US: Final = 1_000 * NS
MS: Final = 1_000 * US

MAX_TIME: Final = (1 << 62) - 1
"""Later than anything that happens: "never". Times may be added to it without overflow."""
