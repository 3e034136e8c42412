# SPDX-License-Identifier: Apache-2.0
"""What is said where an extra is missing fits how detour was installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from detour.base import extras
from detour.base.errors import DetourError


@pytest.mark.parametrize("checkout", [True, False])
def test_the_advice_fits_the_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkout: bool) -> None:
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "pip").touch()
    if checkout:
        (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(extras, "PACKAGE", tmp_path / "detour")
    monkeypatch.setattr(extras.sys, "executable", str(bin_folder / "python"))
    with pytest.raises(DetourError) as caught:
        extras.require("no_such_module", "Ray", "ray", "--ray")
    extra = "-e '.[ray]'" if checkout else "'detour-fabric[ray]'"
    assert str(caught.value) == f"--ray needs Ray: .venv/bin/pip install {extra}"
    with pytest.raises(DetourError) as caught:
        extras.require("no_such_module", "matplotlib", "plot", "a plot")
    assert ("or `make tools` in ." in str(caught.value)) is checkout
    extras.require("json", "JSON", "none", "nothing")
