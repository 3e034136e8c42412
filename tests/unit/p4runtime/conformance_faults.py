# SPDX-License-Identifier: Apache-2.0
"""A proxy before a good P4Runtime server that makes it a bad one, in one way at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from finsy.proto import p4r
from google.protobuf.descriptor import FieldDescriptor

from detour.conformance.link import Conversation, RpcAnswer, RpcLink

INTERNAL, DATA_LOSS = 13, 15


class Fault:
    """Does nothing. `last` is how many Writes and Sets a check makes without fault: some faults hit the last one."""

    def __init__(self) -> None:
        self.count: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def call(self, forward: Callable[[str, Any], RpcAnswer], method: str, request: Any) -> RpcAnswer:
        self.count[method] = self.count.get(method, 0) + 1
        return self.answer(forward, method, request)

    def answer(self, forward: Callable[[str, Any], RpcAnswer], method: str, request: Any) -> RpcAnswer:
        return self.changed(forward(method, request), method)

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        return answer

    def received(self, message: Any) -> list[Any]:
        """What arrives instead of a message of a stream."""
        return [message]

    def sent(self, message: Any) -> list[Any]:
        """What arrives on all streams when a message is sent on one."""
        return []

    def is_last(self, method: str) -> bool:
        return self.count[method] == self.last.get(method, 0)


class FaultyLink(RpcLink):
    """`fault` may be changed at any time."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.fault: Fault = Fault()
        self.conversations: list[FaultyConversation] = []

    def call(self, method: str, request: Any) -> RpcAnswer:
        return self.fault.call(super().call, method, request)

    def converse(self) -> Conversation:
        self.conversations.append(FaultyConversation(self))
        return self.conversations[-1]


class FaultyConversation(Conversation):
    def __init__(self, link: FaultyLink) -> None:
        self._link = link
        super().__init__(link.stub)

    def deliver(self, message: Any) -> None:
        for each in self._link.fault.received(message):
            super().deliver(each)

    def send(self, message: Any) -> None:
        for each in self._link.fault.sent(message):
            for conversation in self._link.conversations:
                conversation.insert(each)
        super().send(message)

    def insert(self, message: Any) -> None:
        """Something that the server has not sent."""
        super().deliver(message)


class Lenient(Fault):
    """Nothing is ever refused."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        if answer.code == 0:
            return answer
        kinds = {"Capabilities": p4r.CapabilitiesResponse, "GetForwardingPipelineConfig":
                 p4r.GetForwardingPipelineConfigResponse}  # fmt: skip
        return RpcAnswer(0, messages=[kinds[method]()] if method in kinds else [])


class WrongCodes(Fault):
    """Everything is refused with a code that fits nothing; streams end with it too."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        if answer.code:
            answer.code = DATA_LOSS
            for error in answer.errors:
                error.canonical_code = DATA_LOSS
        return answer

    def received(self, message: Any) -> list[Any]:
        return [RpcAnswer(DATA_LOSS)] if isinstance(message, RpcAnswer) else [message]


class RefusesLast(Fault):
    """The last Write or Set of a check is refused and does nothing."""

    def answer(self, forward: Callable[[str, Any], RpcAnswer], method: str, request: Any) -> RpcAnswer:
        if method in ("Write", "SetForwardingPipelineConfig") and self.is_last(method):
            return RpcAnswer(INTERNAL)
        return super().answer(forward, method, request)


class LosesLast(Fault):
    """The last Write or Set of a check is acknowledged and does nothing."""

    def answer(self, forward: Callable[[str, Any], RpcAnswer], method: str, request: Any) -> RpcAnswer:
        if method in ("Write", "SetForwardingPipelineConfig") and self.is_last(method):
            return RpcAnswer(0)
        return super().answer(forward, method, request)


class RefusesAll(Fault):
    """Reads, Gets and Capabilities are refused, and Writes that are many."""

    def answer(self, forward: Callable[[str, Any], RpcAnswer], method: str, request: Any) -> RpcAnswer:
        if method in ("Read", "GetForwardingPipelineConfig", "Capabilities"):
            return RpcAnswer(INTERNAL)
        if method == "Write" and self.last.get(method, 0) > 10:
            return RpcAnswer(INTERNAL)
        return super().answer(forward, method, request)


class OneStatus(Fault):
    """A batch has the code of its first error and no details."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        if answer.errors:
            bad = next(error for error in answer.errors if error.canonical_code)
            return RpcAnswer(bad.canonical_code, messages=answer.messages)
        return answer


class StrangeStatus(Fault):
    """Details are in another order, without texts, and have something for successful updates; where there should be
    none there is one."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        if answer.code:
            answer.errors = [p4r.Error(canonical_code=e.canonical_code, space="x") for e in answer.errors[1:]]
            answer.errors.append(p4r.Error(canonical_code=INTERNAL))
            answer.strange = "not what it should be"
        return answer


class Empty(Fault):
    """Reads find nothing."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        return RpcAnswer(0) if method == "Read" else answer


class Altered(Fault):
    """Reads, Gets, Capabilities and streams have other values: `change` is applied to each field that is set."""

    def __init__(self, change: Callable[[FieldDescriptor, Any], Any]) -> None:
        super().__init__()
        self._change = change

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        answer.messages = [self._copy(message) for message in answer.messages]
        return answer

    def received(self, message: Any) -> list[Any]:
        return [message if isinstance(message, RpcAnswer) else self._copy(message)]

    def _copy(self, message: Any) -> Any:
        changed = copy.deepcopy(message)
        self._alter(changed)
        return changed

    def _alter(self, message: Any) -> None:
        for f, value in message.ListFields():
            if f.message_type is not None:
                if f.name == "p4info":
                    value.pkg_info.name += "x"
                elif f.message_type.GetOptions().map_entry:
                    continue
                for each in value if f.is_repeated else [value]:
                    self._alter(each)
            elif not f.is_repeated:
                setattr(message, f.name, self._change(f, value))


def padded(f: FieldDescriptor, value: Any) -> Any:
    return b"\0" + value if isinstance(value, bytes) else value


def bumped(f: FieldDescriptor, value: Any) -> Any:
    if f.type == FieldDescriptor.TYPE_ENUM or isinstance(value, bool):
        return value
    return value ^ 1 if isinstance(value, int) else value + "x" if isinstance(value, str) else value + b"x"


class Flags(Fault):
    """What should be set in an entry is not, and conversely."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        if method == "Read":
            for entity in (e for message in answer.messages for e in message.entities):
                if entity.HasField("table_entry"):
                    self._flip(entity.table_entry)
                for name in ("meter_entry", "direct_meter_entry"):
                    if entity.HasField(name) and not getattr(entity, name).HasField("config"):
                        getattr(entity, name).config.cir = 1
        return answer

    def _flip(self, entry: p4r.TableEntry) -> None:
        entry.is_const = not entry.is_const
        entry.is_default_action = not entry.is_default_action
        entry.priority = 0 if entry.priority else 1
        for name in ("time_since_last_hit", "meter_config", "counter_data"):
            if entry.HasField(name):
                entry.ClearField(name)
            else:
                getattr(entry, name).SetInParent()


class Extra(Fault):
    """Reads give one entity more, the first one or one of nobody, in pieces."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        if method == "Read":
            first = next((e for message in answer.messages for e in message.entities), p4r.Entity())
            answer.messages.append(p4r.ReadResponse(entities=[first]))
            if answer.code == 0 and first == p4r.Entity():
                answer.messages[-1].entities[0].table_entry.table_id = 1
        return answer


class Turned(Fault):
    """A Get has what should not be there, and not what should."""

    def changed(self, answer: RpcAnswer, method: str) -> RpcAnswer:
        for message in answer.messages if method == "GetForwardingPipelineConfig" else ():
            config = message.config
            for name in ("p4info", "cookie"):
                if config.HasField(name):
                    config.ClearField(name)
                else:
                    getattr(config, name).SetInParent()
            config.p4_device_config = b"" if config.p4_device_config else b"x"
        return answer


class Silent(Fault):
    """Nothing comes on streams, and they never end."""

    def received(self, message: Any) -> list[Any]:
        return []


class Status(Fault):
    """Another status in arbitration, ids and roles of nobody; lists, frames and errors of something else."""

    def received(self, message: Any) -> list[Any]:
        if isinstance(message, RpcAnswer):
            return [message]
        changed = p4r.StreamMessageResponse()
        changed.CopyFrom(message)
        if changed.HasField("arbitration"):
            changed.arbitration.status.code = DATA_LOSS
            changed.arbitration.role.name += "x"
            changed.arbitration.device_id += 1
        elif changed.HasField("packet"):
            changed.packet.payload += b"x"
            del changed.packet.metadata[:1]
        elif changed.HasField("digest"):
            changed.digest.ClearField("timestamp")
            changed.digest.list_id = 7
            changed.digest.data.append(changed.digest.data[0])
        elif changed.HasField("idle_timeout_notification"):
            changed.idle_timeout_notification.ClearField("timestamp")
            changed.idle_timeout_notification.table_entry.add(table_id=1)
        elif changed.HasField("error"):
            changed.error.Clear()
        return [changed]


class Chatter(Fault):
    """With each message of anybody's, all kinds of messages come."""

    def _all(self) -> list[Any]:
        kinds = ("arbitration", "packet", "digest", "idle_timeout_notification", "error")
        messages = [p4r.StreamMessageResponse() for _ in kinds]
        for message, kind in zip(messages, kinds, strict=True):
            getattr(message, kind).SetInParent()
        return messages

    def received(self, message: Any) -> list[Any]:
        return [message, *self._all()]

    def sent(self, message: Any) -> list[Any]:
        return self._all()


FAULTS: tuple[Callable[[], Fault], ...] = (
    OneStatus,
    StrangeStatus,
    WrongCodes,
    Lenient,
    lambda: Altered(padded),
    Empty,
    RefusesLast,
    LosesLast,
    lambda: Altered(bumped),
    Flags,
    Extra,
    Silent,
    Status,
    Chatter,
    Turned,
    RefusesAll,
)
