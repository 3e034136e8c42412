# SPDX-License-Identifier: Apache-2.0
"""The `topology.json` in which p4-utils' controllers look up switches, ports and addresses: it lies in the lab's folder
while the lab is up, as with p4-utils."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from detour.base.progress import Progress
from detour.fabric.labs.contents import SwitchContent
from detour.fabric.labs.folder import is_json_with
from detour.fabric.labs.model import Lab

_NAME = "topology.json"


class ControllerTopology:
    """See the module. Labs of other formats have none."""

    def __init__(self, lab: Lab, contents: Sequence[SwitchContent]) -> None:
        self._path = lab.folder / _NAME
        self._text = None if lab.topology is None else _with_programs(lab.topology, contents)
        self._written = False

    def write(self, progress: Progress) -> None:
        """Writes it, unless the folder cannot be written to, or holds another file of that name."""
        if self._text is None:
            return
        if self._path.is_file() and not _is_p4utils(self._path):
            progress(f"{self._path} is another lab's, and stays: p4-utils' controllers will not find this one")
            return
        try:
            self._path.write_text(self._text)
        except OSError as error:
            progress(f"{self._path}: {error.strerror}: p4-utils' controllers will not find it")
        else:
            self._written = True

    def remove(self) -> None:
        """Takes it away, unless it has been changed. May be called twice."""
        if self._written:
            with suppress(OSError):
                if self._path.read_text() == self._text:
                    self._path.unlink()
        self._written = False


def _is_p4utils(path: Path) -> bool:
    """Whether p4-utils, or a lab that was killed, has left it."""
    return is_json_with(path, {"nodes", "links", "graph"})


def _with_programs(topology: str, contents: Sequence[SwitchContent]) -> str:
    """With each switch's JSON and P4Info as they were found or compiled."""
    document = json.loads(topology)
    files = {content.switch.name: content.files for content in contents}
    for node in document["nodes"]:
        if (found := files.get(node["id"])) is not None:
            node["json_path"] = str(found.json)
            if found.p4info is not None:
                node["p4rt_path"] = str(found.p4info)
    return json.dumps(document)
