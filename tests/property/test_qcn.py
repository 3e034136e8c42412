# SPDX-License-Identifier: Apache-2.0
"""qcn.p4 under any sequence of messages and packets: what must always hold of probabilities and averages."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.control import qcn
from detour.control.qcn import Mechanism
from detour.fabric.backends.virtual.load import _call
from tests.ptf.packets import frame, host, ip, udp
from tests.unit.control.qcn_runner import PORT, make_runner, message

RUNNER = make_runner()
PACKET = bytes(frame(ip(host(5), src=host(2)), udp()))
HERE = host(0, 0)
PORTS = 6
"""messages come in by these many ports from `PORT` on; packets leave by the first of them"""

mechanisms = st.builds(
    Mechanism,
    name=st.just("any"),
    source=st.sampled_from(["", "as others", "alone"]),
    versus=st.integers(0, 6),
    fraction=st.sampled_from([0.0, 0.375, 1.0]),
    limit=st.sampled_from([0.0, 1 / 1024, 1 / 128, 1 / 63]),
    increase=st.sampled_from([0.0, 0.005, 0.01, 0.05, 1.0]),
    quiet=st.integers(1, 5),
    steady=st.booleans(),
    smooth=st.integers(0, 4),
    fade=st.integers(0, 3),
)
events = st.lists(
    st.one_of(st.just(None), st.tuples(st.integers(0, PORTS - 1), st.integers(1, 63))), min_size=1, max_size=40
)
"""a packet, or a message (port, Fb)"""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mechanisms, events)
def test_probabilities_and_averages_keep_their_bounds(mechanism: Mechanism, sequence: list) -> None:
    state = RUNNER.state
    state.tables[qcn.MECHANISM].set_default(*_call(state.program.model.actions, mechanism.adapt(PORTS)))
    detoured, last = state.registers[qcn.DETOURED], state.registers[qcn.LAST_FEEDBACK]
    total, sent = state.registers[qcn.LAST_SUM], state.registers[qcn.SENT]
    for register in (detoured, last, total, sent):
        register.reset()
    for event in sequence:
        before = detoured.values()
        if event is None:
            RUNNER.run(PACKET, port=20)
            assert detoured.values()[PORT] <= before[PORT], "silence never lowers a probability"
        else:
            port, feedback = event
            heard = last.values()[PORT + port]
            RUNNER.run(message(feedback, HERE), port=PORT + port)
            now = last.values()[PORT + port]
            assert min(heard, 16 * feedback) <= now <= max(heard, 16 * feedback)
            others = [value for at, value in enumerate(before) if at != PORT + port]
            assert [value for at, value in enumerate(detoured.values()) if at != PORT + port] == others
        assert all(0 <= value <= qcn.ONE for value in detoured.values())
        assert total.read(0) == sum(last.values())
