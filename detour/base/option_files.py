# SPDX-License-Identifier: Apache-2.0
"""Files that say what options of a command say: YAML, a line `key: value` for each, with the options' names.

Values are texts as they are written: `1e6` and `100G` are for options to understand.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from detour.base.errors import DetourError


@dataclass(frozen=True)
class SaidOption:
    """The value that a file gives for an option (several where it may be repeated), and its line."""

    value: str | tuple[str, ...]
    line: int


def read_options(file: Path, text: str, allowed: Collection[str], lists: Collection[str] = ()) -> dict[str, SaidOption]:
    """Read options from a file's content, by key. `allowed`: the keys that exist; `lists`: those that may have several
    values. Raises `DetourError`, with file, line and rule: it is not YAML, a key is not an option, or a key is
    repeated."""
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DetourError(f"{file}, line {line}: {error.problem or 'this is not YAML'}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise DetourError(f"{file}: this is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(root, yaml.MappingNode):
        raise DetourError(f"{file}: expected lines `key: value`, like `topo: d1`")
    options: dict[str, SaidOption] = {}
    for key, node in root.value:
        name, line = _name(file, key, allowed), key.start_mark.line + 1
        if name in options:
            raise DetourError(f"{file}, line {line}: {name} appears twice")
        options[name] = SaidOption(_value(file, name, node, name in lists), line)
    return options


def _name(file: Path, key: yaml.Node, allowed: Collection[str]) -> str:
    if isinstance(key, yaml.ScalarNode) and key.value in allowed:
        return str(key.value)
    name = key.value if isinstance(key, yaml.ScalarNode) else "a key that is not a word"
    line = key.start_mark.line + 1
    raise DetourError(f"{file}, line {line}: there is no {name!r:.60}; allowed: {', '.join(allowed)}")


def _value(file: Path, name: str, node: Any, several: bool) -> str | tuple[str, ...]:
    if isinstance(node, yaml.ScalarNode) and node.value:
        return (node.value,) if several else node.value
    if several and isinstance(node, yaml.SequenceNode):
        wrong = next((each for each in node.value if not isinstance(each, yaml.ScalarNode) or not each.value), None)
        if wrong is None:
            return tuple(each.value for each in node.value)
        node = wrong
    kind = "a list of texts" if several else "a text or a number"
    raise DetourError(f"{file}, line {node.start_mark.line + 1}: {name} must be {kind}")
