# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime client: connects to all switches at once, becomes primary, sets the pipeline, reads and writes.

finsy does connections, arbitration and the pipeline's cookie (a pipeline is only set if it differs). Entities
go through our own codec. Everything is asynchronous and runs in one event loop; nothing here knows whether a
switch is the engine's or a BMv2 process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

import finsy
import finsy.p4client
import finsy.p4schema
from finsy.p4schema import P4SchemaCache
from finsy.proto import p4r, p4t

from detour.base.errors import DetourError
from detour.control.entries import Entity, Plan, Stored
from detour.control.groups import one_shots, ungrouped
from detour.control.p4runtime.codec import Codec
from detour.control.p4runtime.pipeline import PipelineConfig, read_p4info

T = TypeVar("T")
_log = logging.getLogger(__name__)

# A message stays well below gRPC's limit of 4 MiB.
WRITE_BATCH = 2000
AT_ONCE = 16
"""switches that something is done on at the same time: a server of hundreds answers all in time also when it is slow"""
RPC_SECONDS = 60.0
OPEN_SECONDS = 3 * RPC_SECONDS  # for a connection: arbitration, and setting the pipeline
PREDECESSOR_SECONDS = 3.0  # for a switch to notice that the last controller has gone
_RETRY_SECONDS = 0.1
ELECTION_ID = 10

PacketIn = Callable[["SwitchClient", bytes, dict[str, int]], Awaitable[None]]
"""called with the switch, the frame without controller header, and the header's fields"""


@dataclass(frozen=True)
class SwitchTarget:
    """A switch to control: its name for messages, its device id, and the gRPC address that serves it."""

    name: str
    device_id: int
    address: str


@dataclass(frozen=True)
class Displaced:
    """Another controller has become primary of a switch. What it wrote stays until it is written over."""

    election_id: int
    since: float  # `time.monotonic`


class SwitchClient:
    """One switch. Made by `FabricClient`.

    `lost`: set while there is no connection."""

    def __init__(
        self, target: SwitchTarget, options: finsy.SwitchOptions, on_packet_in: PacketIn | None = None
    ) -> None:
        self.target = target
        self._options = replace(options, device_id=target.device_id)
        self._on_packet_in = on_packet_in
        self._stack = AsyncExitStack()
        self.lost = asyncio.Event()
        self.lost.set()
        self.switch = self._make()
        self.codec = Codec(self.switch.p4info.p4info)
        self.displaced: Displaced | None = None
        """the last time that another controller took the switch over; kept when it has gone, until `forgive`"""

    def _on_backup(self, switch: finsy.Switch) -> None:
        self.displaced = Displaced(switch.primary_id, time.monotonic())
        _log.warning("%s: another controller is primary now (election id %d)", self._where(), switch.primary_id)

    @property
    def is_primary(self) -> bool:
        """Return whether this client may write."""
        return self.switch.is_primary

    def forgive(self) -> None:
        """The switch holds again what we want; `displaced` is history, unless the other controller is still there."""
        if self.is_primary:
            self.displaced = None

    def _make(self) -> finsy.Switch:
        """finsy's switch is good for one connection."""
        switch = finsy.Switch(self.target.name, self.target.address, self._options)
        switch.ee.add_listener(finsy.SwitchEvent.CHANNEL_DOWN, lambda _: self.lost.set())
        switch.ee.add_listener(finsy.SwitchEvent.BECOME_BACKUP, self._on_backup)
        return switch

    @property
    def name(self) -> str:
        return self.target.name

    async def open(self) -> None:
        """Connect, become primary, set the pipeline if it differs. Raises `DetourError`: nobody answers, another
        controller is primary, or the pipeline is refused."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._open()
        except TimeoutError:
            await self.close()
            raise DetourError(f"{self._where()}: it does not answer within {OPEN_SECONDS:g} s") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection. May be called twice."""
        await self._stack.aclose()
        self.lost.set()

    async def reopen(self) -> None:
        """Connect anew after the connection was lost; as `open`."""
        await self.close()
        self.switch = self._make()
        await self.open()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + PREDECESSOR_SECONDS
        await self._connect()
        while not self.switch.is_primary:
            # A primary with our election id is likely a predecessor whose end the switch has not noticed yet.
            if self.switch.primary_id != self._options.initial_election_id or loop.time() >= patient_until:
                raise DetourError(
                    f"{self._where()}: another controller is primary (election id {self.switch.primary_id});"
                    " stop it first"
                )
            await self.close()
            await asyncio.sleep(_RETRY_SECONDS)
            self.switch = self._make()
            await self._connect()
        if self._on_packet_in is not None:
            listener = asyncio.create_task(self._packets_in(self._on_packet_in))
            self._stack.push_async_callback(_end, listener)

    async def _connect(self) -> None:
        """Connect and bid to be primary."""
        self.lost.clear()
        try:
            await self._stack.enter_async_context(self.switch)
        except finsy.P4ClientError as error:
            raise DetourError(f"{self._where()}: {describe(error)}") from None
        except ValueError as error:  # finsy: no election id left to bid with
            raise DetourError(f"{self._where()}: {error}") from None
        except asyncio.CancelledError:
            # One of finsy's tasks failed, whereupon it cancelled the one that we wait for.
            raise self._gone() from None
        version = self.switch.p4runtime_version
        self.codec = Codec(self.switch.p4info.p4info, (version.major, version.minor) >= (1, 5))

    def _gone(self) -> BaseException:
        """Return the exception to raise when a wait for the switch was cancelled: by the waiting task, or because the
        connection ended."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return asyncio.CancelledError()
        return DetourError(f"{self._where()}: {_FAILURES.reason(self.name)}")

    def _where(self) -> str:
        return f"switch {self.name} (device {self.target.device_id}) at {self.target.address}"

    async def read(self) -> list[Entity]:
        """All state of the switch that entities describe."""
        return ungrouped(await self.read_stored())

    async def read_stored(self) -> list[Stored]:
        """The same as the switch stores it."""
        stored = await self._decoded(self.codec.read_everything())
        apart = one_shots(stored, self.codec.profiles)
        return [*stored, *await self._decoded(self.codec.read_profiles(apart))]

    async def _decoded(self, requests: Sequence[p4r.Entity]) -> list[Stored]:
        decoded = [self.codec.decode(entity) async for entity in self._read(requests)]
        return [entity for entity in decoded if entity is not None]

    async def read_messages(self, requests: Sequence[p4r.Entity]) -> list[p4r.Entity]:
        """Return the switch's answer, undecoded."""
        return [entity async for entity in self._read(requests)]

    async def _read(self, requests: Sequence[p4r.Entity]) -> AsyncIterator[p4r.Entity]:
        client = self._client()
        request = p4r.ReadRequest(device_id=self.target.device_id, entities=requests)
        try:
            async for reply in client.request_iter(request):
                for entity in reply.entities:
                    yield entity
        except finsy.P4ClientError as error:
            raise DetourError(f"{self._where()} cannot be read: {describe(error)}") from None
        except asyncio.CancelledError:
            raise self._gone() from None

    def _client(self) -> Any:
        # finsy decodes every entity into its own classes when asked by `Switch.read`; its client hands out messages.
        client = self.switch._p4client  # pyright: ignore[reportPrivateUsage]
        if client is None or not self.switch.is_up:
            raise DetourError(f"{self._where()}: the connection is lost")
        return client

    async def write(self, updates: Iterable[p4r.Update]) -> None:
        """Write updates, in order, in batches. Raises `DetourError`: naming the first update that the switch refuses;
        those before and after it are done."""
        pending = list(updates)
        for start in range(0, len(pending), WRITE_BATCH):
            batch = pending[start : start + WRITE_BATCH]
            request = p4r.WriteRequest(device_id=self.target.device_id, updates=batch)
            try:
                await self._client().request(request)
            except finsy.P4ClientError as error:
                raise DetourError(f"{self._where()} refuses {self._refused(error, batch)}") from None
            except asyncio.CancelledError:
                raise self._gone() from None

    def _refused(self, error: finsy.P4ClientError, batch: Sequence[p4r.Update]) -> str:
        if not self.is_primary and self.displaced is not None:
            return f"writes: another controller is primary (election id {self.displaced.election_id})"
        if not error.details:
            return f"a write of {len(batch)} updates: {describe(error)}"
        place, detail = min(error.details.items())
        kind = p4r.Update.Type.Name(batch[place].type)
        what = self.codec.decode(batch[place].entity) or batch[place].entity
        others = f" ({len(error.details)} of {len(batch)} refused)" if len(error.details) > 1 else ""
        return f"{kind} {what}: {detail.message or detail.canonical_code.name}{others}"

    async def packet_out(self, frame: bytes, egress_port: int = 0) -> None:
        """Send a frame as if it had come in at the CPU port; port 0: the switch routes it."""
        await self.switch.write([finsy.P4PacketOut(frame, egress_port=egress_port)])

    async def _packets_in(self, handler: PacketIn) -> None:
        """Hand every packet-in to `handler`, until cancelled."""
        async for packet in self.switch.read_packets(queue_size=1024):
            await handler(self, packet.payload, packet.metadata)


def _let_finsy_take_more() -> None:
    """Let finsy take two kinds of programs that it refuses: with fields of a key that are alike behind the last dot, by
    which it finds them, too; and with enums or errors in digests, which nothing here decodes."""
    schema: Any = finsy.p4schema
    schema._make_alias = str
    schema._parse_type_spec = _type_of


_known_type = finsy.p4schema._parse_type_spec  # pyright: ignore[reportPrivateUsage]


def _type_of(spec: p4t.P4DataTypeSpec, types: Any) -> Any:
    if spec.WhichOneof("type_spec") in ("enum", "error"):
        spec = p4t.P4DataTypeSpec(bitstring=p4t.P4BitstringLikeTypeSpec(bit=p4t.P4BitTypeSpec(bitwidth=32)))
    return _known_type(spec, types)


class FabricClient:
    """All switches of a fabric. An asynchronous context manager: open inside, closed after."""

    def __init__(
        self, targets: Iterable[SwitchTarget], pipeline: PipelineConfig | None = None, *,
        election_id: int = ELECTION_ID, on_packet_in: PacketIn | None = None,
    ) -> None:  # fmt: skip
        """Raise DetourError: the pipeline's files cannot be read, or the client does not take the P4Info."""
        pipeline = pipeline or PipelineConfig.fabric()
        # finsy takes the message as well as the file, which it would parse for each switch.
        info = cast(Any, read_p4info(pipeline.p4info))
        options = finsy.SwitchOptions(p4info=info, p4blob=pipeline.blob, initial_election_id=election_id)
        _let_finsy_take_more()
        try:
            with P4SchemaCache():
                self.switches = {t.device_id: SwitchClient(t, options, on_packet_in) for t in targets}
        except (LookupError, ValueError) as error:
            raise DetourError(f"{pipeline.p4info}: finsy, the client, does not take it: {error}") from None

    async def __aenter__(self) -> FabricClient:
        logger = logging.getLogger("finsy")
        if _FAILURES not in logger.handlers:
            logger.addHandler(_FAILURES)
            logger.propagate = False
        # finsy allows a call ten seconds; setting a pipeline may mean compiling it, on a busy machine.
        finsy.p4client._DEFAULT_RPC_TIMEOUT = RPC_SECONDS  # pyright: ignore[reportAttributeAccessIssue]
        try:
            await self.each(lambda switch: switch.open())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections. May be called twice."""
        await asyncio.gather(*(switch.close() for switch in self.switches.values()))

    async def each(
        self, work: Callable[[SwitchClient], Awaitable[T]], device_ids: Iterable[int] | None = None
    ) -> dict[int, T]:
        """Do something on all switches (or those named), on many of them concurrently; all are tried before the first
        error, in order of the switches, is raised."""
        chosen = [self.switches[d] for d in (self.switches if device_ids is None else device_ids)]
        turns = asyncio.Semaphore(AT_ONCE)

        async def take_turn(switch: SwitchClient) -> T:
            async with turns:
                return await work(switch)

        done = await asyncio.gather(*map(take_turn, chosen), return_exceptions=True)
        result: dict[int, T] = {}
        for switch, value in zip(chosen, done, strict=True):
            if isinstance(value, BaseException):
                raise value
            result[switch.target.device_id] = value
        return result

    async def read(self, device_ids: Iterable[int] | None = None) -> Plan:
        """Read the entities of the switches: device id -> entities."""
        return await self.each(lambda switch: switch.read(), device_ids)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def describe(error: finsy.P4ClientError) -> str:
    """A P4Runtime error on one line."""
    text = f"{error.code.name}: {error.message}" if error.message else error.code.name
    return " ".join(text.split())


class _Failures(logging.Handler):
    """Takes finsy's log. What it would print (a lost connection, a server without gNMI) reaches the user as errors of
    ours; why a task of a switch failed is told nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        self._last: dict[str, BaseException] = {}

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.args:
            # The name of a task is fy:<switch>|<function>.
            (task,) = record.args
            self._last[str(task).partition("|")[0].removeprefix("fy:")] = error

    def reason(self, name: str) -> str:
        """Why the last task of a switch failed, on one line."""
        error = self._last.pop(name, None)
        if isinstance(error, finsy.P4ClientError):
            return describe(error)
        return f"{type(error).__name__}: {error}" if error else "the connection is lost"


_FAILURES = _Failures()
