# SPDX-License-Identifier: Apache-2.0
"""Pages that load nothing from elsewhere and fit the screen of a phone: what is too wide scrolls in its own place."""

from __future__ import annotations

from html import escape

_STYLE = """
table { display: block; max-width: 100%; overflow-x: auto; }
h1, h2, p, li, dd, dt, summary { overflow-wrap: anywhere; }
pre { overflow-x: auto; } svg { max-width: 100%; height: auto; }
"""
_NARROW = """
@media (max-width: 600px) {
  body { margin: .8rem; padding: 0; } h1 { font-size: 1.3rem; }
  table th, table td, table.totals th, table.totals td { padding: .2rem .35rem; font-size: 14px; }
  td:not(.r) { overflow-wrap: anywhere; }
}
"""


def html_page(title: str, body: str, style: str) -> str:
    """A page. `body`: HTML; `style`: CSS besides that of all pages."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}{style}{_NARROW}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )
