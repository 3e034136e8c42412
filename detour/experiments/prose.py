# SPDX-License-Identifier: Apache-2.0
"""Texts of generated pages, which stand as Markdown beside the module that makes the page, not in it."""

from __future__ import annotations

import re
from pathlib import Path


def prose(module: str) -> dict[str, str]:
    """The texts beside a module (its `__file__`), by name, from the file of its name that ends in `.md`: each follows a
    line `<!-- name -->`."""
    parts = re.split(r"^<!-- (\w+) -->\n", Path(module).with_suffix(".md").read_text(), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: text.removesuffix("\n") for name, text in texts.items()}
