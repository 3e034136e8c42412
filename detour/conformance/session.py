# SPDX-License-Identifier: Apache-2.0
"""A check's session with a server: the suite is its primary controller and has set its pipeline, without entries.

Everything that is sent and received on the way is written down for the report.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from finsy.proto import p4r
from google.protobuf import text_format

from detour.base.dataplane import CPU_PORT
from detour.conformance.link import Canonical, Conversation, RpcAnswer, RpcLink
from detour.conformance.model import ServerUnderTest
from detour.conformance.samples import Samples
from detour.control.p4runtime.codec import to_bytes

WAIT_S = 5.0
"""for a message that must come"""
QUIET_S = 0.2
QUIET_TURNS = 20
"""answers of the server to other calls that a silence lasts for besides: a busy machine delays both"""
"""for one that must not"""
_CPU_PORT_S = 2.0
"""for a frame that comes back if there is a CPU port"""
_SHOWN = 700  # characters of a message in the report
_Actions = p4r.SetForwardingPipelineConfigRequest.Action


class RequirementMissed(Exception):
    """The server does something else than the requirement; the text says what was expected."""


class NotPrepared(Exception):
    """The server refuses what a check needs before it can try anything."""


class NotOffered(Exception):
    """The server says UNIMPLEMENTED."""


def insert(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=entity)


def modify(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.MODIFY, entity=entity)


def uint128(value: int) -> p4r.Uint128:
    return p4r.Uint128(high=value >> 64, low=value & ((1 << 64) - 1))


def number_of(value: p4r.Uint128) -> int:
    return value.high << 64 | value.low


def shown(message: Any) -> str:
    """On one line, cut."""
    if isinstance(message, RpcAnswer):
        return _shown_answer(message)
    if isinstance(message, p4r.SetForwardingPipelineConfigRequest | p4r.GetForwardingPipelineConfigResponse):
        short = type(message)()
        short.CopyFrom(message)  # pyright: ignore[reportArgumentType]
        if short.config.HasField("p4info"):
            short.config.p4info.Clear()
            short.config.p4info.pkg_info.name = "..."
        if short.config.p4_device_config:
            short.config.p4_device_config = short.config.p4_device_config[:16]
        message = short
    name = type(message).__name__
    text = f"{name} {{ {text_format.MessageToString(message, as_one_line=True)} }}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."


def name_of(code: int) -> str:
    return Canonical(code).name if code in list(Canonical) else f"code {code}"


def _shown_answer(answer: RpcAnswer) -> str:
    parts = [name_of(answer.code)]
    if answer.errors:
        parts.append(f"[{', '.join(name_of(e.canonical_code) for e in answer.errors[:20])}]")
    if answer.strange:
        parts.append(answer.strange)
    parts += [text for text in (answer.text[:200], *(e.message[:200] for e in answer.errors[:3])) if text]
    return " ".join(parts)


class CheckSession:
    """One server, one device. `begin` makes it ready for the next check."""

    def __init__(
        self, link: RpcLink, server: ServerUnderTest, config: p4r.ForwardingPipelineConfig, election: int
    ) -> None:
        """`election`: the highest id that the server has seen."""
        self.link, self.server, self.device_id, self.config = link, server, server.device_id, config
        self.samples = Samples(config.p4info, server.config is None, server.down_port)
        self.election, self.wait_s = election, WAIT_S
        self.primary: Conversation | None = None
        self.others: list[Conversation] = []
        """streams of other controllers that the check has opened"""
        self.update: Any = None
        """the answer to the arbitration of the last of them"""
        self.sent: list[str] = []
        self.got: list[str] = []
        self.dirty = True
        """whether the pipeline must be set again before the next check"""
        self.before_pipeline: dict[str, tuple[Any, RpcAnswer]] = {}
        """requests to a server that had no pipeline when the suite began, and its answers"""
        self._disturbed = False

    # -- between checks

    def begin(self) -> None:
        """Primary again, the pipeline without entries, nothing written down. Raises `NotPrepared`."""
        self.settle()
        if self.dirty:
            answer = self.set_pipeline("VERIFY_AND_COMMIT", self.config)
            if answer.code:  # a check may have saved a pipeline, which some servers want to see committed first
                self.set_pipeline("COMMIT", None)
                answer = self.set_pipeline("VERIFY_AND_COMMIT", self.config)
            if answer.code:
                raise NotPrepared("the pipeline")
            self.dirty = False
        if self.primary is not None:
            while self.primary.next(0) is not None:
                pass
        self.sent, self.got = [], []

    def find_cpu_port(self) -> None:
        """See whether a packet-out for the CPU port comes back. To be called when the session has begun."""
        if not self.samples.own_program:
            return
        message = p4r.PacketOut(payload=bytes(64))
        for metadata_id, value in ((1, to_bytes(CPU_PORT)), (2, b"\0")):
            message.metadata.add(metadata_id=metadata_id, value=value)
        self.send(self.stream(), packet=message)
        with suppress(RequirementMissed, NotOffered):
            self.receive(self.stream(), "packet", _CPU_PORT_S)
            self.samples.has_cpu_port = True

    def settle(self) -> None:
        """End what a check has opened and become primary again."""
        for conversation in self.others:
            conversation.close()
            _until_end(conversation, 1.0)
            conversation.kill()
        self.others = []
        if self.primary is None or self._disturbed:
            self.regain()
        self._disturbed = False

    def regain(self) -> None:
        """Becomes primary with a new election id. Raises `NotPrepared`."""
        if self.primary is None:
            self.primary = self.link.converse()
        for _ in range(2):
            while self.primary.next(0) is not None:
                pass
            update = p4r.MasterArbitrationUpdate(device_id=self.device_id, election_id=uint128(self.next_election()))
            self.primary.send(p4r.StreamMessageRequest(arbitration=update))
            for message in _arrivals(self.primary, self.wait_s):
                if isinstance(message, RpcAnswer):  # the stream has ended
                    break
                if message.HasField("arbitration") and message.arbitration.status.code == 0:
                    return
            self.primary.kill()
            self.primary = self.link.converse()
        raise NotPrepared("to become primary")

    def disturb(self) -> None:
        """The check does something with our own stream: afterwards it must become primary again."""
        self._disturbed = True

    def leave(self, broken: bool = False) -> None:
        """Ends our own stream, politely or by breaking it, and waits until the server has heard of that."""
        assert self.primary is not None
        stream, self.primary = self.primary, None
        if broken:
            stream.kill()
        else:
            stream.close()
        _until_end(stream, self.wait_s)

    def next_election(self) -> int:
        """Higher than all before."""
        self.election += 1
        return self.election

    def close(self) -> None:
        for conversation in (*self.others, *([self.primary] if self.primary else [])):
            conversation.kill()

    # -- calls. `election` is what is added to the highest election id; None: unset

    def call(self, method: str, request: Any) -> RpcAnswer:
        """An RPC. Raises `NotOffered` when it is UNIMPLEMENTED."""
        self.sent.append(shown(request))
        answer = self.link.call(method, request)
        self.got.append(shown(answer))
        self.got += [shown(message) for message in answer.messages[:4] if message.ListFields()]
        if answer.code == Canonical.UNIMPLEMENTED or Canonical.UNIMPLEMENTED in answer.codes:
            raise NotOffered(shown(answer))
        return answer

    def note(self, *messages: Any) -> None:
        """Write down what the check has sent and received by itself."""
        *sent, received = messages
        self.sent += [shown(message) for message in sent]
        self.got.append("nothing" if received is None else shown(received))

    def _own(self, request: Any, election: int | None, fields: dict[str, Any]) -> Any:
        """The request by the primary; `fields` are others than its own."""
        request.device_id = self.device_id
        if election is not None:
            request.election_id.CopyFrom(uint128(self.election + election))
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def write_request(self, updates: Iterable[p4r.Update], election: int | None = 0, **fields: Any) -> p4r.WriteRequest:
        return self._own(p4r.WriteRequest(updates=updates), election, fields)

    def write(self, *updates: p4r.Update, election: int | None = 0, **fields: Any) -> RpcAnswer:
        self.dirty = True
        return self.call("Write", self.write_request(updates, election, **fields))

    def set_pipeline(
        self, action: str | int, config: p4r.ForwardingPipelineConfig | None, election: int | None = 0, **fields: Any
    ) -> RpcAnswer:
        """SetForwardingPipelineConfig."""
        request = p4r.SetForwardingPipelineConfigRequest(config=config)
        request.action = _Actions.Value(action) if isinstance(action, str) else action  # pyright: ignore
        self.dirty = True
        return self.call("SetForwardingPipelineConfig", self._own(request, election, fields))

    def prepare(self, *entities: p4r.Entity) -> None:
        """Insert what a check needs, one after the other. Raises `NotPrepared`."""
        self.do(*(insert(entity) for entity in entities))

    def do(self, *updates: p4r.Update) -> None:
        """As `prepare`, for all kinds of updates."""
        for update in updates:
            answer = self.write(update)
            if answer.code:
                raise NotPrepared(shown(answer))

    def accept(self, *updates: p4r.Update) -> None:
        """The server must do all of it."""
        self.expect(self.write(*updates).code == 0, "OK")

    def refuse(self, codes: int | Sequence[int], *updates: p4r.Update) -> None:
        """The server must refuse each of them with one of these codes."""
        self._refused(codes, self.write(*updates))

    def refuse_read(self, codes: int | Sequence[int], entity: p4r.Entity) -> None:
        self._refused(codes, self.try_read(entity))

    def _refused(self, codes: int | Sequence[int], answer: RpcAnswer) -> None:
        allowed = [codes] if isinstance(codes, int) else list(codes)
        self.expect(all(code in allowed for code in answer.codes), " or ".join(name_of(code) for code in allowed))

    def try_read(self, *entities: p4r.Entity, device_id: int | None = None) -> RpcAnswer:
        device = self.device_id if device_id is None else device_id
        return self.call("Read", p4r.ReadRequest(device_id=device, entities=entities))

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        """Read the entities; the server must answer."""
        answer = self.try_read(*entities)
        self.expect(answer.code == 0, "OK")
        return answer.entities

    def lacks(self, request: p4r.Entity) -> None:
        """A read must give nothing."""
        answer = self.try_read(request)
        self.expect(not answer.entities and answer.codes[0] in (0, Canonical.NOT_FOUND), "no entity")

    def holds(self, request: p4r.Entity, *entities: p4r.Entity) -> None:
        """A read must give exactly these, in any order, and repeated fields in any order."""
        entries = sorted(_canonical(entity) for entity in self.read(request))
        expected = " ".join(shown(entity) for entity in entities) or "no entity"
        self.expect(entries == sorted(_canonical(entity) for entity in entities), expected)

    # -- streams

    def stream(self, who: int | None = None) -> Conversation:
        """Our own, or that of another controller, in the order in which they came."""
        if who is not None:
            return self.others[who]
        assert self.primary is not None
        return self.primary

    def converse(self) -> Conversation:
        """Another controller's stream. Ours may be a backup after this."""
        self._disturbed = True
        self.others.append(self.link.converse())
        return self.others[-1]

    def send(self, conversation: Conversation, **update: Any) -> None:
        message = p4r.StreamMessageRequest(**update)
        self.sent.append(shown(message))
        conversation.send(message)

    def arbitrate(
        self, conversation: Conversation, election: int | None, device_id: int | None = None, role: str | None = None
    ) -> None:
        """Without `election` the id is unset; it is the id itself."""
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id if device_id is None else device_id)
        if election is not None:
            update.election_id.CopyFrom(uint128(election))
        if role is not None:
            update.role.name = role
        self.send(conversation, arbitration=update)

    def controller(self, election: int | None, role: str | None = None, device_id: int | None = None) -> None:
        """Another controller, the last of `others`, that has arbitrated; `update` is the answer. Raises
        `NotPrepared`."""
        conversation = self.converse()
        self.arbitrate(conversation, election, device_id, role)
        try:
            self.update = self.receive(conversation, "arbitration")
        except RequirementMissed as missed:
            raise NotPrepared(f"another controller: {missed}") from None

    def _messages(self, conversation: Conversation, seconds: float) -> Iterator[Any]:
        """Yield and record the messages that come within a time. Raises `NotOffered` when the stream ends
        UNIMPLEMENTED."""
        for message in _arrivals(conversation, seconds):
            self.got.append(shown(message))
            if isinstance(message, RpcAnswer) and message.code == Canonical.UNIMPLEMENTED:
                raise NotOffered(shown(message))
            yield message

    def _until_quiet(self, conversation: Conversation, seconds: float) -> Iterator[Any]:
        yield from self._messages(conversation, seconds)
        for _ in range(QUIET_TURNS):
            self.link.call("Capabilities", p4r.CapabilitiesRequest())
        yield from self._messages(conversation, 0.0)

    def receive(self, conversation: Conversation, kind: Any, timeout_s: float | None = None) -> Any:
        """The next message of a kind (`arbitration`, `packet`, ...), which must come; others are passed over."""
        for message in self._messages(conversation, self.wait_s if timeout_s is None else timeout_s):
            if isinstance(message, RpcAnswer):
                break
            if message.HasField(kind):
                return getattr(message, kind)
        self.got.append("nothing more")
        raise RequirementMissed(f"a message with {kind}")

    def is_quiet(self, conversation: Conversation, kind: Any, seconds: float = QUIET_S) -> None:
        """No message of a kind may come, for so long and while the server answers other calls."""
        for message in self._until_quiet(conversation, seconds):
            ended = isinstance(message, RpcAnswer)
            self.expect(not ended and not message.HasField(kind), f"no message with {kind}, and the stream goes on")
        self.got.append("nothing")

    def ends(self, conversation: Conversation, code: int) -> None:
        """The server must end the stream with a code."""
        for message in self._messages(conversation, self.wait_s):
            if isinstance(message, RpcAnswer):
                self.expect(message.code == code, f"the stream ends with {name_of(code)}")
                return
        self.got.append("nothing more")
        raise RequirementMissed(f"the stream ends with {name_of(code)}")

    # -- verdicts

    def expect(self, holds: bool, expected: str) -> None:
        """Raise `RequirementMissed` unless it holds."""
        if not holds:
            raise RequirementMissed(expected)

    def same(self, value: Any, expected: Any, what: str) -> None:
        """A value of an answer must be this one; where True is expected `what` says all."""
        if expected is True:
            self.expect(bool(value), what)
        self.expect(
            expected is True or value == expected,
            f"{what}: {expected.name if isinstance(expected, Canonical) else expected}",
        )


def _arrivals(conversation: Conversation, seconds: float) -> Iterator[Any]:
    """Yield the messages that come on a stream within a time; nothing comes after its end."""
    until = time.monotonic() + seconds
    while not conversation.ended:
        message = conversation.next(max(0.0, until - time.monotonic()))
        if message is None:
            return
        yield message


def _until_end(conversation: Conversation, seconds: float) -> None:
    """Read a stream until the server has ended it."""
    any(isinstance(message, RpcAnswer) for message in _arrivals(conversation, seconds))


_UNORDERED = {"match", "params", "members", "replicas", "action_profile_actions"}


def _canonical(message: Any) -> str:
    """The same text for messages that differ only in the order of repeated fields that are sets."""
    parts = []
    for f, value in message.ListFields():
        if f.message_type is None:
            parts.append(f"{f.name}={value!r}")
        elif f.is_repeated:
            texts = [_canonical(each) for each in value]
            parts.append(f"{f.name}={sorted(texts) if f.name in _UNORDERED else texts}")
        else:
            parts.append(f"{f.name}={_canonical(value)}")
    return f"{{{' '.join(parts)}}}"
