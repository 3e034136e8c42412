# SPDX-License-Identifier: Apache-2.0
"""Scenario files: a whole run of `detour sim` in YAML, with the names of the command's options.

    topo: leaf-spine:leaves=4,spines=4,hosts=8
    workload: poisson:sizes=web.txt,load=0.5,time=1ms
    scheme: SprayLERP
    rate: 100G
    fail:
      - s0-s3@200us
    reroute-after: 100us

Every error names file, line and rule. Files that a scenario names are looked for from the current folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from detour.base.errors import DetourError
from detour.base.files import read_text
from detour.base.option_files import read_options
from detour.experiments.sim.settings import OptionError, SimOptions

_LISTS = ("fail",)
_NAMES = {each.name.replace("_", "-"): each.name for each in fields(SimOptions)}
"""what keys are called, and the options that they are"""


@dataclass(frozen=True)
class Scenario:
    """`said`: what a file says; `lines`: where, by option."""

    file: Path
    said: SimOptions
    lines: Mapping[str, int]

    def under(self, given: SimOptions) -> SimOptions:
        """The file's, but for what is given otherwise."""
        return replace(self.said, **{name: value for name, value in vars(given).items() if value not in (None, ())})

    @contextmanager
    def blaming(self, given: SimOptions) -> Iterator[None]:
        """Errors in what the file says name file and line.

        Raises:
            DetourError: these.
        """
        try:
            yield
        except OptionError as error:
            if getattr(given, error.option) in (None, ()) and error.option in self.lines:
                raise DetourError(f"{self.file}, line {self.lines[error.option]}: {error}") from None
            raise


def read_scenario(file: Path) -> Scenario:
    """What a scenario file says, not yet understood.

    Raises:
        DetourError: it cannot be read, is no YAML, or has a key that no option is called, or one twice.
    """
    said = read_options(file, read_text(file), _NAMES, _LISTS)
    values: dict[str, Any] = {_NAMES[key]: one.value for key, one in said.items()}
    return Scenario(file, SimOptions(**values), {_NAMES[key]: one.line for key, one in said.items()})
