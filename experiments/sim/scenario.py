# SPDX-License-Identifier: Apache-2.0
"""Scenario files: a whole run of `detour sim` in YAML, with the names of the command's options.

    topo: leaf-spine:leaves=4,spines=4,hosts=8
    workload: poisson:sizes=web.txt,load=0.5,time=1ms
    scheme: SprayLERP
    rate: 100G
    fail:
      - s0-s4@200us
    reroute-after: 100us

Every error names file, line and rule. Files that a scenario names are looked for from the current folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

from detour.base.errors import DetourError
from detour.experiments.sim.settings import OptionError, SimOptions
from detour.fabric.workloads.flow_files import text_of

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
    try:
        root = yaml.compose(text_of(file), yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DetourError(f"{file}, line {line}: {error.problem or 'this is not YAML'}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise DetourError(f"{file}: this is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(root, yaml.MappingNode):
        raise DetourError(f"{file}: wanted are lines `key: value`, like `topo: d1`")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, node in root.value:
        name = _name(file, key, values)
        values[name], lines[name] = _value(file, name, node), key.start_mark.line + 1
    return Scenario(file, SimOptions(**values), lines)


def _name(file: Path, key: yaml.Node, before: Mapping[str, object]) -> str:
    line = key.start_mark.line + 1
    name = _NAMES.get(key.value) if isinstance(key, yaml.ScalarNode) else None
    if name is None:
        said = key.value if isinstance(key, yaml.ScalarNode) else "a key that is no word"
        raise DetourError(f"{file}, line {line}: there is no {said!r:.60}; allowed: {', '.join(_NAMES)}")
    if name in before:
        raise DetourError(f"{file}, line {line}: {key.value} is there twice")
    return name


def _value(file: Path, name: str, node: yaml.Node) -> str | tuple[str, ...]:
    """The text as it is written: `1e6` and `100G` are for options to understand."""
    if isinstance(node, yaml.ScalarNode) and node.value:
        return (node.value,) if name in _LISTS else node.value
    if name in _LISTS and isinstance(node, yaml.SequenceNode):
        wrong = next((each for each in node.value if not isinstance(each, yaml.ScalarNode) or not each.value), None)
        if wrong is None:
            return tuple(each.value for each in node.value)
        node = wrong
    kind = "a list of texts" if name in _LISTS else "a text or a number"
    raise DetourError(f"{file}, line {node.start_mark.line + 1}: {name.replace('_', '-')} must be {kind}")
