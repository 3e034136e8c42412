# SPDX-License-Identifier: Apache-2.0
"""What tests of generated tests share."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest


@pytest.fixture
def no_z3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if detour was installed without the extra `test`."""
    find = util.find_spec
    monkeypatch.setattr("detour.base.extras.find_spec", lambda name: None if name == "z3" else find(name))
    monkeypatch.setattr("detour.base.extras.PACKAGE", tmp_path / "detour")
