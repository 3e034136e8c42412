# SPDX-License-Identifier: Apache-2.0
"""Random two-level fat-trees, populations and failures: every plan is right, and none beats the bounds."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detour.control.fors import FatTree, ForsPlan, solve
from detour.control.fors.incremental import reroute
from detour.control.fors.recolour import complete
from detour.control.fors.solve import assign_servers, proven_bound
from detour.control.fors.verify import problems

MANY = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def fabrics(draw: st.DrawFn) -> FatTree:
    spines, leaves = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    hosts, cables, speed = spines, 1, Fraction(1)
    if draw(st.booleans()):  # what the paper does not have
        hosts, cables = draw(st.integers(1, 7)), draw(st.integers(1, 3))
        speed = Fraction(draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    links = st.tuples(st.integers(0, leaves - 1), st.integers(0, spines * cables - 1))
    failed = draw(st.frozensets(links, max_size=spines * cables * leaves // 2))
    population = ()
    if draw(st.booleans()):
        population = tuple(draw(st.lists(st.integers(0, hosts), min_size=leaves, max_size=leaves)))
        population = population if any(population) else ()
    fabric = FatTree(spines, leaves, failed, population, hosts=hosts, cables=cables, speed=speed)
    servers = np.flatnonzero(fabric.present()).tolist()
    group = draw(st.sets(st.sampled_from(servers))) if draw(st.booleans()) else ()
    return replace(fabric, group=tuple(group))


def plainly_right(plan: ForsPlan) -> bool:
    """What `problems` checks, said once more in sets and loops."""
    fabric, seen = plan.fabric, Counter()
    pairs, cut = set(), {frozenset(pair) for pair in plan.unreachable}
    cables = np.zeros((2, plan.flows), int) if plan.cables is None else plan.cables
    columns = (plan.phase, plan.src, plan.dst, plan.spine, cables[0], cables[1])
    for phase, src, dst, spine, up, down in zip(*(column.tolist() for column in columns), strict=True):
        u, v = src // fabric.hosts, dst // fabric.hosts
        used = [(phase, "sends", src), (phase, "receives", dst)]
        if u != v:
            first, second = (u, spine * fabric.cables + up), (v, spine * fabric.cables + down)
            used += [(phase, "up", *first), (phase, "down", *second)]
            if not 0 <= spine < fabric.spines or fabric.failed & {first, second}:
                return False
        if not 0 <= phase < plan.phases or (src, dst) in pairs:
            return False
        seen.update(used)
        pairs.add((src, dst))
    most = {"sends": fabric.speed.denominator, "receives": fabric.speed.denominator}
    if any(count > most.get(what[1], fabric.speed.numerator) for what, count in seen.items()):
        return False
    servers = fabric.group or np.flatnonzero(fabric.present()).tolist()
    expected = {
        (s, d)
        for s in servers
        for d in servers
        if s != d and frozenset((s // fabric.hosts, d // fabric.hosts)) not in cut
    }
    return pairs == expected


@MANY
@given(fabrics())
def test_plans(fabric):
    plan = solve(fabric, skip_unreachable=True)
    assert problems(plan) == []
    assert plainly_right(plan)
    assert list(plan.unreachable) == fabric.unreachable()
    assert plan.optimal
    assert plan.phases == plan.lower_bound >= proven_bound(fabric)


@MANY
@given(fabrics(), st.data())
def test_more_failures(fabric, data):
    plan = solve(fabric, skip_unreachable=True)
    links = [(u, c) for u in range(fabric.leaves) for c in range(fabric.uplinks) if (u, c) not in fabric.failed]
    more = data.draw(st.sets(st.sampled_from(links), max_size=3)) if links else set()
    after = fabric.with_failed(more)
    if after.unreachable() != fabric.unreachable():
        return
    change = reroute(plan, after)
    assert problems(change.plan) == []
    assert plainly_right(change.plan)
    assert 0 <= change.moved <= plan.flows
    if change.plan.optimal:
        assert change.plan.phases == solve(after, skip_unreachable=True).phases


@MANY
@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
def test_colours_of_edges(data, sources, targets, colours):
    """What is coloured is coloured properly, and what had a colour keeps one."""
    edges = data.draw(st.lists(st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1)), max_size=20))
    cells = st.lists(st.booleans(), min_size=colours, max_size=colours)
    out_ok, in_ok = (
        np.array(data.draw(st.lists(cells, min_size=n, max_size=n)), bool).reshape(n, colours)
        for n in (sources, targets)
    )
    source, target = (np.array([edge[end] for edge in edges], np.int32) for end in range(2))
    colour = np.full(len(edges), -1, np.int32)
    left = complete(source, target, out_ok, in_ok, colour, 50, 1)
    assert left == np.count_nonzero(colour < 0)
    done = np.flatnonzero(colour >= 0)
    for end, allowed in ((source, out_ok), (target, in_ok)):
        assert allowed[end[done], colour[done]].all()
        assert len(set(zip(end[done].tolist(), colour[done].tolist(), strict=True))) == len(done)


@MANY
@given(st.data(), st.integers(1, 4), st.integers(1, 5))
def test_servers_of_flows(data, leaves, most):
    """Any phases that leaves can bear: every ordered pair of servers once, nobody twice a phase or to itself."""
    population = np.array(data.draw(st.lists(st.integers(1, most), min_size=leaves, max_size=leaves)))
    flows = np.outer(population, population) - np.diag(population)
    source, target = (np.repeat(end.ravel(), flows.ravel()) for end in np.indices((leaves, leaves)))
    phase = np.full(len(source), -1)
    room = np.zeros((2, len(source) + 1, leaves), int)
    order = data.draw(st.permutations(range(len(source)))) if len(source) <= 40 else range(len(source))
    for row in order:
        u, v = source[row], target[row]
        phase[row] = np.flatnonzero((room[0, :, u] < population[u]) & (room[1, :, v] < population[v]))[0]
        room[0, phase[row], u] += 1
        room[1, phase[row], v] += 1
    first, second = assign_servers(int(phase.max(initial=-1)) + 1, source, target, phase, population)
    senders = list(zip(source.tolist(), first.tolist(), strict=True))
    receivers = list(zip(target.tolist(), second.tolist(), strict=True))
    assert len(set(zip(senders, receivers, strict=True))) == len(source)
    assert all(s != r for s, r in zip(senders, receivers, strict=True))
    for servers in (senders, receivers):
        assert len(set(zip(servers, phase.tolist(), strict=True))) == len(source)
        assert all(a < population[leaf] for leaf, a in servers)
