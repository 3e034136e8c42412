# SPDX-License-Identifier: Apache-2.0
"""Runs the suite against a server and leaves that as it was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from finsy.proto import p4r

from detour.base.errors import DetourError
from detour.conformance.checks import all_checks
from detour.conformance.link import Canonical, RpcAnswer, RpcLink
from detour.conformance.model import (
    CheckResult,
    ConformanceCheck,
    ConformanceReport,
    ConformanceVerdict,
    RequirementLevel,
    ServerUnderTest,
)
from detour.conformance.samples import MissingObject, at
from detour.conformance.session import (
    WAIT_S,
    CheckSession,
    NotOffered,
    NotPrepared,
    RequirementMissed,
    insert,
    modify,
    number_of,
    shown,
)
from detour.control.p4runtime.pipeline import read_p4info

_KINDS = ("action_profile_member", "action_profile_group", "table_entry", "counter_entry", "meter_entry",
          "register_entry", "value_set_entry", "digest_entry", "packet_replication_engine_entry.multicast_group_entry",
          "packet_replication_engine_entry.clone_session_entry")  # fmt: skip
"""in the order in which they can be written again"""


@dataclass(frozen=True)
class ServerState:
    """The server's state before the suite runs: the pipeline, if there is one, and its entities."""

    config: p4r.ForwardingPipelineConfig | None
    entities: list[p4r.Entity]

    @classmethod
    def read(cls, link: RpcLink, device_id: int) -> ServerState:
        """Read the state; what the server does not offer is left out."""
        request = p4r.GetForwardingPipelineConfigRequest(device_id=device_id)
        answer = link.call("GetForwardingPipelineConfig", request)
        if answer.code or not answer.messages[0].config.HasField("p4info"):
            return cls(None, [])
        config = answer.messages[0].config
        entities: list[p4r.Entity] = []
        kinds = [_all_of(kind) for kind in _KINDS]
        for wide in (*kinds[:3], *_defaults(config), *kinds[3:]):
            entities += link.call("Read", p4r.ReadRequest(device_id=device_id, entities=[wide])).entities
        return cls(config, entities)

    def restore(self, session: CheckSession) -> list[str]:
        """Restore the state and list, in words, what cannot be restored."""
        if self.config is None:
            return ["the server had no pipeline before; it has the suite's now, without entries", *_cleared(session)]
        if not self.config.p4_device_config:
            return ["the server does not tell its device config; it has the suite's pipeline now", *_cleared(session)]
        try:
            session.settle()
            if (answer := session.set_pipeline("VERIFY_AND_COMMIT", self.config)).code:
                return [f"the pipeline cannot be set again: {shown(answer)}"]
        except (NotOffered, NotPrepared) as error:
            return [f"the pipeline cannot be set again: {error}"]
        return [note for entity in self.entities for note in _write_again(session, entity)]


def _all_of(kind: str) -> p4r.Entity:
    entity = p4r.Entity()
    at(entity, kind).SetInParent()
    if kind == "table_entry":
        entity.table_entry.counter_data.SetInParent()
        entity.table_entry.meter_config.SetInParent()
    return entity


def _defaults(config: p4r.ForwardingPipelineConfig) -> Iterable[p4r.Entity]:
    for table in config.p4info.tables:
        if not table.const_default_action_id and not table.implementation_id:
            yield p4r.Entity(table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True))


def _cleared(session: CheckSession) -> list[str]:
    try:
        session.dirty = True
        session.begin()
    except (NotOffered, NotPrepared) as error:
        return [f"its entries cannot be removed: {error}"]
    return []


def _write_again(session: CheckSession, entity: p4r.Entity) -> list[str]:
    """Write what was read: as a new entity, or, where there is one at any time, as its new value."""
    kind = entity.WhichOneof("entity")
    entry = entity.table_entry
    if kind == "table_entry" and entry.is_const:
        return []
    always_there = kind in ("counter_entry", "meter_entry", "register_entry", "value_set_entry")
    update = modify(entity) if always_there or entry.is_default_action else insert(entity)
    try:
        answer = session.write(update)
        if Canonical.ALREADY_EXISTS in answer.codes:  # the program brings it along
            answer = session.write(modify(entity))
        # A constant entry need not say so, and an entry that came with the program may be one.
        return [] if answer.codes[0] in (Canonical.OK, Canonical.PERMISSION_DENIED) else [f"{kind}: {shown(answer)}"]
    except NotOffered as error:
        return [f"{kind}: {error}"]


CONFORMANCE_DATA = Path(__file__).parent / "data"
_TRIED = range(4)
"""device ids that are tried when there is no device with the one that was named"""
_LEAST_ELECTION = 100
"""so that there are ids below it for backups"""


def own_config() -> p4r.ForwardingPipelineConfig:
    """The suite's program."""
    return read_config(CONFORMANCE_DATA / "conformance.p4info.txtpb", CONFORMANCE_DATA / "conformance.json")


def read_config(p4info: Path, config: Path) -> p4r.ForwardingPipelineConfig:
    """Raise `DetourError`: a file cannot be read, or is not P4Info."""
    try:
        blob = config.read_bytes()
    except OSError as error:
        raise DetourError(f"{config}: {error.strerror}") from None
    return p4r.ForwardingPipelineConfig(p4info=read_p4info(p4info), p4_device_config=blob)


def run(
    server: ServerUnderTest,
    sections: list[str] | None = None,
    *,
    skip: Collection[str] = (),
    progress: Callable[[int, int], None] = lambda done, of: None,
    restart: Callable[[], object] | None = None,
) -> ConformanceReport:
    """All checks, or those of some sections, but for those to `skip`. `progress` is called with how many are done and
    how many there are. Ctrl-C ends the run, with what is known by then. `restart` is called when the server has gone
    during a check, which fails; without it the run ends there.

    Raises `DetourError`: nobody answers, there is no such device, another controller is primary of it, the pipeline is
    refused, or there is no such section or check."""
    checks = all_checks(sections)
    if unknown := [name for name in skip if name not in {check.id for check in all_checks()}]:
        raise DetourError(f"there is no check {', '.join(unknown)}")
    checks = [check for check in checks if check.id not in skip]
    if not checks:
        raise DetourError(f"no check is in section {', '.join(sections or [])}; there are 5 to 17, 9.1, 9.2.1, ...")
    report = ConformanceReport([], [])
    while len(report.results) < len(checks):
        remaining = checks[len(report.results) :]
        gone = _run_some(server, remaining, report, lambda done: progress(done, len(checks)))
        report.untried = len(checks) - len(report.results)
        if report.interrupted:
            report.notes.append(f"interrupted; {report.untried} checks were not tried")
            break
        if gone and restart is None:
            report.notes[:] = [f"the server has gone; {report.untried} checks were not tried"]
            break
        if gone and restart is not None:
            restart()
    return report


def _run_some(
    server: ServerUnderTest,
    checks: Sequence[ConformanceCheck],
    report: ConformanceReport,
    progress: Callable[[int], None],
) -> bool:
    """Run checks until they are done or the server has gone; whether it has."""
    link = RpcLink(server.address)
    try:
        with opened(link, server) as (session, notes):
            try:
                for check in checks:
                    result = run_check(session, check)
                    gone = not result.prepared and _gone(link, server.device_id)
                    if gone:
                        result = replace(result, got=f"{result.got}\nthe server has gone")
                    report.results.append(result)
                    progress(len(report.results))
                    if gone:
                        return True
            except KeyboardInterrupt:  # the server is put back as it was all the same
                report.interrupted = True
        report.notes[:] = notes
        return False
    finally:
        link.close()


def _gone(link: RpcLink, device_id: int) -> bool:
    return _answer_of_device(link, device_id) == Canonical.UNAVAILABLE


def _answer_of_device(link: RpcLink, device_id: int) -> int:
    """With which code a device answers to a request that changes nothing."""
    request = p4r.GetForwardingPipelineConfigRequest(device_id=device_id)
    request.response_type = p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY
    return link.call("GetForwardingPipelineConfig", request).code


@contextmanager
def opened(link: RpcLink, server: ServerUnderTest) -> Iterator[tuple[CheckSession, list[str]]]:
    """A session with a server; afterwards the server is as before, but for what the list of notes says then."""
    devices = [server.device_id, *([] if server.second_device is None else [server.second_device])]
    election = max(_LEAST_ELECTION, *(_highest_election(link, server.address, device) for device in devices))
    state = ServerState.read(link, server.device_id)
    session = CheckSession(link, server, server.config or own_config(), election)
    notes: list[str] = []
    try:
        try:
            if state.config is None:
                _ask_before_pipeline(session)
            session.begin()
            session.find_cpu_port()
        except (NotPrepared, NotOffered) as error:
            raise DetourError(
                f"device {server.device_id} at {server.address} does not take the suite's pipeline ({error}; "
                f"{'; '.join(session.got)}); --p4info and --config name another one"
            ) from None
        yield session, notes
    finally:
        if not _gone(link, server.device_id):
            notes += state.restore(session)
        session.close()


def _ask_before_pipeline(session: CheckSession) -> None:
    """Make the requests that are only possible before a pipeline is set."""
    session.settle()
    entity = p4r.Entity(table_entry=p4r.TableEntry())
    for method, request in (
        ("Write", session.write_request([insert(entity)])),
        ("Read", p4r.ReadRequest(device_id=session.device_id, entities=[entity])),
        ("GetForwardingPipelineConfig", p4r.GetForwardingPipelineConfigRequest(device_id=session.device_id)),
    ):
        session.before_pipeline[method] = request, session.link.call(method, request)


def _highest_election(link: RpcLink, address: str, device_id: int) -> int:
    """The highest election id of the device. Raises `DetourError`: no server, no device, or a live primary."""
    conversation = link.converse()
    update = p4r.MasterArbitrationUpdate(device_id=device_id)
    conversation.send(p4r.StreamMessageRequest(arbitration=update))
    try:
        message = conversation.next(WAIT_S)
        if message is None:
            raise DetourError(f"{address} does not answer within {WAIT_S:g} s")
        if isinstance(message, RpcAnswer):
            if message.code == Canonical.UNAVAILABLE:
                raise DetourError(f"no P4Runtime server answers at {address}")
            known = _devices(link) if message.code == Canonical.NOT_FOUND else ""
            raise DetourError(f"device {device_id} at {address}: {shown(message)}{known}")
        if message.arbitration.status.code == Canonical.ALREADY_EXISTS:
            raise DetourError(f"device {device_id} at {address} has a primary controller; end it before the suite runs")
        return number_of(message.arbitration.election_id)
    finally:
        conversation.kill()


def _devices(link: RpcLink) -> str:
    """The device ids that a server has, of those that are tried."""
    known = [device_id for device_id in _TRIED if _answer_of_device(link, device_id) != Canonical.NOT_FOUND]
    if not known:
        return "; name the switch's own id (its --device-id; detour switch and BMv2 take 0 without) by --device-id"
    return f"; the server has device {' and '.join(map(str, known))}: --device-id {known[0]}"


_OTHERWISE = {
    RequirementLevel.MUST: ConformanceVerdict.FAIL,
    RequirementLevel.SHOULD: ConformanceVerdict.DIFFERS,
    RequirementLevel.UNSPECIFIED: ConformanceVerdict.UNSPECIFIED,
}
"""the verdict on a server that does something else than the check describes"""


def run_check(session: CheckSession, check: ConformanceCheck) -> CheckResult:
    """Never raises for what a server does."""
    prepared, expected = True, "what the requirement says"
    try:
        session.begin()
        check.run(session)
        verdict = ConformanceVerdict.PASS
        session.settle()  # a server that cannot go on after a check has not passed it
    except RequirementMissed as missed:
        verdict, expected = _OTHERWISE[check.level], str(missed)
    except MissingObject as missing:
        verdict = ConformanceVerdict.NOT_OFFERED
        session.got.append(str(missing))
    except NotOffered:
        verdict = ConformanceVerdict.NOT_OFFERED
    except NotPrepared as refused:
        verdict, prepared = _OTHERWISE[check.level], False
        session.got.append(f"this comes before the requirement and does not work: {refused}")
    return CheckResult(
        check.id, check.section, check.requirement, check.level, check.quote, verdict,
        _joined(session.sent), _joined(session.got), expected, prepared,
    )  # fmt: skip


def _joined(messages: Sequence[str]) -> str:
    """The last ones."""
    return "\n".join(messages[-6:])
