# SPDX-License-Identifier: Apache-2.0
"""Write, Read and Capabilities as calls (sections 10, 12, 13, 17): who may, batches, statuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from finsy.proto import p4r

from detour.conformance.steps import *

_ONE, _TABLE = sample.entry("exact"), sample.all_of("exact")


def _entries(count: int) -> Recipe:
    return sample.entries("exact", count)


def _five(samples: Samples) -> list[p4r.Update]:
    """Five updates of which the second and the fourth are wrong, each in another way."""
    updates = [p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in samples.entries("exact", 5)]
    updates[1].entity.table_entry.table_id = NO_ID
    updates[3].type = p4r.Update.DELETE
    return updates


_FIVE = Recipe(_five)
_GOOD_OF_FIVE = Recipe(lambda s: s.entries("exact", 5)[::2])


def _own_codes(answer: RpcAnswer) -> bool:
    return len(answer.codes) == 5 and answer.codes[3] == NOT_FOUND and answer.codes[1] in WRONG_ID


def _parallel_writes(session: CheckSession) -> None:
    entities = session.samples.entries("exact", 20)
    requests = [session.write_request([p4r.Update(type=p4r.Update.INSERT, entity=entity)]) for entity in entities]
    session.dirty = True
    with ThreadPoolExecutor(8) as pool:
        received = list(pool.map(lambda request: session.link.call("Write", request), requests))
    session.same([answer.code for answer in received], [0] * 20, "codes")


def _all_or_nothing(atomicity: int) -> CheckStep:
    return answers("an error", True, lambda a: a.code != 0, _FIVE, atomicity=atomicity)


def _all(atomicity: int) -> CheckStep:
    return answers("OK", True, lambda a: a.code == 0, _entries(3).insert, atomicity=atomicity)


_ROLLBACK, _ATOMIC = p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC
_WRITE = [
    *rows("write",
        ("unknown_device", "12", "Write to a device that the server does not have is NOT_FOUND",
         writes(NOT_FOUND, device_id=NO_DEVICE)),
        ("device_0", "5.1", "Write with device_id 0 is refused, since 0 is no device",
         answers("NOT_FOUND or INVALID_ARGUMENT", True, lambda a: a.code in WRONG_ID, _ONE.insert, device_id=0)),
        ("unknown_role", "12", "Write with a role that the device does not have is NOT_FOUND",
         writes(NOT_FOUND, role=NO_ROLE)),
        ("lower_election", "12", "Write with a lower election id than the primary's is PERMISSION_DENIED",
         writes(DENIED, election=-1)),
        ("higher_election", "12", "Write with a higher election id than the primary's is PERMISSION_DENIED",
         writes(DENIED, election=1)),
        ("high_half", "12", "Write whose election id differs in the upper 64 bits is PERMISSION_DENIED",
         writes(DENIED, election=1 << 64)),
        ("no_election", "12", "Write without an election id is PERMISSION_DENIED", writes(DENIED, election=None)),
        ("device_before_election", "12", "in Write the device is checked before the election id",
         writes(NOT_FOUND, device_id=NO_DEVICE, election=None)),
        ("refused_changes_nothing", "12", "a Write of somebody who is not primary changes nothing",
         tries(_ONE.insert, election=-1), holds(_TABLE)),
        ("empty", "12", "Write without updates is OK", accept()),
        ("entity_unset", "12", "an update without an entity is INVALID_ARGUMENT",
         refuse(INVALID_ARGUMENT, p4r.Update(type=p4r.Update.INSERT))),
        ("unknown_type", "12", "an update of a type that does not exist is refused",
         refuse(INVALID_ARGUMENT, _ONE.update(99))),
        ("committed", "12.1", "what Write has acknowledged is there for the next Read",
         *(accept(sample.entry("exact", n).insert) for n in range(5)), holds(_TABLE, _entries(5))),
        ("large", "12.1", "a batch of 1,000 updates is carried out",
         accept(_entries(1000).insert), reads(_TABLE, "entries", 1000)),
        ("mixed", "12.1", "a batch may have entities of several kinds",
         accept(_ONE.insert, sample.multicast().insert, sample.clone().insert), holds(_TABLE, _ONE)),
        ("parallel", "12.1", "Writes at the same time are all carried out",
         _parallel_writes, holds(_TABLE, _entries(20))),
        ("status_unknown", "12.3", "a Write of which updates fail has status UNKNOWN",
         writes(Canonical.UNKNOWN, _FIVE)),
        ("status_count", "12.3", "there is one p4.v1.Error for each update, successful ones included",
         answers("errors", 5, lambda a: len(a.errors), _FIVE)),
        ("status_order", "12.3", "errors are in the order of the updates", answers("which of them failed", [False, True,
             False, True, False], lambda a: [bool(c) for c in a.codes], _FIVE)),
        ("status_codes", "12.3", "each failed update has its own code",
         answers("OK, NOT_FOUND or INVALID_ARGUMENT, OK, NOT_FOUND, OK", True, _own_codes, _FIVE)),
        ("status_ok", "12.3", "the error of a successful update has code OK and nothing else",
         answers("an empty p4.v1.Error for the first update", True,
             lambda a: len(a.errors) == 5 and not a.errors[0].ListFields(), _FIVE)),
        ("status_details", "10", "the details have the code of the call and are p4.v1.Errors",
         answers("google.rpc.Status with the call's code", True, lambda a: a.errors and not a.strange, _FIVE)),
        ("status_message", "10", "an error of a failed update has a text for people",
         answers("a message", True, lambda a: len(a.errors) == 5 and all(a.errors[i].message for i in (1, 3)), _FIVE)),
        ("status_single", "12.3", "one update that fails alone is UNKNOWN with one p4.v1.Error too",
         answers("codes, and errors", (Canonical.UNKNOWN, NOT_FOUND, 1), lambda a: (a.code, *a.codes, len(a.errors)),
             _ONE.delete)),
        ("status_request", "12.3", "a Write that is refused as a whole has no details",
         answers("a code, no p4.v1.Error", True, lambda a: a.code != 0 and not a.errors, _ONE.insert,
             device_id=NO_DEVICE)),
        ("continue", "12.2", "CONTINUE_ON_ERROR: updates behind one that fails are carried out",
         tries(_FIVE), holds(_TABLE, _GOOD_OF_FIVE)),
        ("rollback", "12.2", "ROLLBACK_ON_ERROR: a batch that fails leaves nothing, or UNIMPLEMENTED",
         _all_or_nothing(_ROLLBACK), holds(_TABLE)),
        ("atomic", "12.2", "DATAPLANE_ATOMIC: a batch that fails leaves nothing, or UNIMPLEMENTED",
         _all_or_nothing(_ATOMIC), holds(_TABLE)),
        ("rollback_good", "12.2", "ROLLBACK_ON_ERROR: a batch without errors is carried out, or UNIMPLEMENTED",
         _all(_ROLLBACK), holds(_TABLE, _entries(3))),
        ("atomic_good", "12.2", "DATAPLANE_ATOMIC: a batch without errors is carried out, or UNIMPLEMENTED",
         _all(_ATOMIC), holds(_TABLE, _entries(3))),
        ("role_of_default", "5.1", "Write of the default role's primary has no role and is accepted",
         writes(0, role="")),
    ),
]  # fmt: skip

# -- Read

_UNKNOWN_TABLE = Recipe(lambda _: p4r.Entity(table_entry=p4r.TableEntry(table_id=NO_ID)))
_HALF = (_TABLE, _UNKNOWN_TABLE, _TABLE)


def _both_kinds(samples: Samples) -> list[str]:
    return sorted(map(str, [*samples.entries("exact", 2), samples.multicast()]))


def _texts(answer: RpcAnswer) -> list[str]:
    return sorted(map(str, answer.entities))


def _many_entries(session: CheckSession) -> None:
    if (answer := session.write(*_entries(2000).insert.make(session.samples))).code:
        raise NotPrepared(answer.text)


def _parallel_reads(session: CheckSession) -> None:
    request = p4r.ReadRequest(device_id=session.device_id, entities=[_TABLE.make(session.samples)])
    with ThreadPoolExecutor(8) as pool:
        received = list(pool.map(lambda _: session.link.call("Read", request), range(16)))
    counts = [len(answer.entities) for answer in received]
    session.same((counts, {a.code for a in received}), ([3] * 16, {0}), "entries and codes")


def _read_during_write(session: CheckSession) -> None:
    request = session.write_request(_entries(1000).insert.make(session.samples))
    session.dirty = True
    read = p4r.ReadRequest(device_id=session.device_id, entities=[_TABLE.make(session.samples)])
    counts = set()
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(session.link.call, "Write", request)
        while not writing.done():
            counts.add(len(session.link.call("Read", read).entities))
    session.same(writing.result().code, 0, "code of the Write")
    counts.add(len(session.read(_TABLE.make(session.samples))))
    session.expect(counts <= {0, 1000} and 1000 in counts, "0 or 1,000 entries, 1,000 at last")


_READ = [
    *rows("read",
        ("unknown_device", "13", "Read of a device that the server does not have is NOT_FOUND",
         read_answers("code of the call", NOT_FOUND, lambda a: a.code, _TABLE, device_id=NO_DEVICE)),
        ("empty", "13", "Read without entities is OK and gives none",
         prepare(_ONE), read_answers("OK, without entities", True, lambda a: a.code == 0 and not a.entities)),
        ("entity_unset", "13.2", "an entity in which nothing is set is INVALID_ARGUMENT",
         refuse_read(INVALID_ARGUMENT, p4r.Entity())),
        ("batch", "13.3", "a batch gives what its requests give", prepare(_entries(2), sample.multicast()),
         read_answers("entities", _both_kinds, _texts, _TABLE, sample.multicast().every)),
        ("batch_unknown", "13.3", "a Read of which a request is invalid has status UNKNOWN",
         prepare(_entries(2)), read_answers("code of the call", Canonical.UNKNOWN, lambda a: a.code, *_HALF)),
        ("batch_errors", "13.3", "a Read of which a request is invalid has one p4.v1.Error for each request, in order",
         prepare(_entries(2)), read_answers("which of them failed", [False, True, False],
             lambda a: [bool(e.canonical_code) for e in a.errors], *_HALF)),
        ("batch_rest", "13.3", "valid requests beside an invalid one are answered",
         prepare(_entries(2)), read_answers("the entries of the valid requests",
             lambda s: {str(e) for e in s.entries("exact", 2)}, lambda a: set(map(str, a.entities)), *_HALF)),
        ("no_stream", "13", "Read needs no stream", prepare(_ONE), leaves(), holds(_TABLE, _ONE)),
        ("large", "13.3", "a Read of 2,000 entries gives each of them once", _many_entries, reads(_TABLE,
             "entries, and different ones", (2000, 2000), lambda read: (len(read), len(set(map(str, read)))))),
        ("parallel", "13.3", "Reads at the same time are all answered", prepare(_entries(3)), _parallel_reads),
        ("during_write", "13.4", "a Read beside a Write of one batch sees all of the batch or nothing",
         _read_during_write),
    ),
]  # fmt: skip


@step
def _capabilities(
    session: CheckSession,
    what: str,
    fits: Callable[[RpcAnswer], object],
    device: Callable[[CheckSession], int] = lambda _: 0,
) -> None:
    """Check the answer to a Capabilities request."""
    request = p4r.CapabilitiesRequest(device_id=device(session))
    session.expect(bool(fits(session.call("Capabilities", request))), what)


def _version(answer: RpcAnswer) -> str:
    return answer.messages[0].p4runtime_api_version if answer.code == 0 else ""


_SEMANTIC = re.compile(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?")
checks = [
    *_WRITE,
    *_READ,
    *rows("capabilities",
        ("version", "17", "p4runtime_api_version is a semantic version",
         _capabilities("like 1.5.0", lambda a: _SEMANTIC.fullmatch(_version(a)))),
        ("device", "17", "Capabilities of a device have the server's version too",
         _capabilities("a version", _version, lambda session: session.device_id)),
        ("unknown_device", "17", "Capabilities of a device that the server does not have is NOT_FOUND",
         _capabilities("code of the call: NOT_FOUND", lambda a: a.code == NOT_FOUND, lambda _: NO_DEVICE)),
    ),
]  # fmt: skip
