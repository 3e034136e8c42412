# SPDX-License-Identifier: Apache-2.0
"""Documents in YAML or JSON, in which no key appears twice."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import yaml

from detour.base.errors import DetourError


def read_document(text: str) -> Any:
    """Parse YAML or JSON. Raises `DetourError`, with the line: it is neither."""
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            # YAML would understand it as well, but slowly.
            return json.loads(text, object_pairs_hook=_mapping)
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise DetourError(f"{where}{error.problem or 'this is not YAML'}") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise DetourError("this is neither YAML nor JSON") from None


class _Loader(yaml.SafeLoader):
    """Refuses what `yaml.safe_load` takes: keys that are there twice, of which the last would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((key for place, key in enumerate(seen) if key in seen[:place]), None)
        if twice is not None:
            raise DetourError(f"line {node.start_mark.line + 1}: `{twice}` appears twice")
        return super().construct_mapping(node, deep)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise DetourError(f"`{twice}` appears twice")
    return mapping
