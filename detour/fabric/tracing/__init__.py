# SPDX-License-Identifier: Apache-2.0
"""Packets followed through a fabric or a single switch, and what is shown of them (docs/trace.md)."""

__all__ = [
    "frames", "live", "mermaid", "program", "reading", "results", "stf", "stf_player", "text_proto", "walk",
]  # fmt: skip
