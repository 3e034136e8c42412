# SPDX-License-Identifier: Apache-2.0
"""Taking the place of a UNIX socket: in a folder, where a live one stays and a dead one is replaced."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from detour.base.addresses import UNIX_PATH_BYTES, UnixAddress, refusal, too_long
from detour.base.errors import DetourError
from detour.base.port_owners import socket_owner, user

_TRIES = 100
_BACKLOG = 128
_ALONE_S, _POLL_S = 2.0, 0.005
_ELSEWHERE = "choose another path"


class OwnFile:
    """The file of a socket that this process has bound, told from a later one of the same name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = _identity(path.lstat())

    def remove(self) -> None:
        """Remove the file if it is still the own one. Before the socket is closed: after that the file's number may be
        another's. May be called twice."""
        mine, self._identity = self._identity, None
        with suppress(OSError):
            if mine is not None and _identity(self._path.lstat()) == mine:
                self._path.unlink()


class UnixServerSocket:
    """The file of a UNIX socket.

    A stream server binds and listens at `temporary`, then `publish` gives its socket the name that clients know: in one
    step, so that nobody sees a socket that does not listen yet, and nobody's is overwritten.
    """

    def __init__(self, path: Path, what: str) -> None:
        """Raise DetourError if a socket of `what` cannot be there."""
        self.path = path
        self._what = what
        self._absolute = Path(os.path.abspath(path))
        self._name = f".{secrets.token_hex(4)}"
        self._folder = -1
        self._mine: OwnFile | None = None
        self._clear()
        self._try()

    @property
    def temporary(self) -> Path:
        """Return where to bind first: in the same folder."""
        direct = self._absolute.parent / self._name
        if len(os.fsencode(direct)) <= UNIX_PATH_BYTES:
            return direct
        if self._folder < 0:
            self._folder = os.open(direct.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return Path(f"/proc/self/fd/{self._folder}/{self._name}")

    def listen(self) -> socket.socket:
        """A stream socket that listens under its name. Raises `DetourError`: another process was quicker, or the folder
        refuses."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(os.fspath(self.temporary))
            sock.listen(_BACKLOG)
            self.publish()
        except OSError as error:
            sock.close()
            raise self._refusal(f"{error.strerror}: {_ELSEWHERE}") from None
        except BaseException:
            sock.close()
            raise
        return sock

    def publish(self) -> None:
        """The socket at `temporary` gets its name. Raises `DetourError`: another process was quicker, or the folder
        refuses."""
        temporary = self.temporary
        try:
            self._link(temporary)
            self._mine = OwnFile(self._absolute)
        except OSError as error:
            raise self._refusal(f"{error.strerror}: {_ELSEWHERE}") from None
        finally:
            with suppress(OSError):
                temporary.unlink()
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    def _link(self, temporary: Path) -> None:
        for left in reversed(range(_TRIES)):
            try:
                os.link(temporary, self._absolute)
                return
            except FileExistsError:
                if not left:
                    raise
                self._clear()

    def bind_datagram(self) -> socket.socket:
        """A bound datagram socket. It needs no `temporary`: it can be reached at once, and peers see its name. Raises
        `DetourError`: another process was quicker, or the folder refuses."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.bind(os.fspath(self.path))
            self._mine = OwnFile(self._absolute)
        except OSError as error:
            sock.close()
            raise self._refusal(f"{error.strerror}: {_ELSEWHERE}") from None
        return sock

    def remove(self) -> None:
        """Remove the socket's file if it is still the own one. Before the socket is closed. May be called twice."""
        if self._mine is not None:
            self._mine.remove()

    # -- what may be in the way

    def _refusal(self, why: str) -> DetourError:
        return refusal(self._what, UnixAddress(self.path), why)

    def _clear(self) -> None:
        """Remove a dead socket; DetourError if anything else is in the way, or the folder is of no use."""
        why = too_long(self.path) or _bad_folder(self._absolute.parent)
        if not why:
            try:
                status = self._absolute.lstat()
            except FileNotFoundError:
                why = _locked(self._absolute.parent)
            except OSError as error:
                why = f"{error.strerror}: choose a folder that you may use"
            else:
                why = self._occupied(status)
        if why:
            raise self._refusal(why)

    def _try(self) -> None:
        """Return whether the folder takes sockets is known only when one is made."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(os.fspath(self.temporary))
                self.temporary.unlink()
            except OSError as error:
                raise self._refusal(f"{self._absolute.parent}: {error.strerror}: {_ELSEWHERE}") from None

    def _occupied(self, status: os.stat_result) -> str:
        """Say what occupies the path, if it has to stay."""
        if stat.S_ISDIR(status.st_mode):
            return f"it is a folder: choose a path in it, like {self.path}/socket"
        if not stat.S_ISSOCK(status.st_mode):
            return f"it exists and is not a socket: remove it or {_ELSEWHERE}"
        try:
            owner = socket_owner(self._absolute)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"a socket of {user(status.st_uid)} is there: {error.strerror}: {_ELSEWHERE}"
        if owner is not None:
            return f"{os.strerror(errno.EADDRINUSE)}: {owner} listens there: end it or {_ELSEWHERE}"
        try:
            self._remove_dead()
        except OSError as error:
            return f"a dead socket of {user(status.st_uid)} cannot be removed: {error.strerror}: {_ELSEWHERE}"
        return ""

    def _remove_dead(self) -> None:
        """Remove the dead socket. Another process may do the same and put its own in place: who looks and removes is
        alone with the folder meanwhile."""
        with _alone(self._absolute.parent), suppress(FileNotFoundError):
            if stat.S_ISSOCK(self._absolute.lstat().st_mode) and socket_owner(self._absolute) is None:
                self._absolute.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep others out who ask the same. `OSError` if that takes too long."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _ALONE_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise OSError(errno.EBUSY, "another process has locked the folder") from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


class AbstractServerSocket:
    """A name in Linux's abstract name space: no file, nothing to remove, and open to every user of the machine."""

    def __init__(self, address: UnixAddress, what: str) -> None:
        """Raise DetourError if it is taken."""
        self.address = address
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            name = f"\0{address.path}"
            try:
                probe.bind(name)
            except OSError as error:
                owner = socket_owner(Path(name)) if error.errno == errno.EADDRINUSE else None
                who = f": {owner} listens there" if owner else ""
                raise refusal(what, address, f"{error.strerror}{who}: choose another name") from None


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _bad_folder(folder: Path) -> str:
    for part in reversed([folder, *folder.parents]):
        try:
            mode = part.stat().st_mode
        except FileNotFoundError as error:
            return f"{part}: {error.strerror}: make the folder or {_ELSEWHERE}"
        except OSError as error:
            return f"{part}: {error.strerror}: choose a folder that you may use"
        if not stat.S_ISDIR(mode):
            return f"{part}: {os.strerror(errno.ENOTDIR)}: {_ELSEWHERE}"
    return ""


def _locked(folder: Path) -> str:
    """Why nothing new can be put into a folder."""
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder}: {os.strerror(errno.EROFS)}: {_ELSEWHERE}"
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        return ""
    info = folder.stat()
    whose = f"mode {stat.S_IMODE(info.st_mode):04o}, of {user(info.st_uid)}; you are {user(os.geteuid())}"
    return f"{folder}: {os.strerror(errno.EACCES)} ({whose}): choose a folder that you may write to"
