# SPDX-License-Identifier: Apache-2.0
"""Network namespaces and veth pairs of a fabric on BMv2 (root). What is made here is also removed here.

Names begin with a prefix that is the fabric's own, so that leftovers of a fabric that was killed can be found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

from detour.base.errors import DetourError


def check_privileges() -> None:
    """Raises: DetourError unless namespaces can be made here."""
    if os.geteuid() != 0:
        raise DetourError("the bmv2 target needs root for its namespaces and veth pairs: use sudo, or TARGET=engine")
    if shutil.which("ip") is None:
        raise DetourError("the bmv2 target needs `ip`: install the package iproute2")


class Namespaces:
    """The namespaces and cables of one fabric; also a context manager.

    Commands go through `ip -batch`, because a process for each of hundreds of interfaces takes minutes.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._names: list[str] = []
        self._cables: list[str] = []

    def add_namespaces(self, names: Iterable[str]) -> None:
        """Makes namespaces `<prefix><name>` with their loopback up."""
        for name in names:
            full = self.prefix + name
            _ip("netns", "add", full)
            self._names.append(full)
            # No router solicitations or duplicate address detection: only what hosts send may be on the wire.
            _in_namespace(full, ["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])
            _ip("-n", full, "link", "set", "lo", "up")

    def add_cables(self, cables: Iterable[tuple[str, str, str]]) -> None:
        """Makes veth pairs `(end, other end, namespace of the other end)`; an empty namespace: both ends stay here.

        Interface names are at most 15 characters (Linux). Ends come up without IPv6, offloads or queueing surprises.
        """
        cables = list(cables)
        for near, far, _ in cables:
            for end in (near, far):
                if len(end) > 15:
                    raise DetourError(f"interface name {end} is longer than Linux's 15 characters")
        _batch([f"link add {near} mtu 9000 type veth peer name {far} mtu 9000" for near, far, _ in cables])
        self._cables += [near for near, _, _ in cables]
        for near, far, namespace in cables:
            for end, where in ((near, ""), (far, namespace)):
                if where:
                    _ip("link", "set", end, "netns", self.prefix + where)
                else:
                    _disable_ipv6(end)
        _batch([f"link set {near} up" for near, _, _ in cables])
        _batch([f"link set {far} up" for _, far, where in cables if not where])
        for _, far, where in cables:
            if where:
                _ip("-n", self.prefix + where, "link", "set", far, "up")

    def set_up(self, interface: str, up: bool) -> None:
        """Takes a cable's end in this namespace down or up."""
        _ip("link", "set", interface, "up" if up else "down")

    def close(self) -> None:
        """Removes everything; what is gone already is no error."""
        for near in self._cables:
            _ip("link", "delete", near, check=False)
        for name in self._names:
            _ip("netns", "delete", name, check=False)
        self._cables, self._names = [], []

    def __enter__(self) -> Namespaces:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def leftovers(prefix: str) -> tuple[list[str], list[str]]:
    """Namespaces and interfaces whose name begins with `prefix`."""
    namespaces = [line.split()[0] for line in _ip("netns", "list").splitlines() if line.startswith(prefix)]
    links = [line.split()[1].split("@")[0].rstrip(":") for line in _ip("-o", "link").splitlines()]
    return namespaces, [link for link in links if link.startswith(prefix)]


def remove_leftovers(prefix: str) -> None:
    """Removes what a killed fabric left."""
    namespaces, links = leftovers(prefix)
    for link in links:
        _ip("link", "delete", link, check=False)
    for name in namespaces:
        _ip("netns", "delete", name, check=False)


def _disable_ipv6(interface: str) -> None:
    path = f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"
    if os.path.exists(path):
        with open(path, "w") as file:
            file.write("1")


def _in_namespace(namespace: str, command: list[str]) -> None:
    _ip("netns", "exec", namespace, *command)


def _batch(lines: list[str]) -> None:
    if lines:
        _run(["ip", "-batch", "-"], "\n".join(lines) + "\n")


def _ip(*arguments: str, check: bool = True) -> str:
    return _run(["ip", *arguments], check=check)


def _run(command: list[str], text: str = "", check: bool = True) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise DetourError(f"`{' '.join(command)}` failed: {done.stderr.strip().splitlines()[-1:] or 'no message'}")
    return done.stdout
