# SPDX-License-Identifier: Apache-2.0
"""A small lab in the format of p4lang's tutorials, to be changed."""

from __future__ import annotations

from typing import Any

MacOf = "08:00:00:00:01:{:02x}".format


def tutorial(**changes: Any) -> dict[str, Any]:
    """A topology of two switches and two hosts; `changes` are set in it."""
    document: dict[str, Any] = {
        "hosts": {
            "h1": {"ip": "10.0.1.1/24", "mac": MacOf(1), "commands": ["route add default gw 10.0.1.10 dev eth0"]},
            "h2": {"ip": "10.0.2.2/24", "mac": MacOf(2)},
        },
        "switches": {"s1": {}, "s2": {}},
        "links": [["h1", "s1-p1"], ["s1-p2", "s2-p2", "5ms", 0.5], ["h2", "s2-p1"]],
    }
    return document | changes
