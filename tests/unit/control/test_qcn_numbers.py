# SPDX-License-Identifier: Apache-2.0
"""Fixed-point arithmetic of qcn.p4, as compiled, against exact fractions."""

import random
import socket
from fractions import Fraction

import pytest

from detour.base.errors import DetourError
from detour.control import qcn
from detour.control.qcn import MECHANISMS, CongestionPoints, Mechanism, QueueRule
from detour.engine.phv import EGRESS_PORT, INSTANCE_TYPE
from detour.fabric.backends.virtual.load import _call
from tests.packet_runner import PacketRunner, field_place
from tests.ptf.packets import frame, host, ip, udp
from tests.unit.control.qcn_runner import PORT, make_runner, message

ONE = qcn.ONE
EGRESS_CLONE, RECIRCULATED = 2, 4


@pytest.fixture(scope="module")
def runner() -> PacketRunner:
    return make_runner()


def exact_feedback(queue: int, old: int, q_eq: int, w: int) -> int:
    """Fb of section II-D, positive, quantised as in docs/facts.md, "QCN-Switch: Table I"."""
    most = q_eq * (2 * w + 1)
    value = min(max(queue - q_eq + w * (queue - old), 0), most)
    return int(Fraction(value * 63, most))


def test_feedback_is_quantised_exactly(runner):
    rng = random.Random(1)
    table = runner.state.tables[qcn.INPUT_POINTS]
    packet = bytes(frame(ip(host(5), src=host(2)), udp()))
    for _ in range(150):
        w = rng.choice([0, 1, 2, 3, 8])
        q_eq = rng.choice([1, 64, 4000, 33_000, rng.randrange(1, 1 << 15)])
        name, values = _call(
            runner.state.program.model.actions, CongestionPoints(period=1, q_eq=q_eq, w=w, wait_ticks=0).action()
        )
        handle = table.insert((PORT,), name, values, 0)
        for _ in range(10):
            queue, old = rng.randrange(4 * q_eq + 2), rng.randrange(4 * q_eq + 2)
            runner.state.registers[qcn.BUFFERED].write(PORT, queue)
            runner.state.registers[qcn.Q_OLD].write(PORT, old)
            result = runner.run(packet, port=PORT, watch=("scalars.metadata_t.feedback",))
            expected = exact_feedback(queue, old, q_eq, w)
            assert result.fields["scalars.metadata_t.feedback"] == expected, (q_eq, w, queue, old)
            assert result.clone == (expected > 0)
        table.delete(handle)


def test_every_boundary_of_the_quantiser_is_right(runner):
    """One byte below each level and exactly at it."""
    most = qcn.fb_max(33_000, 2)
    scale = qcn.scale(most)
    for level in range(1, 64):
        least = -(-level * most // 63)
        assert (least * scale) >> 40 == level
        assert ((least - 1) * scale) >> 40 == level - 1


def _set(runner: PacketRunner, mechanism: Mechanism, ports: int) -> None:
    runner.state.tables[qcn.MECHANISM].set_default(*_call(runner.state.program.model.actions, mechanism.adapt(ports)))


@pytest.mark.parametrize("name", [name for name, m in MECHANISMS.items() if m.adapts])
def test_reactions_follow_the_exact_rule(runner, name):
    """Any state, any message: the probability is that of exact arithmetic up to the bounds of `control.qcn`."""
    mechanism, rng = MECHANISMS[name], random.Random(name)
    registers = runner.state.registers
    for _ in range(300):
        ports = rng.choice([4, 7, 11, 16])
        _set(runner, mechanism, ports)
        last = [rng.choice([0, rng.randrange(63 * 16 + 1)]) for _ in range(ports)]  # in sixteenths
        for port, value in enumerate(last):
            registers[qcn.LAST_FEEDBACK].write(PORT + port, value)
        registers[qcn.LAST_SUM].write(0, sum(last))
        before = rng.choice([0, 1, ONE, rng.randrange(ONE + 1)])
        registers[qcn.DETOURED].write(PORT, ONE - before)
        feedback = rng.randrange(1, 64)
        runner.run(message(feedback, host(0, 0)), port=PORT)
        after = ONE - registers[qcn.DETOURED].read(PORT)
        mine = last[0] + ((feedback * 16 - last[0]) >> mechanism.smooth)
        level = Fraction(last[0]) + Fraction(feedback * 16 - last[0], 1 << mechanism.smooth)
        assert 0 <= level - mine < 1, "the average is rounded down by less than a sixteenth"
        total = sum(last) - last[0] + mine
        assert (registers[qcn.LAST_FEEDBACK].read(PORT), registers[qcn.LAST_SUM].read(0)) == (mine, total)
        excess = Fraction(mine, 16) - Fraction(total, 16 * ports) * mechanism.adapt(ports)["versus"]
        p = Fraction(before, ONE)
        exact = p
        if excess > 0:
            exact = p * (1 - Fraction(mechanism.limit) * excess)
        elif not mechanism.steady:
            exact = min(p + Fraction(mechanism.increase), Fraction(1))
        assert abs(Fraction(after, ONE) - exact) <= Fraction(1, 1 << 22), (name, ports, last, feedback, before)


def test_silence_brings_the_probability_back(runner):
    _set(runner, Mechanism("test", increase=0.25, quiet=10), 7)
    registers = runner.state.registers
    registers[qcn.DETOURED].write(PORT, ONE)
    registers[qcn.SENT].write(PORT, 0)
    packet = bytes(frame(ip(host(5), src=host(2)), udp()))
    seen = []
    for _ in range(45):
        runner.run(packet, port=5)
        seen.append(ONE - registers[qcn.DETOURED].read(PORT))
    assert seen[8] == 0
    assert [seen[at] for at in (9, 19, 29, 39, 44)] == [ONE // 4, ONE // 2, 3 * ONE // 4, ONE, ONE]


@pytest.mark.parametrize("gentle", [0, 1, 3, 8])
def test_low_probabilities_rise_in_small_steps(runner, gentle):
    mechanism = Mechanism("test", increase=0.02, quiet=1, gentle=gentle)
    _set(runner, mechanism, 7)
    registers = runner.state.registers
    packet = bytes(frame(ip(host(5), src=host(2)), udp()))
    rng = random.Random(gentle)
    for before in (0, 1, ONE // 8, ONE - 1, ONE, *(rng.randrange(ONE) for _ in range(40))):
        registers[qcn.DETOURED].write(PORT, ONE - before)
        registers[qcn.SENT].write(PORT, 0)
        runner.run(packet, port=5)
        after = ONE - registers[qcn.DETOURED].read(PORT)
        p = Fraction(before, ONE)
        exact = min(p + Fraction(mechanism.increase) * (p + (1 - p) / (1 << gentle)), Fraction(1))
        assert abs(Fraction(after, ONE) - exact) <= Fraction(1, 1 << 22)


def test_a_message_about_a_group_leaves_the_rest_of_what_is_left(runner):
    """The share that is avoided: 1 - (1 - share) * (1 - Fb / 64), rounded down by less than 63 of 2^24."""
    state, rng = runner.state, random.Random(7)
    state.tables[qcn.MECHANISM].set_default(qcn.AVOID, (31,))
    for _ in range(50):
        before, feedback = rng.choice([0, ONE, rng.randrange(ONE)]), rng.randrange(1, 64)
        state.registers[qcn.AVOIDED].write(5, before)
        state.registers[qcn.AVOIDED_AT].write(5, 0)
        runner.run(message(feedback, host(0, 0), group=5), port=PORT)
        after, share = state.registers[qcn.AVOIDED].read(5), Fraction(before, ONE)
        exact = share + (1 - share) * Fraction(feedback, 64)
        assert 0 <= exact - Fraction(after, ONE) < Fraction(64, ONE)
        assert after <= ONE


def test_messages_about_other_classes_do_not_count(runner):
    _set(runner, Mechanism("test", classes=0b001), 7)
    registers = runner.state.registers
    registers[qcn.DETOURED].write(PORT, 0)
    runner.run(message(63, host(0, 0), priority=1), port=PORT)
    assert registers[qcn.DETOURED].read(PORT) == 0
    runner.run(message(63, host(0, 0), priority=0), port=PORT)
    assert registers[qcn.DETOURED].read(PORT) > 0


def test_a_clone_becomes_a_message_to_the_source(runner):
    """Egress of the clone: the PDU says what the congestion point found; after the turn it is cut to its length."""
    packet = bytes(frame(ip(host(5), src=host(2)), udp(payload=bytes(900))))
    runner.start(packet, port=PORT)
    runner.put(INSTANCE_TYPE, EGRESS_CLONE)
    runner.put(EGRESS_PORT, 509)
    offset = field_place(runner.program, "scalars.metadata_t.feedback")[0]
    runner.phv[offset] = 41
    runner.egress(runner.state.sw, runner.phv.ctypes.data)
    made = runner.finish()
    assert made[38:54] == socket.inet_pton(socket.AF_INET6, host(2))
    assert int.from_bytes(made[62:64], "big") & 63 == 41
    runner.start(made, port=0, instance_type=RECIRCULATED)
    runner.ingress(runner.state.sw, runner.phv.ctypes.data)
    assert len(runner.finish()) == 86


@pytest.mark.parametrize(
    "make",
    [
        lambda: CongestionPoints(period=0),
        lambda: CongestionPoints(q_eq=0),
        lambda: CongestionPoints(q_eq=1 << 20),
        lambda: CongestionPoints(wait_ticks=-1),
        lambda: CongestionPoints(where="nowhere"),  # type: ignore[arg-type]
        lambda: Mechanism("m", limit=1 / 32),
        lambda: Mechanism("m", increase=1.5),
        lambda: Mechanism("m", versus=17),
        lambda: Mechanism("m", quiet=0),
        lambda: Mechanism("m", fraction=1.5),
        lambda: Mechanism("m", smooth=9),
        lambda: QueueRule(t=1 << 16),
        lambda: QueueRule(fade=32),
        lambda: QueueRule(twice=16),
    ],
)
def test_impossible_parameters_are_refused(make):
    with pytest.raises(DetourError):
        make()  # type: ignore[operator]
