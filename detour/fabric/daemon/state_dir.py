# SPDX-License-Identifier: Apache-2.0
"""The folder in which a running fabric is found: `$XDG_RUNTIME_DIR/detour`, else `/tmp/detour-<uid>`; of a fabric that
has a name (`$DETOUR_FABRIC`, which `--name` sets) with `-<name>` behind it.

Whoever runs a fabric holds a lock on the folder; the kernel releases it when the process ends, however it ends. So
whatever lies in an unlocked folder is left over from a dead fabric and is removed, but for the log of a detached one,
which is kept beside the folder (`detour-last.log`) until the next fabric is up.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from detour.base.cache import without
from detour.base.errors import DetourError
from detour.base.secure_dir import make_folders

NAME_VARIABLE = "DETOUR_FABRIC"
_NAME = re.compile("[A-Za-z0-9_-]{1,32}")
_SOCKET = "control.sock"
_RECORD = "fabric.json"
_LOG = "daemon.log"
_END = "end"
_LAST_WORDS_BYTES = 4096
UP = "up"
"""the line of a log that says so; a log that ends with it tells nothing about an end"""
_POLL_SECONDS = 0.02
_FLAGS = 6
"""index of the flags of a process in /proc/PID/stat behind its name (proc(5))"""
_PF_EXITING = 0x4
"""include/linux/sched.h"""


def default_path() -> Path:
    """Return where the folder is. Raises DetourError: `$DETOUR_FABRIC` is not a name."""
    path, name = _nameless(), os.environ.get(NAME_VARIABLE, "")
    if not name:
        return path
    if not _NAME.fullmatch(name):
        raise DetourError(f"{name!r} is not a fabric name: use at most 32 letters, digits, - and _")
    return path.with_name(f"{path.name}-{name}")


def about_this_fabric(command: str) -> str:
    """A command for the fabric that this process asks for, as one types it: `detour down --name left`."""
    name = os.environ.get(NAME_VARIABLE, "")
    return f"`detour {command}{f' --name {name}' if name else ''}`"


def not_up() -> str:
    """Return a message that the requested fabric is not running, with those that are."""
    name, others = os.environ.get(NAME_VARIABLE, ""), all_fabrics()
    named = [f"--name {other}" for other in others if other]
    if not others:
        return f"no fabric {f'called {name!r} ' if name else ''}is up; {about_this_fabric('up --detach')} starts one"
    unnamed = ["one without a name"] if "" in others else []
    what = f"called {name!r}" if name else "without a name"
    return f"no fabric {what} is up; there {'is' if len(others) == 1 else 'are'} {', '.join([*named, *unnamed])}"


def all_fabrics() -> dict[str, StateDir]:
    """Folders of all fabrics of this user that are up, by name; the one without a name is called `""`."""
    path = _nameless()
    names = {"": path} | {
        folder.name.removeprefix(f"{path.name}-"): folder for folder in sorted(path.parent.glob(f"{path.name}-*"))
    }
    states = {name: StateDir(folder) for name, folder in names.items() if not name or _NAME.fullmatch(name)}
    return {name: state for name, state in states.items() if state.path.is_dir() and state.is_alive()}


def _nameless() -> Path:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "detour" if runtime else Path(f"/tmp/detour-{os.getuid()}")


class StateDir:
    """The folder. Nothing is made before `lock`."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._fd = -1

    @property
    def socket(self) -> Path:
        """The control socket."""
        return self.path / _SOCKET

    @property
    def scratch(self) -> Path:
        """A folder for the fabric's own sockets and logs."""
        return self.path / "switches"

    @property
    def log(self) -> Path:
        """The log of a detached fabric."""
        return self.path / _LOG

    @property
    def last_log(self) -> Path:
        """The log of the last one, if it died."""
        return self.path.with_name(f"{self.path.name}-last.log")

    # -- for the fabric ---------------------------------------------------------------------------------

    def lock(self) -> None:
        """Make the folder and take it; remove what a dead fabric left in it. Raises DetourError: a fabric is up, or
        the folder belongs to somebody else."""
        while True:
            fd = self._open(make=True)
            if not self._taken(fd):
                os.close(fd)
                raise DetourError(f"a fabric is already running{self._who()}; {about_this_fabric('down')} ends it")
            if self._is_current(fd):
                break
            os.close(fd)  # it was removed between opening and locking
        self._fd = fd
        self._keep_log()
        self._clear()

    def record(self, what: dict[str, Any]) -> None:
        """Note what runs here, if there is room for it; only messages to the user need it."""
        try:
            (self.path / _RECORD).write_text(json.dumps(what | {"pid": os.getpid()}) + "\n")
        except OSError as error:
            without(error, "a record in the state folder")

    def forget_last_log(self) -> None:
        """Remove the log of a fabric that died before this one."""
        with suppress(OSError):
            self.last_log.unlink()

    def open_log(self) -> int:
        """A descriptor of a new log. Raises OSError if there is no room, or it cannot be written."""
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def release(self, died: bool = False) -> None:
        """Remove the folder; keep the log if the fabric died. May be called twice."""
        if self._fd < 0:
            return
        if died:
            self._keep_log()
        self._clear()
        while not _removed(self.path):
            self._clear()  # `ask_to_end` came between
        os.close(self._fd)
        self._fd = -1

    @property
    def is_to_end(self) -> bool:
        """Return whether `detour down` has ended it: a signal alone does not say who sent it."""
        return (self.path / _END).exists()

    # -- for everybody else -----------------------------------------------------------------------------

    def ask_to_end(self) -> None:
        """Notes that the fabric is ended by `detour down`."""
        with suppress(OSError):
            (self.path / _END).touch()

    def is_alive(self) -> bool:
        """Return whether a process that is not exiting holds the lock."""
        try:
            fd = self._open(make=False)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(fd) and not self._is_exiting()
        finally:
            os.close(fd)

    def remove_stale(self) -> bool:
        """Remove what a dead fabric left; whether there was anything. Do nothing while one is alive."""
        if not self.path.exists() or self.is_alive():
            return False
        self.lock()
        self.release()
        return True

    def last_words(self) -> tuple[str, Path] | None:
        """The last line of the log of a fabric that died, and where that log is."""
        for path in (self.log, self.last_log):
            line = _last_line(path)
            if line and not line.endswith(f" {UP}"):
                return line, path
        return None

    def noted(self) -> dict[str, Any]:
        """Return the fabric's own record (`record`), as far as it can be read."""
        try:
            record = json.loads((self.path / _RECORD).read_text())
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def process(self) -> int | None:
        """The process that has noted itself here, None if nothing can be read."""
        pid = self.noted().get("pid")
        return pid if isinstance(pid, int) else None

    def signal(self, process: int, number: int) -> None:
        """Send a signal to the process that holds the lock, if it still does: numbers of processes come again."""
        try:
            handle = os.pidfd_open(process)
        except OSError:
            return
        try:
            if self.is_alive() and self.process() == process:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)

    def wait_until_gone(self, seconds: float) -> bool:
        """Wait until the fabric has ended."""
        end = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    # -- how --------------------------------------------------------------------------------------------

    def _open(self, make: bool) -> int:
        try:
            if make:
                make_folders(self.path.parent)
                _check_parent(self.path.parent)
                self.path.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DetourError(f"state folder {self.path}: {error.strerror}") from None
        owner = os.fstat(fd)
        if owner.st_uid != os.getuid() or stat.S_IMODE(owner.st_mode) & 0o077:
            os.close(fd)
            raise DetourError(f"state folder {self.path} must belong only to you (mode 0700); remove it")
        return fd

    def _taken(self, fd: int) -> bool:
        """Take the lock; wait for a process that is exiting and holds it. Return False if another process holds it."""
        while not _try_lock(fd):
            if not self._is_exiting():
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _is_exiting(self) -> bool:
        """Return whether the process of the record is exiting: the kernel closes its files one by one, and its memory
        before them, so that one that was killed holds the lock for a while."""
        try:
            status = Path(f"/proc/{self.process()}/stat").read_text()
        except OSError:
            return False
        return bool(int(status.rpartition(")")[2].split()[_FLAGS]) & _PF_EXITING)

    def _is_current(self, fd: int) -> bool:
        try:
            return os.stat(self.path).st_ino == os.fstat(fd).st_ino
        except FileNotFoundError:
            return False

    def _keep_log(self) -> None:
        """A log that says how it ended is put beside the folder."""
        line = _last_line(self.log)
        if line and not line.endswith(f" {UP}"):
            with suppress(OSError):
                os.replace(self.log, self.last_log)

    def _clear(self) -> None:
        for path in self.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _who(self) -> str:
        noted = self.noted()
        if not noted.keys() >= {"target", "topology", "pid"}:
            return ""
        return f" ({noted['target']}, {noted['topology']}, process {noted['pid']})"


def _removed(folder: Path) -> bool:
    """Remove it; whether it was empty."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _check_parent(parent: Path) -> None:
    """Refuse a parent that others can write to: they could put a folder of theirs in place of ours."""
    owner = parent.stat()
    mode = stat.S_IMODE(owner.st_mode)
    mine = owner.st_uid in (0, os.getuid())
    if not mine or (mode & 0o022 and not mode & stat.S_ISVTX):
        raise DetourError(
            f"state folder: {parent} can be written by others (user {owner.st_uid}, mode {mode:04o}); "
            "set XDG_RUNTIME_DIR to a folder of yours"
        )


def _last_line(path: Path) -> str:
    """The last line of a file of this user's; empty if there is none."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return ""
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True
