# SPDX-License-Identifier: Apache-2.0
"""Write, Read and Capabilities as calls (sections 10, 12, 13, 17): who may, batches, statuses."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from finsy.proto import p4r

from detour.control.conformance.link import Canonical, RpcAnswer
from detour.control.conformance.model import SHOULD, check
from detour.control.conformance.samples import NO_ID
from detour.control.conformance.session import CheckSession, NotPrepared, delete, insert, uint128

NO_DEVICE = 0xDEAD_BEEF
NO_ROLE = "nobody has this role"


def _entries(session: CheckSession, count: int) -> list[p4r.Entity]:
    return session.samples.entries(session.samples.exact, count)


def _table(session: CheckSession) -> p4r.Entity:
    return p4r.Entity(table_entry=p4r.TableEntry(table_id=session.samples.exact.preamble.id))


def _refused_write(session: CheckSession, code: int, **fields: object) -> None:
    answer = session.write(insert(_entries(session, 1)[0]), **fields)
    session.same(answer.code, code, "code of the call")


@check("write.unknown_device", "12", "Write to a device that the server does not have is NOT_FOUND")
def _write_device(session: CheckSession) -> None:
    _refused_write(session, Canonical.NOT_FOUND, device_id=NO_DEVICE)


@check("write.device_0", "5.1", "Write with device_id 0 is refused, since 0 is no device")
def _write_device_0(session: CheckSession) -> None:
    answer = session.write(insert(_entries(session, 1)[0]), device_id=0)
    session.expect(answer.code in (Canonical.NOT_FOUND, Canonical.INVALID_ARGUMENT), "NOT_FOUND or INVALID_ARGUMENT")


@check("write.unknown_role", "12", "Write with a role that the device does not have is NOT_FOUND")
def _write_role(session: CheckSession) -> None:
    _refused_write(session, Canonical.NOT_FOUND, role=NO_ROLE)


@check("write.lower_election", "12", "Write with a lower election id than the primary's is PERMISSION_DENIED")
def _write_lower(session: CheckSession) -> None:
    _refused_write(session, Canonical.PERMISSION_DENIED, election_id=session.election - 1)


@check("write.higher_election", "12", "Write with a higher election id than the primary's is PERMISSION_DENIED")
def _write_higher(session: CheckSession) -> None:
    _refused_write(session, Canonical.PERMISSION_DENIED, election_id=session.election + 1)


@check("write.high_half", "12", "Write whose election id differs in the upper 64 bits is PERMISSION_DENIED")
def _write_high_half(session: CheckSession) -> None:
    _refused_write(session, Canonical.PERMISSION_DENIED, election_id=session.election + (1 << 64))


@check("write.no_election", "12", "Write without an election id is PERMISSION_DENIED")
def _write_no_election(session: CheckSession) -> None:
    _refused_write(session, Canonical.PERMISSION_DENIED, election_id=None)


@check("write.device_before_election", "12", "in Write the device is checked before the election id")
def _write_order(session: CheckSession) -> None:
    _refused_write(session, Canonical.NOT_FOUND, device_id=NO_DEVICE, election_id=None)


@check("write.refused_changes_nothing", "12", "a Write of somebody who is not primary changes nothing")
def _write_nothing(session: CheckSession) -> None:
    session.write(insert(_entries(session, 1)[0]), election_id=session.election - 1)
    session.holds(_table(session))


@check("write.empty", "12", "Write without updates is OK")
def _write_empty(session: CheckSession) -> None:
    session.accept()


@check("write.entity_unset", "12", "an update without an entity is INVALID_ARGUMENT")
def _write_unset(session: CheckSession) -> None:
    session.refuse(Canonical.INVALID_ARGUMENT, p4r.Update(type=p4r.Update.INSERT))


@check("write.unknown_type", "12", "an update of a type that does not exist is refused")
def _write_type(session: CheckSession) -> None:
    update = p4r.Update(entity=_entries(session, 1)[0])
    update.type = 99  # pyright: ignore[reportAttributeAccessIssue]
    session.refuse(Canonical.INVALID_ARGUMENT, update)


@check("write.committed", "12.1", "what Write has acknowledged is there for the next Read")
def _write_committed(session: CheckSession) -> None:
    for entity in _entries(session, 5):
        session.accept(insert(entity))
    session.holds(_table(session), *_entries(session, 5))


@check("write.large", "12.1", "a batch of 1,000 updates is carried out")
def _write_large(session: CheckSession) -> None:
    session.accept(*map(insert, _entries(session, 1000)))
    session.same(len(session.read(_table(session))), 1000, "entries")


@check("write.mixed", "12.1", "a batch may have entities of several kinds")
def _write_mixed(session: CheckSession) -> None:
    samples = session.samples
    session.accept(insert(_entries(session, 1)[0]), insert(samples.multicast()), insert(samples.clone()))
    session.holds(_table(session), *_entries(session, 1))


@check("write.parallel", "12.1", "Writes at the same time are all carried out")
def _write_parallel(session: CheckSession) -> None:
    requests = [session.write_request([insert(entity)]) for entity in _entries(session, 20)]
    session.dirty = True
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda request: session.link.call("Write", request), requests))
    session.same([answer.code for answer in answers], [0] * 20, "codes")
    session.holds(_table(session), *_entries(session, 20))


# -- statuses


def _half_wrong(session: CheckSession, **fields: object) -> RpcAnswer:
    """Five updates of which the second and the fourth are wrong, each in another way."""
    entities = _entries(session, 5)
    entities[1].table_entry.table_id = NO_ID
    updates = [insert(entity) for entity in entities]
    updates[3] = delete(entities[3])
    return session.write(*updates, **fields)


@check("write.status_unknown", "12.3", "a Write of which updates fail has status UNKNOWN")
def _status_unknown(session: CheckSession) -> None:
    session.same(_half_wrong(session).code, Canonical.UNKNOWN, "code of the call")


@check("write.status_count", "12.3", "there is one p4.v1.Error for each update, successful ones included")
def _status_count(session: CheckSession) -> None:
    session.same(len(_half_wrong(session).errors), 5, "errors")


@check("write.status_order", "12.3", "errors are in the order of the updates")
def _status_order(session: CheckSession) -> None:
    codes = _half_wrong(session).codes
    session.same([bool(code) for code in codes], [False, True, False, True, False], "which of them failed")


@check("write.status_codes", "12.3", "each failed update has its own code")
def _status_codes(session: CheckSession) -> None:
    codes = _half_wrong(session).codes
    good = len(codes) == 5 and codes[3] == Canonical.NOT_FOUND and codes[1] in (
        Canonical.NOT_FOUND, Canonical.INVALID_ARGUMENT)  # fmt: skip
    session.expect(good, "OK, NOT_FOUND or INVALID_ARGUMENT, OK, NOT_FOUND, OK")


@check("write.status_ok", "12.3", "the error of a successful update has code OK and nothing else")
def _status_ok(session: CheckSession) -> None:
    errors = _half_wrong(session).errors
    session.expect(len(errors) == 5 and not errors[0].ListFields(), "an empty p4.v1.Error for the first update")


@check("write.status_details", "10", "the details have the code of the call and are p4.v1.Errors")
def _status_details(session: CheckSession) -> None:
    answer = _half_wrong(session)
    session.expect(bool(answer.errors) and not answer.strange, "google.rpc.Status with the call's code")


@check("write.status_message", "10", "an error of a failed update has a text for people", SHOULD)
def _status_message(session: CheckSession) -> None:
    errors = _half_wrong(session).errors
    session.expect(len(errors) == 5 and all(errors[i].message for i in (1, 3)), "a message")


@check("write.status_single", "12.3", "one update that fails alone is UNKNOWN with one p4.v1.Error too")
def _status_single(session: CheckSession) -> None:
    answer = session.write(delete(_entries(session, 1)[0]))
    session.same((answer.code, answer.codes), (Canonical.UNKNOWN, [Canonical.NOT_FOUND]), "codes")
    session.same(len(answer.errors), 1, "errors")


@check("write.status_request", "12.3", "a Write that is refused as a whole has no details")
def _status_request(session: CheckSession) -> None:
    answer = session.write(insert(_entries(session, 1)[0]), device_id=NO_DEVICE)
    session.expect(answer.code != 0 and not answer.errors, "a code, no p4.v1.Error")


@check("write.continue", "12.2", "CONTINUE_ON_ERROR: updates behind one that fails are carried out")
def _continue(session: CheckSession) -> None:
    _half_wrong(session)
    entities = _entries(session, 5)
    session.holds(_table(session), entities[0], entities[2], entities[4])


def _all_or_nothing(session: CheckSession, atomicity: int) -> None:
    answer = _half_wrong(session, atomicity=atomicity)
    session.expect(answer.code != 0, "an error")
    session.holds(_table(session))


@check("write.rollback", "12.2", "ROLLBACK_ON_ERROR: a batch that fails leaves nothing, or UNIMPLEMENTED")
def _rollback(session: CheckSession) -> None:
    _all_or_nothing(session, p4r.WriteRequest.ROLLBACK_ON_ERROR)


@check("write.atomic", "12.2", "DATAPLANE_ATOMIC: a batch that fails leaves nothing, or UNIMPLEMENTED")
def _atomic(session: CheckSession) -> None:
    _all_or_nothing(session, p4r.WriteRequest.DATAPLANE_ATOMIC)


def _all_of_it(session: CheckSession, atomicity: int) -> None:
    entities = _entries(session, 3)
    answer = session.write(*map(insert, entities), atomicity=atomicity)
    session.expect(answer.code == 0, "OK")
    session.holds(_table(session), *entities)


@check("write.rollback_good", "12.2", "ROLLBACK_ON_ERROR: a batch without errors is carried out, or UNIMPLEMENTED")
def _rollback_good(session: CheckSession) -> None:
    _all_of_it(session, p4r.WriteRequest.ROLLBACK_ON_ERROR)


@check("write.atomic_good", "12.2", "DATAPLANE_ATOMIC: a batch without errors is carried out, or UNIMPLEMENTED")
def _atomic_good(session: CheckSession) -> None:
    _all_of_it(session, p4r.WriteRequest.DATAPLANE_ATOMIC)


# -- Read


@check("read.unknown_device", "13", "Read of a device that the server does not have is NOT_FOUND")
def _read_device(session: CheckSession) -> None:
    session.same(session.try_read(_table(session), device_id=NO_DEVICE).code, Canonical.NOT_FOUND, "code of the call")


@check("read.empty", "13", "Read without entities is OK and gives none")
def _read_empty(session: CheckSession) -> None:
    session.prepare(*_entries(session, 1))
    session.same(session.read(), [], "entities")


@check("read.entity_unset", "13.2", "an entity in which nothing is set is INVALID_ARGUMENT")
def _read_unset(session: CheckSession) -> None:
    session.refuse_read(Canonical.INVALID_ARGUMENT, p4r.Entity())


@check("read.batch", "13.3", "a batch gives what its requests give")
def _read_batch(session: CheckSession) -> None:
    entities = [*_entries(session, 2), session.samples.multicast()]
    session.prepare(*entities)
    pre = p4r.Entity()
    pre.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    read = session.read(_table(session), pre)
    session.same(sorted(map(str, read)), sorted(map(str, entities)), "entities")


def _read_half(session: CheckSession) -> RpcAnswer:
    session.prepare(*_entries(session, 2))
    wrong = p4r.Entity(table_entry=p4r.TableEntry(table_id=NO_ID))
    return session.try_read(_table(session), wrong, _table(session))


@check("read.batch_unknown", "13.3", "a Read of which a request is invalid has status UNKNOWN")
def _read_unknown(session: CheckSession) -> None:
    session.same(_read_half(session).code, Canonical.UNKNOWN, "code of the call")


@check(
    "read.batch_errors", "13.3", "a Read of which a request is invalid has one p4.v1.Error for each request, in order"
)
def _read_errors(session: CheckSession) -> None:
    answer = _read_half(session)
    session.same([bool(e.canonical_code) for e in answer.errors], [False, True, False], "which of them failed")


@check("read.batch_rest", "13.3", "valid requests beside an invalid one are answered")
def _read_rest(session: CheckSession) -> None:
    read = [entity for response in _read_half(session).messages for entity in response.entities]
    session.expect(
        {str(e) for e in read} == {str(e) for e in _entries(session, 2)}, "the entries of the valid requests"
    )


@check("read.no_stream", "13", "Read needs no stream")
def _read_no_stream(session: CheckSession) -> None:
    session.prepare(*_entries(session, 1))
    session.leave()
    session.holds(_table(session), *_entries(session, 1))


@check("read.large", "13.3", "a Read of 2,000 entries gives each of them once")
def _read_large(session: CheckSession) -> None:
    entities = _entries(session, 2000)
    if (answer := session.write(*map(insert, entities))).code:
        raise NotPrepared(answer.text)
    read = [str(entity) for entity in session.read(_table(session))]
    session.same((len(read), len(set(read))), (2000, 2000), "entries, and different ones")


@check("read.parallel", "13.3", "Reads at the same time are all answered")
def _read_parallel(session: CheckSession) -> None:
    session.prepare(*_entries(session, 3))
    request = p4r.ReadRequest(device_id=session.device_id, entities=[_table(session)])
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: session.link.call("Read", request), range(16)))
    counts = [sum(len(message.entities) for message in answer.messages) for answer in answers]
    session.same((counts, {a.code for a in answers}), ([3] * 16, {0}), "entries and codes")


@check("read.during_write", "13.4", "a Read beside a Write of one batch sees all of the batch or nothing")
def _read_during_write(session: CheckSession) -> None:
    request = session.write_request(map(insert, _entries(session, 1000)))
    session.dirty = True
    read = p4r.ReadRequest(device_id=session.device_id, entities=[_table(session)])
    counts = set()
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(session.link.call, "Write", request)
        while not writing.done():
            answer = session.link.call("Read", read)
            counts.add(sum(len(message.entities) for message in answer.messages))
    session.same(writing.result().code, 0, "code of the Write")
    counts.add(len(session.read(_table(session))))
    session.expect(counts <= {0, 1000} and 1000 in counts, "0 or 1,000 entries, 1,000 at last")


# -- Capabilities


@check("capabilities.version", "17", "p4runtime_api_version is a semantic version")
def _capabilities(session: CheckSession) -> None:
    answer = session.call("Capabilities", p4r.CapabilitiesRequest())
    session.expect(answer.code == 0, "OK")
    version = answer.messages[0].p4runtime_api_version
    session.expect(bool(re.fullmatch(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?", version)), "like 1.5.0")


@check("capabilities.device", "17", "Capabilities of a device have the server's version too")
def _capabilities_device(session: CheckSession) -> None:
    answer = session.call("Capabilities", p4r.CapabilitiesRequest(device_id=session.device_id))
    session.expect(answer.code == 0 and bool(answer.messages[0].p4runtime_api_version), "a version")


@check("capabilities.unknown_device", "17", "Capabilities of a device that the server does not have is NOT_FOUND")
def _capabilities_unknown(session: CheckSession) -> None:
    answer = session.call("Capabilities", p4r.CapabilitiesRequest(device_id=NO_DEVICE))
    session.same(answer.code, Canonical.NOT_FOUND, "code of the call")


@check("write.role_of_default", "5.1", "Write of the default role's primary has no role and is accepted")
def _write_default_role(session: CheckSession) -> None:
    request = session.write_request([insert(_entries(session, 1)[0])], role="")
    session.expect(request.election_id == uint128(session.election), "our election id")
    session.dirty = True
    session.same(session.call("Write", request).code, 0, "code of the call")
