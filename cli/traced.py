# SPDX-License-Identifier: Apache-2.0
"""What `sim --trace` shows beside the result of a run: the packets that were traced."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from detour.cli.output import Page, present
from detour.cli.trace_text import show_packets

if TYPE_CHECKING:
    from detour.fabric.operations.results import LivePackets


def present_traced(
    result: Any, options: argparse.Namespace, show: Callable[[Page], None], traced: LivePackets | None
) -> None:
    """Shows a result; with `traced`, packets come first, and stand under `traced` in JSON."""
    if traced is None:
        present(result, options, show)
        return
    from detour.base.records import as_json

    def render(page: Page) -> None:
        show_packets(page, traced.packets, verbose=False)
        more = f"; {traced.missed} more were wanted" if traced.missed else ""
        page.print(f"{len(traced.packets)} packets traced{more}\n")
        show(page)

    present({**as_json(result), "traced": as_json(traced)}, options, render)
