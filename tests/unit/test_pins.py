# SPDX-License-Identifier: Apache-2.0
"""What continuous integration runs with is pinned: every package, one version for a Python, with its hashes."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.11.0", "3.12.0", "3.13.0")


def _pins() -> list[tuple[Requirement, int]]:
    """What is pinned, and how many hashes each has."""
    text = (ROOT / "requirements" / "ci.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    return [(Requirement(line.partition("--hash")[0]), line.count("--hash=sha256:")) for line in lines]


def test_every_pin_is_exact_and_has_hashes() -> None:
    pins = _pins()
    assert len(pins) > 40
    for pin, hashes in pins:
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
        assert hashes > 0, pin
        assert pin.url is None


def test_pins_are_what_the_project_asks_for_on_every_python() -> None:
    """`make pins` renews them when they are not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    asked = [
        *project["project"]["dependencies"],
        *extras["dev"],
        *extras["plugins"],
        *extras["plot"],
        *extras["test"],
        *project["build-system"]["requires"],
    ]
    for python in PYTHONS:
        environment = {"python_version": python[:4], "python_full_version": python, "sys_platform": "linux"}
        pins: dict[str, str] = {}
        for pin, _ in _pins():
            if pin.marker is None or pin.marker.evaluate(environment):
                name = canonicalize_name(pin.name)
                assert name not in pins, (name, python)
                (specifier,) = pin.specifier
                pins[name] = specifier.version
        for text in asked:
            requirement = Requirement(text)
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), (text, python)


def test_continuous_integration_uses_them() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    commands = [line for line in script.splitlines() if "make " in line and not line.lstrip().startswith("#")]
    assert commands
    assert all("PINNED=1" in command for command in commands)
