# SPDX-License-Identifier: Apache-2.0
"""SetForwardingPipelineConfig with all its actions, and what is asked back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4i, p4r

from detour.engine.compiler import native
from detour.engine.compiler.native import CompileLimits
from detour.engine.p4runtime import Code, P4RuntimeServer, Refused
from detour.engine.p4runtime import config as compiling
from tests.ptf.p4rt import clone_session
from tests.unit.p4runtime.harness import (
    WAIT_S,
    Client,
    FakeNetwork,
    Names,
    config,
    counter,
    digest,
    group,
    member,
    meter,
    multicast,
    refusals,
    register,
    value_set,
)
from tests.waiting import PATIENCE_S

Type = p4r.GetForwardingPipelineConfigRequest.ResponseType


@pytest.fixture
def fresh(connect: Callable[..., Client]) -> Client:
    """A primary without a pipeline."""
    client = connect()
    client.primary()
    return client


def set_refused(client: Client, changed: p4r.ForwardingPipelineConfig | None, action: str = "VERIFY_AND_COMMIT"):
    with pytest.raises(grpc.RpcError) as caught:
        client.set_pipeline(changed, action)
    return caught.value


def message_of(error: grpc.RpcError) -> str:
    details = error.details()
    assert details is not None
    return details


def get(client: Client, response_type: str = "ALL") -> p4r.GetForwardingPipelineConfigResponse:
    return client.stub.GetForwardingPipelineConfig(
        p4r.GetForwardingPipelineConfigRequest(device_id=client.device_id, response_type=Type.Value(response_type))
    )


def test_save_and_commit(client: Client, names: Names, network: FakeNetwork) -> None:
    """Writes after VERIFY_AND_SAVE do not reach packets before COMMIT."""
    client.insert(names.entry("lpm_route", None, action=("to_cpu", 1)))
    running = network.pipelines[1][1]
    client.set_pipeline(config(cookie=5), "VERIFY_AND_SAVE")
    assert get(client).config.cookie.cookie == 5
    assert client.read(names.entry("lpm_route")) == []
    new = names.entry("lpm_route", (0xFD00 << 112, 16), action=("forward", 7))
    client.insert(new, multicast(3))
    assert client.read(names.entry("lpm_route")) == [new]
    assert network.pipelines[1][1] is running
    assert len(running.tables["MyIngress.lpm_route"]) == 1
    assert network.groups[1] == {}
    client.set_pipeline(None, "COMMIT")
    assert network.groups[1] == {3: []}
    assert client.read(names.entry("lpm_route")) == [new]
    assert len(network.pipelines[1][1].tables["MyIngress.lpm_route"]) == 1
    assert set_refused(client, None, "COMMIT").code() is grpc.StatusCode.NOT_FOUND


def test_writes_are_counted(client: Client, names: Names, server: P4RuntimeServer) -> None:
    writes, device = server.table_writes, client.device_id
    empty = writes[device]
    entry = names.entry("lpm_route", (0xFD00 << 112, 16), action=("forward", 7))
    client.insert(entry)
    written = writes[device]
    assert client.read(names.entry("lpm_route")) == [entry]
    assert writes[device] == written != empty
    client.set_pipeline(config(cookie=5), "VERIFY_AND_SAVE")
    saved = writes[device]
    assert saved != written, "Reads show the saved tables"
    client.set_pipeline(None, "COMMIT")
    assert writes[device] not in (written, saved)
    assert not writes[1 << 40]


def change(**fields: bytes) -> p4r.ForwardingPipelineConfig:
    changed = config()
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _without_p4info() -> p4r.ForwardingPipelineConfig:
    changed = config()
    changed.ClearField("p4info")
    return changed


def _info(edit: Callable) -> p4r.ForwardingPipelineConfig:
    changed = config()
    edit(changed.p4info)
    return changed


def _json(edit: Callable) -> p4r.ForwardingPipelineConfig:
    changed = config()
    source = json.loads(changed.p4_device_config)
    edit(source)
    changed.p4_device_config = json.dumps(source).encode()
    return changed


def _huge_register() -> p4r.ForwardingPipelineConfig:
    changed = _json(lambda j: j["register_arrays"][0].update(size=1 << 28))
    changed.p4info.registers[0].size = 1 << 28
    return changed


def test_what_p4c_left_out_of_the_json_is_missed_only_when_used(fresh: Client, names: Names) -> None:
    """An object that no packet can reach is in P4Info and not in the JSON."""
    fresh.set_pipeline(
        _info(lambda i: i.registers.add(size=1).preamble.CopyFrom(p4i.Preamble(id=0x16000001, name="I.r")))
    )
    ghost = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=0x16000001))
    assert refusals(lambda: fresh.read(ghost)) == [3]
    assert len(fresh.read(p4r.Entity(register_entry=p4r.RegisterEntry()))) == 36


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        pytest.param(_without_p4info(), "no P4Info", id="no P4Info"),
        pytest.param(change(p4_device_config=b""), "no p4_device_config", id="no JSON"),
        pytest.param(change(p4_device_config=b"\xff\xfe"), "neither BMv2 JSON", id="bytes"),
        pytest.param(change(p4_device_config=b"{nonsense"), "JSON", id="broken JSON"),
        pytest.param(change(p4_device_config=b"{}"), "lacks 'header_types'", id="empty JSON"),
        pytest.param(change(p4_device_config=b"/etc/passwd"), "neither BMv2 JSON", id="a path"),
        pytest.param(change(p4_device_config=b"{" + b'"a":[' * 5000), "JSON", id="deep JSON"),
        pytest.param(_info(lambda i: setattr(i.tables[0].preamble, "name", "nowhere")), "table 'nowhere'", id="table"),
        pytest.param(_info(lambda i: setattr(i.tables[0].preamble, "id", 0)), "no id", id="no id"),
        pytest.param(
            _info(lambda i: setattr(i.tables[1].preamble, "id", i.tables[0].preamble.id)), "have the same id", id="ids"
        ),
        pytest.param(
            _info(lambda i: setattr(i.tables[0].match_fields[0], "match_type", 4)), "TERNARY", id="match kind"
        ),
        pytest.param(_info(lambda i: i.tables[0].match_fields.pop()), "1 match fields", id="match fields"),
        pytest.param(_info(lambda i: setattr(i.tables[0].match_fields[0], "bitwidth", -1)), "width of -1", id="width"),
        pytest.param(_info(lambda i: setattr(i.tables[0].action_refs[0], "id", 7)), "no action with id", id="action"),
        pytest.param(_info(lambda i: setattr(i.actions[1].preamble, "name", "x")), "no action 'x'", id="action name"),
        pytest.param(_info(lambda i: i.actions[2].params.add(id=9)), "parameters", id="parameters"),
        pytest.param(_info(lambda i: setattr(i.counters[0], "size", 1)), "size 1", id="counter size"),
        pytest.param(_info(lambda i: setattr(i.meters[0].preamble, "name", "m")), "meter 'm'", id="meter"),
        pytest.param(
            _info(lambda i: setattr(i.registers[0].type_spec.bitstring.bit, "bitwidth", 3)), "3 bits", id="reg"
        ),
        pytest.param(_info(lambda i: setattr(i.digests[0].preamble, "name", "d")), "digest 'd'", id="digest"),
        pytest.param(_info(lambda i: setattr(i.action_profiles[0], "with_selector", False)), "selector", id="selector"),
        pytest.param(
            _info(lambda i: setattr(i.tables[-3], "implementation_id", 9)), "another implementation", id="profile"
        ),
        pytest.param(_info(lambda i: setattr(i.tables[0], "idle_timeout_behavior", 1)), "idle timeouts", id="timeouts"),
        pytest.param(_info(lambda i: i.externs.add(extern_type_name="Foo")), "'Foo'", id="extern"),
        pytest.param(_huge_register(), "2048 MiB", id="huge register"),
        pytest.param(_json(lambda j: j["pipelines"][0].update(tables=7)), "malformed", id="malformed JSON"),
    ],
)
def test_configs_that_cannot_be_realised(fresh: Client, changed: p4r.ForwardingPipelineConfig, text: str) -> None:
    error = set_refused(fresh, changed)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert text in message_of(error)
    assert not get(fresh).HasField("config")


@pytest.mark.parametrize(
    "broken", ["compiler.program.write_parser", "p4runtime.schema.build"], ids=["the compiler", "the schema"]
)
@pytest.mark.parametrize("error", [AttributeError("oops"), AssertionError("oops"), TypeError("oops"), KeyError("oops")])
def test_a_mistake_of_ours_is_not_blamed_on_the_config(
    fresh: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    broken: str,
    error: Exception,
) -> None:
    """INTERNAL, where it was, and the traceback in the log."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(f"detour.engine.{broken}", fail)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # or the compiler has nothing to do
    answer = set_refused(fresh, config())
    assert answer.code() is grpc.StatusCode.INTERNAL
    assert "internal error of detour while" in message_of(answer)
    assert ".py:" in message_of(answer)
    assert "in fail" in caplog.text, "the traceback"
    assert not get(fresh).HasField("config")


def test_slow_programs_hold_up_nobody_else(
    client: Client, connect: Callable[..., Client], names: Names, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Eight different programs, which is all that may wait, and a ninth; other requests are answered meanwhile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    go_on = threading.Event()
    compile_apart = native.compile_apart

    def waiting(*arguments: Any) -> bytes:
        assert go_on.wait(WAIT_S)
        return compile_apart(*arguments)

    monkeypatch.setattr(native, "compile_apart", waiting)
    slow = [_json(lambda j, n=n: j.update(program=f"slow-{n}.p4")) for n in range(9)]
    try:
        calls = []
        for program in slow[:8]:
            request = client.pipeline_request(program, "VERIFY")
            calls.append(client.stub.SetForwardingPipelineConfig.future(request))
        # The calls are concurrent with the ninth, so one of the nine, whichever comes last, is refused.
        ninth = client.stub.SetForwardingPipelineConfig.future(client.pipeline_request(slow[8], "VERIFY"))
        calls.append(ninth)
        first = next(iter(_ended(calls)))
        assert first.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "8 other pipelines" in first.details()
        entry = names.entry("lpm_route", None, action=("to_cpu", 1))
        client.insert(entry)
        assert client.read(names.entry("lpm_route")) == [entry]
        client.stub.Capabilities(p4r.CapabilitiesRequest())
        get(client)
        _others_go_on(connect, names)
    finally:
        go_on.set()
    codes_ = sorted(str(call.code()) for call in calls)
    assert codes_ == ["StatusCode.OK"] * 8 + ["StatusCode.RESOURCE_EXHAUSTED"]


def _others_go_on(connect: Callable[..., Client], names: Names) -> None:
    """While pipelines of device 1 are compiled: arbitration and everything else at another one, with a program that is
    known."""
    other = connect(2)
    other.ready()
    entry = names.entry("lpm_route", None, action=("to_cpu", 1))
    other.insert(entry)
    assert other.read(names.entry("lpm_route")) == [entry]


def _ended(calls: list[Any]) -> list[Any]:
    """The calls that have ended, as soon as one has."""
    one = threading.Event()
    for call in calls:
        call.add_done_callback(lambda _: one.set())
    assert one.wait(WAIT_S)
    return [call for call in calls if call.done()]


def test_a_program_that_takes_too_long(fresh: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("detour.engine.target.LIMITS", CompileLimits(patience_s=0.001))
    for action in ("VERIFY", "VERIFY_AND_COMMIT"):
        error = set_refused(fresh, config(), action)
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "exceeded the limit" in message_of(error)


def test_the_old_wrapping_of_device_configs(fresh: Client) -> None:
    """p4.tmp.P4DeviceConfig, as p4lang's tutorials send it: reassign = true, device_data = JSON."""
    wrapped = config()
    data = wrapped.p4_device_config
    size = len(data)
    varint = bytearray()
    while size > 0x7F:
        varint.append(size & 0x7F | 0x80)
        size >>= 7
    varint.append(size)
    wrapped.p4_device_config = b"\x08\x01\x1a" + bytes(varint) + data
    fresh.set_pipeline(wrapped)
    assert get(fresh).config == wrapped
    assert (
        set_refused(fresh, change(p4_device_config=b"\x08\x01\x1a\xff\xff\x7f{")).code()
        is grpc.StatusCode.INVALID_ARGUMENT
    )


def test_switches_share_a_program(connect: Callable[..., Client], network: FakeNetwork) -> None:
    for device in (1, 2):
        client = connect(device)
        client.ready()
    assert network.pipelines[1][0] is network.pipelines[2][0]
    assert network.pipelines[1][1] is not network.pipelines[2][1]


# -- RECONCILE_AND_COMMIT


def _everything(names: Names) -> list[p4r.Entity]:
    """A bit of every kind of state, as INSERTs."""
    return [
        names.entry("lpm_route", None, action=("to_cpu", 1), metadata=b"x"),
        names.entry("acl", (1, 3), None, None, 0x0800, action=("drop",), priority=4),
        names.entry("ageing", 5, action=("NoAction",), idle_timeout_ns=10**12),
        names.entry("preset", 9, action=("set_vlan", 9)),
        names.one_shot((0xFD01 << 112, 16), actions=[(3, 2)]),
        member(names.ids["next_hops"], 4, names.action("set_vlan", 3)),
        multicast(3),
        digest(names.ids["learn_t"], 4),
    ]


def _cells(names: Names) -> list[p4r.Entity]:
    return [
        counter(names.ids["port_counter"], 3, 9),
        meter(names.ids["rate"], 1, 1, 2, 3, 4),
        register(names.ids["words"], 30, 0xABCDEF),
        value_set(names.ids["ipv6_types"], 0x12),
    ]


def valid_updates(names: Names) -> list[p4r.Update]:
    """Valid updates of every kind."""
    route = names.entry("lpm_route", (1 << 127, 1), action=("route", 1, 2))
    others = [
        group(names.ids["ecmp"], 1, (1, 2), watch=3),
        clone_session(5, (1, 1)),
        route,
        p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=route.table_entry)),
        p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=names.entry("acl").table_entry)),
    ]
    default = names.entry("lpm_route", action=("to_cpu", 8), is_default_action=True)
    inserted = [p4r.Update(type=p4r.Update.INSERT, entity=e) for e in (*_everything(names), *others)]
    return [*inserted, *(p4r.Update(type=p4r.Update.MODIFY, entity=e) for e in (*_cells(names), default))]


ALL = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData(), meter_config=p4r.MeterConfig())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry()),
    p4r.Entity(digest_entry=p4r.DigestEntry()),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(meter_entry=p4r.MeterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(value_set_entry=p4r.ValueSetEntry()),
]


def _fill(client: Client, names: Names) -> None:
    client.insert(*_everything(names))
    client.modify(*_cells(names), names.entry("lpm_route", action=("to_cpu", 8), is_default_action=True))
    client.modify(names.entry("preset", 7, action=("NoAction",)))


def test_reconcile_preserves_everything(client: Client, names: Names, network: FakeNetwork) -> None:
    _fill(client, names)
    before, state = client.read(*ALL), network.pipelines[1][1]
    client.set_pipeline(config(cookie=2), "RECONCILE_AND_COMMIT")
    assert network.pipelines[1][1] is not state
    assert client.read(*ALL) == before
    assert get(client).config.cookie.cookie == 2


def test_reconcile_refuses_what_it_cannot_preserve(client: Client, names: Names) -> None:
    _fill(client, names)
    before = client.read(*ALL)

    def drop_table(info) -> None:
        (gone,) = [t for t in info.tables if t.preamble.alias == "ageing"]
        info.tables.remove(gone)

    error = set_refused(client, _info(drop_table), "RECONCILE_AND_COMMIT")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "table_entry" in message_of(error)
    assert client.read(*ALL) == before


def test_reconcile_without_a_pipeline_is_a_commit(fresh: Client, names: Names) -> None:
    fresh.set_pipeline(config(), "RECONCILE_AND_COMMIT")
    fresh.insert(names.entry("lpm_route", None, action=("to_cpu", 1)))


# -- workers that compile, when the server stops -------------------------------------------------------------


def test_compilations_that_have_not_begun_end_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them for ever, and they do not count when the server starts again."""
    go_on = threading.Event()

    def slow(text: bytes) -> None:
        assert go_on.wait(PATIENCE_S)
        raise Refused(Code.INVALID_ARGUMENT, "slow")

    monkeypatch.setattr(compiling, "compile_program", slow)
    compiler = compiling.Compiler()

    def begin(number: int) -> compiling.Future[compiling.Compiled]:
        message = p4r.ForwardingPipelineConfig(p4_device_config=b"{%d" % number)
        message.p4info.SetInParent()
        return compiler._begin(message)

    waiting = [begin(number) for number in range(compiling._MOST)]
    compiler.close()
    for future in waiting[compiling._WORKERS :]:
        with pytest.raises(Refused, match="the server stops"):
            future.result(PATIENCE_S)
    go_on.set()
    for future in waiting[: compiling._WORKERS]:
        with pytest.raises(Refused, match="slow"):
            future.result(PATIENCE_S)
    with pytest.raises(Refused, match="slow"):
        begin(0).result(PATIENCE_S)
    compiler.close()
