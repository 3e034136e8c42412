# SPDX-License-Identifier: Apache-2.0
"""Labs that tests write into a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detour.fabric.labs.folder import LabFolder
from detour.fabric.labs.model import Lab
from detour.fabric.labs.reading import read_lab


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., Lab]:
    """Writes files (text, or what JSON knows) and reads the lab."""

    def write(**files: Any) -> Lab:
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".").replace("_in_", "/")
            path.parent.mkdir(exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        return read_lab(LabFolder.given(str(tmp_path)))

    return write


OWN = Path(__file__).parents[3] / "docs" / "labs"


@pytest.fixture
def own() -> Callable[[str], Path]:
    """The folder of a lab of ours."""

    def folder(name: str) -> Path:
        return OWN / name

    return folder
