# SPDX-License-Identifier: Apache-2.0
"""Plans for qcn.p4."""

from collections import Counter
from dataclasses import fields

import pytest

from detour.base.errors import DetourError
from detour.control import qcn, schema
from detour.control.entries import Action, CloneSession, DefaultAction, TableEntry
from detour.control.qcn import QCN_COMPLETE, CongestionPoints, Mechanism, plan_qcn
from detour.topo import parse_topology
from tests.unit.control.test_planner import names_of

D1 = parse_topology("d1")


def values_of(module: object) -> set[str]:
    constants = [value for name, value in vars(module).items() if name.isupper()]
    return {v for v in constants if isinstance(v, str)} | {
        v for f in constants if isinstance(f, dict) for v in f.values()
    }


def test_every_name_is_in_the_program():
    assert {value for value in values_of(qcn) if isinstance(value, str)} - {qcn.PROGRAM} <= names_of(qcn.PROGRAM)


def test_a_parameter_has_one_name_in_planner_and_program():
    """But for those that the planner computes from others."""
    points, mechanism = CongestionPoints(where="output"), QCN_COMPLETE
    given = dict(points.action().params)
    assert set(given) - {field.name for field in fields(points)} == {"fb_max", "scale"}
    assert {name: given[name] for name in ("period", "q_eq", "w", "wait_ticks", "classes")} == {
        name: getattr(points, name) for name in ("period", "q_eq", "w", "wait_ticks", "classes")
    }
    assert set(dict(mechanism.adapt(7).params)) - {field.name for field in fields(mechanism)} == {"ports", "decrease"}


def test_minimal_rules_lead_to_the_direct_link_or_the_switch_that_has_it():
    plan = plan_qcn(D1, QCN_COMPLETE)
    for switch in D1.switches:
        entries = [e for e in plan[switch.device_id] if isinstance(e, TableEntry) and e.table == qcn.MINIMAL_RULE]
        assert len(entries) == D1.groups - 1
        for entry in entries:
            (_, group), action = entry.match[0], entry.action
            assert isinstance(action, Action)
            peer = switch.ports[action["port"] - 1]
            assert peer is not None
            there = D1.switches[peer.index]
            if peer.kind == "global":
                assert there.group == group
            else:
                beyond = {D1.switches[p.index].group for p in there.ports if p is not None and p.kind == "global"}
                assert (peer.kind, there.group) == ("local", switch.group)
                assert group in beyond


def test_congestion_points_are_at_transit_ports_only():
    for where, table in (("input", qcn.INPUT_POINTS), ("output", qcn.OUTPUT_POINTS)):
        mechanism = Mechanism("test", points=CongestionPoints(where=where, kinds=("global",)))  # type: ignore[arg-type]
        planned = plan_qcn(D1, mechanism)
        for switch in D1.switches:
            entries = [e for e in planned[switch.device_id] if isinstance(e, TableEntry)]
            ports = [e.match[0][1] for e in entries if e.table == table]
            assert ports == [p for p, peer in enumerate(switch.ports, 1) if peer is not None and peer.kind == "global"]
            assert Counter(e.table for e in entries)[qcn.OWN_HOSTS] == len(D1.hosts_of[switch.index])


def test_one_node_config_and_the_session_of_messages():
    for entities in plan_qcn(D1, QCN_COMPLETE).values():
        assert sum(isinstance(e, DefaultAction) and e.table == schema.NODE_CONFIG for e in entities) == 1
        sessions = [e for e in entities if isinstance(e, CloneSession) and e.session == qcn.NOTIFICATION_SESSION]
        assert [replica.port for replica in sessions[0].replicas] == [509]
        towards = [e for e in entities if isinstance(e, TableEntry) and e.table == qcn.CONDITIONAL_TOWARDS_GROUP]
        assert len(towards) == D1.groups - 1


@pytest.mark.parametrize("spec", ["leaf-spine:leaves=2,spines=2,hosts=1", "dragonfly:p=1,a=2,h=1,g=2"])
def test_other_topologies_are_refused(spec):
    with pytest.raises(DetourError):
        plan_qcn(parse_topology(spec), QCN_COMPLETE)
