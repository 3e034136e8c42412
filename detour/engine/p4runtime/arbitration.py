# SPDX-License-Identifier: Apache-2.0
"""Arbitration among controllers (docs/facts.md, "Primary and backups"). Belongs to the event loop's thread.

For each role of a device: the highest election id ever seen decides. When a primary goes, nobody is
promoted: the server waits for an arbitration update. BMv2 promotes the next best at once, which
`promote_backup` brings back for controllers that rely on it.

A role is kept as long as a stream has it. Of a role that nobody has any more only the highest election id is
remembered, and so many of these a device: beyond, those are forgotten that have been without a stream for the longest
time. The default role is never forgotten.

The scheme of `role.config` is left to agreement (spec, "Role Config"); ours is Stratum's P4RoleConfig, which comes with
finsy: P4Info ids that the role may write, alone or shared, whether and which packet-ins it gets, and whether it may
push pipelines. A role without config may do what the program's `@p4runtime_role` says (`P4Device.ids`), where nothing
has that annotation everything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from finsy.proto import p4r, stratum

from detour.engine.p4runtime.errors import Code, Refused, invalid
from detour.engine.p4runtime.limits import Budgets, Limits
from detour.engine.p4runtime.session import StreamSession

_MAX_STREAMS = 256  # for one device and role
_ROLE_BYTES = 2048
_EXPANSION = 32  # an id takes a few bytes in a message and some 60 in a set, and there are three copies


@dataclass(frozen=True)
class RoleConfig:
    """The rights of a role. `ids` None: everything."""

    exclusive: frozenset[int] = frozenset()
    ids: frozenset[int] | None = None
    receives_packet_ins: bool = True
    packet_in_filter: tuple[int, int] | None = None  # metadata id, value
    can_push_pipeline: bool = True

    def wants(self, packet: p4r.PacketIn) -> bool:
        """Return whether the role gets that packet-in."""
        if not self.receives_packet_ins:
            return False
        if self.packet_in_filter is None:
            return True
        id_, value = self.packet_in_filter
        return any(m.metadata_id == id_ and int.from_bytes(m.value, "big") == value for m in packet.metadata)


FULL_ACCESS = RoleConfig()


@dataclass(frozen=True)
class StreamClient:
    """A stream of a controller. `role`: "" is the default one; `election_id`: None, it does not bid."""

    role: str
    election_id: int | None
    primary: bool
    peer: str


class Role:
    """Arbitration for one role of one device."""

    def __init__(self, highest: int | None = None) -> None:
        self.sessions: list[StreamSession] = []
        # Of all that ever bid, gone ones too: a controller that was cut off and comes back with its old id must not
        # overwrite what its successor has written since.
        self.highest = highest
        self.primary: StreamSession | None = None
        self.pending: StreamSession | None = None  # becomes primary when the writes of its predecessor are done
        self.config: RoleConfig = FULL_ACCESS
        self.config_message: p4r.Role | None = None  # the role as the latest primary gave it


class Arbiter:
    """Arbitration for one device. `drain` waits until no write is in progress."""

    def __init__(
        self,
        device_id: int,
        drain: Callable[[], Awaitable[None]],
        promote_backup: bool = False,
        budgets: Budgets | None = None,
    ) -> None:
        self._device_id, self._drain, self._promote = device_id, drain, promote_backup
        self._budgets = budgets or Budgets(Limits())
        self.roles: dict[str, Role] = {"": Role()}
        self._vacated: dict[str, int] = {}  # role that nobody has -> highest election id, by the time of leaving

    def clients(self) -> list[StreamClient]:
        """Clients with a stream, each role's primary first. May be called from any thread: what changes meanwhile may
        be seen or not."""
        streams = [
            StreamClient(name, session.election, session is role.primary, session.peer)
            for name, role in sorted(dict(self.roles).items())
            for session in list(role.sessions)
        ]
        return sorted(streams, key=lambda each: (each.role, not each.primary))

    # -- updates

    async def update(self, session: StreamSession, update: p4r.MasterArbitrationUpdate, first: bool) -> None:
        """Handle an update of a stream that belongs to this device; raise Refused to end the stream."""
        size = _size(update.role, self._budgets.limits)
        name = _name(update.role)
        if not first and name != session.role_name:
            raise Refused(Code.FAILED_PRECONDITION, f"this stream has role '{session.role_name}', not '{name}'")
        role = self.roles.get(name) or Role(self._vacated.get(name))
        # An unset election id is lower than any; (0, 0) is an id.
        election = _number(update.election_id) if update.HasField("election_id") else None
        if election is not None and any(s.election == election for s in role.sessions if s is not session):
            raise invalid(f"device {self._device_id}: election id {election} is used by another live controller")
        others = [r.config for n, r in self.roles.items() if n != name]
        config = _parse(update.role, others)
        if first and len(role.sessions) >= _MAX_STREAMS:
            raise Refused(Code.RESOURCE_EXHAUSTED, f"role '{name}' already has {_MAX_STREAMS} streams")
        self._count(session, size)
        self.roles[name] = role
        self._vacated.pop(name, None)
        if first:
            role.sessions.append(session)
            session.role_name = name
        session.role.CopyFrom(update.role)
        session.election = election
        if election is not None and (role.highest is None or election >= self._bar(role, session)):
            await self._become_primary(role, session, election, config)
        elif not self._resign(role, session):
            self._notify(role, session)

    def _count(self, session: StreamSession, size: int) -> None:
        """Account for the memory that a stream's role takes."""
        self._budgets.roles.give(session.role_bytes)
        if not self._budgets.roles.take(size):
            session.role_bytes = 0
            raise Refused(Code.RESOURCE_EXHAUSTED, "controllers hold too many roles, or too large ones")
        session.role_bytes = size

    def _bar(self, role: Role, session: StreamSession) -> int:
        """Return the least election id of a new primary: the highest ever seen; as in BMv2, the highest of those
        connected."""
        if not self._promote:
            return role.highest or 0
        return max((s.election for s in role.sessions if s.election is not None and s is not session), default=0)

    async def _become_primary(self, role: Role, session: StreamSession, election: int, config: RoleConfig) -> None:
        """From now on nobody else may write; writes that have begun are finished before the new primary may."""
        stays = role.primary is session
        if not stays:
            role.primary, role.pending = None, session
        role.highest, role.config = election, config
        role.config_message = p4r.Role()
        role.config_message.CopyFrom(session.role)
        # The old primary hears of it before the new one may write: it stops by itself, and its next Write is refused.
        for other in role.sessions:
            if other is not session:
                self._notify(role, other)
        if stays:
            self._notify(role, session)
            return
        await self._drain()
        if role.pending is session:  # nobody was quicker, and the session lives
            role.primary, role.pending = session, None
            self._notify(role, session)

    def leave(self, session: StreamSession) -> None:
        """The stream is gone."""
        self._budgets.roles.give(session.role_bytes)
        session.role_bytes = 0
        role = self.roles.get(session.role_name)
        if role is None or session not in role.sessions:  # its first update was refused
            return
        role.sessions.remove(session)
        self._resign(role, session)
        if not role.sessions and session.role_name:
            del self.roles[session.role_name]
            if role.highest is not None:
                self._vacated[session.role_name] = role.highest
            while len(self._vacated) > self._budgets.limits.vacated_roles:
                del self._vacated[next(iter(self._vacated))]

    def _resign(self, role: Role, session: StreamSession) -> bool:
        """A primary is one no more; False if it was none. BMv2's behaviour, if it is asked for: the best of those that
        are left becomes primary."""
        if session not in (role.primary, role.pending):
            return False
        role.primary = role.pending = None
        candidates = [s for s in role.sessions if s.election is not None]
        if self._promote and candidates:
            role.primary = max(candidates, key=lambda s: s.election or 0)
            role.highest = role.primary.election
        for other in role.sessions:
            self._notify(role, other)
        return True

    def _notify(self, role: Role, session: StreamSession) -> None:
        """The advisory message (spec, "Client Arbitration Notifications")."""
        message = p4r.StreamMessageResponse()
        out = message.arbitration
        out.device_id = self._device_id
        if session.role.name or session.role.id or session.role.HasField("config"):
            out.role.name, out.role.id = session.role.name, session.role.id
            if role.config_message is not None and role.config_message.HasField("config"):
                out.role.config.CopyFrom(role.config_message.config)
        if role.highest is not None:
            out.election_id.high, out.election_id.low = role.highest >> 64, role.highest & ((1 << 64) - 1)
        if session is role.primary:
            out.status.code, out.status.message = Code.OK, "you are the primary"
        elif role.primary or role.pending:
            out.status.code, out.status.message = Code.ALREADY_EXISTS, "there is a primary"
        else:
            out.status.code, out.status.message = Code.NOT_FOUND, "there is no primary"
        session.send(message, droppable=False)

    # -- questions

    def authorise(self, role: str, election: p4r.Uint128 | None) -> RoleConfig:
        """Return the rights of a request with that role and election id, which must come from the primary."""
        bidders = self.roles.get(role)
        if bidders is None:
            raise Refused(Code.NOT_FOUND, f"device {self._device_id} has no role '{role}'")
        primary = bidders.primary
        if primary is None or election is None or primary.election != _number(election):
            raise Refused(Code.PERMISSION_DENIED, f"device {self._device_id}: the request is not the primary's")
        return bidders.config

    def role_config(self, role: str) -> RoleConfig:
        """Return a role's view, for reads, which need no stream."""
        bidders = self.roles.get(role)
        return bidders.config if bidders else FULL_ACCESS

    def is_primary(self, session: StreamSession) -> bool:
        """Return whether that stream is its role's primary."""
        role = self.roles.get(session.role_name)
        return role is not None and role.primary is session

    def primaries(self) -> Iterator[tuple[StreamSession, RoleConfig]]:
        """Yield the primaries, which get notifications."""
        for role in self.roles.values():
            if role.primary is not None:
                yield role.primary, role.config


def _number(id_: p4r.Uint128) -> int:
    return id_.high << 64 | id_.low


# -- roles


def _name(role: p4r.Role) -> str:
    """The name of a role; clients of versions before 1.4 number theirs."""
    return role.name or (str(role.id) if role.id else "")


def _size(role: p4r.Role, limits: Limits) -> int:
    """About the bytes that a role takes while somebody holds it; INVALID_ARGUMENT if it is too long."""
    name, config = len(role.name.encode()), role.config.ByteSize()
    if name > limits.role_name:
        raise invalid(f"the name of a role has {name} bytes, it may have {limits.role_name}")
    if config > limits.role_config:
        raise invalid(f"role '{_name(role)}': its config has {config} bytes, it may have {limits.role_config}")
    return _ROLE_BYTES + name + _EXPANSION * config


def _parse(role: p4r.Role, others: Iterable[RoleConfig]) -> RoleConfig:
    """The configuration in an arbitration update; INVALID_ARGUMENT if it is not of the scheme."""
    if not role.HasField("config"):
        return FULL_ACCESS
    message = stratum.P4RoleConfig()
    try:
        is_ours = role.config.Unpack(message)
    except Exception as e:  # whatever protobuf says to bytes that are none
        raise invalid(f"role '{_name(role)}': its config cannot be read: {e}") from e
    if not is_ours:
        raise invalid(f"role '{_name(role)}': its config is {role.config.type_url}, not stratum.P4RoleConfig")
    exclusive = frozenset(message.exclusive_p4_ids)
    ids = exclusive | frozenset(message.shared_p4_ids)
    for other in others:
        if exclusive & (other.ids or frozenset()) or other.exclusive & ids:
            raise invalid(f"role '{_name(role)}' and another role claim the same object, one of them exclusively")
    only = None
    if message.HasField("packet_in_filter"):
        only = message.packet_in_filter.metadata_id, int.from_bytes(message.packet_in_filter.value, "big")
    return RoleConfig(exclusive, ids, message.receives_packet_ins, only, message.can_push_pipeline)
