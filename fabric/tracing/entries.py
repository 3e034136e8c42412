# SPDX-License-Identifier: Apache-2.0
"""Entries of a file, by what the file looks like."""

from __future__ import annotations

from pathlib import Path

from finsy.proto import p4i, p4r

from detour.fabric.tracing.program import read_write_request


def read_updates(path: Path, p4info: p4i.P4Info) -> tuple[list[p4r.Update], list[str]]:
    """Updates, and what errors call each: of a tutorial's `sN-runtime.json`, or of a P4Runtime WriteRequest as text.

    Raises:
        DetourError: the file cannot be read, or does not fit the program.
    """
    if path.suffix != ".json":
        return read_write_request(path)
    from detour.fabric.labs.entries import read_entries

    found = read_entries(path, p4info)
    return [each.update for each in found], [each.where for each in found]
