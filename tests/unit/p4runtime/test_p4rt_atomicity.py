# SPDX-License-Identifier: Apache-2.0
"""Batches: carried out as a whole or not at all, and mutants of them, which never are an error of ours."""

from __future__ import annotations

import grpc
import pytest
from finsy.proto import p4r

from detour.engine.p4runtime import Code, Compiler, EntityStore, Refused, TargetSwitch
from detour.engine.p4runtime.atomic import write_atomically
from detour.engine.p4runtime.read import Reader
from detour.engine.p4runtime.write import write
from tests.unit.p4runtime.harness import Client, FakeNetwork, Names, codes, config, member, refusals, refused
from tests.unit.p4runtime.mutants import Mutator
from tests.unit.p4runtime.test_p4rt_pipeline import ALL, valid_updates

ABORTED = 10
LEVELS = ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"]


def request(client: Client, level: str, *updates: tuple[str, p4r.Entity]) -> p4r.WriteRequest:
    made = client.write_request(*updates)
    made.atomicity = p4r.WriteRequest.Atomicity.Value(level)
    return made


@pytest.mark.parametrize("level", LEVELS)
def test_all_or_nothing(client: Client, names: Names, network: FakeNetwork, level: str) -> None:
    kept = names.entry("lpm_route", (1 << 127, 1), action=("route", 1, 1), metadata=b"m")
    changed = names.entry("lpm_route", (1 << 127, 1), action=("to_cpu", 9))
    new = names.entry("exact_two", 1, 1, action=("drop",))
    client.insert(kept)
    before, calls = client.read(*ALL), network.calls
    bad = request(client, level, ("MODIFY", changed), ("INSERT", new), ("INSERT", kept), ("DELETE", kept))
    assert refusals(lambda: client.stub.Write(bad)) == [ABORTED, ABORTED, 6, ABORTED]
    assert client.read(*ALL) == before
    malformed = request(client, level, ("DELETE", kept), ("INSERT", p4r.Entity()))
    assert refusals(lambda: client.stub.Write(malformed)) == [ABORTED, 3]
    assert client.read(*ALL) == before
    calls = network.calls
    client.stub.Write(request(client, level, ("DELETE", kept), ("INSERT", new), ("INSERT", changed)))
    assert network.calls == calls + 1  # no packet sees it half done
    assert client.read(names.entry("lpm_route"), names.entry("exact_two")) == [changed, new]


@pytest.mark.parametrize("level", LEVELS)
def test_what_cannot_be_taken_back_is_unimplemented(client: Client, names: Names, level: str) -> None:
    hop, one_shot = member(names.ids["next_hops"], 1, names.action("NoAction")), names.one_shot(None)
    client.stub.Write(request(client, level, ("INSERT", hop), ("INSERT", one_shot)))
    before = client.read(*ALL)
    for update in (("DELETE", hop), ("DELETE", one_shot), ("MODIFY", one_shot)):
        with pytest.raises(grpc.RpcError) as caught:
            client.stub.Write(request(client, level, ("DELETE", names.entry("preset", 7)), update))
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert codes(caught.value) == []
    assert client.read(*ALL) == before


def test_unknown_level(client: Client) -> None:
    wrong = client.write_request()
    wrong.atomicity = 7  # type: ignore[assignment]
    assert refused(lambda: client.stub.Write(wrong)) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("seed", range(4))
def test_random_batches_leave_no_trace_when_they_fail(names: Names, seed: int) -> None:
    store = new_store()
    mutator = Mutator(seed, list(names.ids.values()))
    corpus = valid_updates(names)
    kinds = (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE)
    failed = done = 0
    for _ in range(150):
        batch = []
        for _ in range(mutator.rng.randrange(1, 8)):
            update = mutator.mutate(mutator.rng.choice(corpus))
            if mutator.rng.random() < 0.5:
                update.type = mutator.rng.choice(kinds)
            # One at a time shows which of them work at all, so that many batches fail late.
            if write(store, [update])[0] is None or mutator.rng.random() < 0.3:
                batch.append(update)
        before = state(store)
        try:
            errors = write_atomically(store, batch)
        except Refused as e:
            if e.code is not Code.UNIMPLEMENTED:
                raise
            errors = []
        if any(errors):
            failed += 1
            assert state(store) == before, (seed, batch, errors)
        done += not any(errors)
    assert failed > 10
    assert done > 10


def new_store() -> EntityStore:
    compiled = Compiler().compile(config())
    store = EntityStore(compiled.info, compiled.program, TargetSwitch(FakeNetwork(), 1))
    store.live = True
    return store


def state(store: EntityStore) -> list[str]:
    reader = Reader(store, ALL)
    entities = sorted(str(e) for r in reader.chunks() for e in r.entities)
    assert not any(reader.errors)
    return entities


def test_updates_and_reads_in_process(names: Names) -> None:
    """Nothing raises, and no error is one of ours (INTERNAL)."""
    mutator = Mutator(1, list(names.ids.values()))
    store = new_store()
    valid, corpus = valid_updates(names), valid_updates(names)
    for done in range(450):
        batch = [mutator.mutate(mutator.rng.choice(corpus)) for _ in range(50)]
        for update, error in zip(batch, write(store, batch), strict=True):
            assert error is None or error.code is not Code.INTERNAL, (done, error, update)
            if error is None and len(corpus) < 500:
                corpus.append(update)
        reader = Reader(
            store, [mutator.mutate(mutator.rng.choice([*ALL, *(u.entity for u in corpus)])) for _ in range(5)]
        )
        for _ in reader.chunks():
            pass
        assert all(e is None or e.code is not Code.INTERNAL for e in reader.errors), (done, reader.errors)
        if done % 20 == 19:
            corpus = corpus[-200:] + valid
    reader = Reader(store, ALL)
    assert sum(len(r.entities) for r in reader.chunks()) > 100
    assert not any(reader.errors)
