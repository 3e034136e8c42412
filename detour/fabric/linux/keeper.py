# SPDX-License-Identifier: Apache-2.0
"""The process that keeps a Linux host's namespaces: of the network, of mounts (its own /etc/hosts and /sys), of the
host's name and of processes.

They have no names outside. When whoever started the keeper ends, however it ends, the kernel closes a pipe, the keeper
ends, and with it everything that runs inside, and the namespaces. Without root they belong to a user namespace in which
this user is root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from detour.base.errors import DetourError
from detour.fabric.linux.interface import host_name

_END_S = 5.0
_SCRIPT = """
[ -e /etc/hosts ] && mount --bind "$1" /etc/hosts
mount -t sysfs sysfs /sys 2>/dev/null || :  # /sys/class/net is that of the namespace in which sysfs was mounted
hostname "$2" 2>/dev/null || :
shift 2
for setting; do echo "${setting#*=}" > "/proc/sys/${setting%%=*}"; done
echo ready
exec cat
"""
# An orphan's parent is process 1. Not yet having been one, nobody would end it: see `base.children`.
_AT = '[ "$PPID" != 1 ] || exit; cd "$1" 2>/dev/null; shift; exec "$@"'


class HostKeeper:
    """Namespaces of one host; a process of its own."""

    def __init__(self, name: str, hosts_file: Path, sysctls: Mapping[str, str], process: int | None = None) -> None:
        """`sysctls`: by path below /proc/sys. `process`: whose network namespace it is, instead of a new one. Raises
        DetourError: the kernel does not allow it, or there is no such process."""
        self.name, self.of_process = name, process
        self.user = without_root()
        settings = [f"{key}={value}" for key, value in sysctls.items()]
        command = [*self._namespaces(), "sh", "-e", "-c", _SCRIPT, "sh", str(hosts_file), host_name(name), *settings]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for who started it
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if self._process.stdout.readline() != "ready\n":
            why = " ".join(self._process.stderr.read().split())
            self.close()
            raise DetourError(f"{name}: cannot create a namespace: {why or 'it ended at once'}{_rights(why)}")

    def _namespaces(self) -> list[str]:
        """The command that runs another one in them."""
        own = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if self.of_process is None:
            return [*own, "--net", *(("--user", "--map-root-user") if self.user else ())]
        join = ["nsenter", f"--target={self.of_process}", "--net"]
        return [*join, *(("--user", "--preserve-credentials") if self.user else ()), *own]

    @property
    def pid(self) -> int:
        """Process whose namespaces they are: `/proc/PID/ns`. Its one child is the first process inside."""
        return self._process.pid

    def run(self, command: Sequence[str], lines: str = "", pass_fds: Sequence[int] = ()) -> None:
        """Run a command inside, with lines to read. Raises DetourError: with what it says."""
        done = subprocess.run(
            [*enter(self.pid, self.user), *command],
            input=lines,
            text=True,
            capture_output=True,
            check=False,
            pass_fds=pass_fds,
        )
        if done.returncode != 0:
            raise DetourError(f"{self.name}: {command[0]}: {' '.join(done.stderr.split())}")

    def close(self) -> None:
        """Let the namespaces go. May be called twice."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _rights(why: str) -> str:
    """Return what Linux hosts need and the kernel refused."""
    if not any(text in why for text in ("not permitted", "Permission denied", "No space left")):
        return ""
    if not without_root():
        return "; root may not make namespaces here (a container needs the capability SYS_ADMIN)"
    return (
        "; Linux hosts need root, or user namespaces for all users (sysctl user.max_user_namespaces above 0,"
        " kernel.unprivileged_userns_clone 1, kernel.apparmor_restrict_unprivileged_userns 0)"
    )


def without_root() -> bool:
    """Return whether namespaces must belong to a user namespace."""
    return os.geteuid() != 0


def enter(process: int, user: bool) -> list[str]:
    """The command that runs another one in the namespaces of a keeper; `user`: they belong to a user namespace."""
    credentials = ("--user", "--preserve-credentials") if user else ()
    inside = f"--pid=/proc/{process}/ns/pid_for_children"
    return ["nsenter", f"--target={process}", "--net", "--mount", "--uts", inside, *credentials]


def attended(folder: str, command: Sequence[str]) -> list[str]:
    """A command for `enter` that ends with who runs it, and begins in a folder: who enters is in the root. nsenter
    waits for it as a process of its own and is to ignore what a terminal sends to both; it does not pass on what is
    sent to it alone."""
    signals = "--default-signal=INT,QUIT,PIPE"
    return ["setpriv", "--pdeathsig", "TERM", "env", signals, "sh", "-c", _AT, "detour", folder, *command]


def missing() -> str | None:
    """Why this machine can have no such hosts; None: it can."""
    packages = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux"}
    for tool, package in packages.items():
        if shutil.which(tool) is None:
            return f"Linux hosts need `{tool}` on PATH (package {package})"
    return None
