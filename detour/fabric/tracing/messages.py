# SPDX-License-Identifier: Apache-2.0
"""The messages that other people write traces in: `fourward.sim.TraceTree` of 4ward and `p4.bm.PacketTrace` of BMv2.

4ward: simulator/simulator.proto; BMv2: proto/packet_trace.proto (p4lang/behavioral-model 1418, 1433). What only detour
knows (queues, links, virtual time, what was assigned) is in extension fields, from number 1000 on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from detour.base.protobuf import EXTENSIONS, MessageFields, add_messages, message_class, new_pool

ROOTS = {"4ward": "fourward.sim.TraceTree", "bmv2": "p4.bm.PacketTrace"}
"""the outermost message of each format"""
_STAGE = [("stage_name", 1, "string"), ("stage_kind", 2, "StageKind"), ("direction", 3, "Direction")]
_PIPELINE_ENUMS = {
    "StageKind": ("STAGE_KIND_UNSPECIFIED", "PARSER", "CONTROL", "DEPARSER"),
    "Direction": ("DIRECTION_UNSPECIFIED", "ENTER", "EXIT"),
}
_FOURWARD_ENUMS = {
    **_PIPELINE_ENUMS,
    "ForkReason": ("FORK_REASON_UNSPECIFIED", "ACTION_SELECTOR", "CLONE", "MULTICAST", "RESUBMIT", "RECIRCULATE"),
    "DropReason": (
        *("DROP_REASON_UNSPECIFIED", "MARK_TO_DROP", "PARSER_REJECT", "PIPELINE_EXECUTION_LIMIT_REACHED"),
        "ASSERTION_FAILURE",
    ),
}
_ENTRY = ".p4.v1.TableEntry"
_FOURWARD: MessageFields = {
    "TraceTree": [("events", 1, "TraceEvent*"), ("fork_outcome", 2, "Fork"), ("packet_outcome", 3, "PacketOutcome")],
    "Fork": [("reason", 1, "ForkReason"), ("branches", 2, "ForkBranch*")],
    "ForkBranch": [("label", 1, "string"), ("subtree", 2, "TraceTree")],
    "PacketOutcome": [("output", 1, "OutputPacket"), ("drop", 2, "Drop")],
    "OutputPacket": [("dataplane_egress_port", 1, "uint32"), ("payload", 2, "bytes"), ("p4rt_egress_port", 3, "bytes")],
    "Drop": [("reason", 1, "DropReason")],
    "TraceEvent": [
        ("parser_transition", 1, "ParserTransition"), ("table_lookup", 2, "TableLookup"),
        ("action_execution", 3, "ActionExecution"), ("branch", 4, "Branch"), ("extern_call", 5, "ExternCall"),
        ("mark_to_drop", 6, "Drop"), ("clone", 7, "Clone"), ("packet_ingress", 8, "PacketIngress"),
        ("pipeline_stage", 9, "PipelineStage"), ("clone_session_lookup", 10, "CloneSessionLookup"),
        ("log_message", 11, "LogMessage"), ("assertion", 12, "Assertion"), ("deparser_emit", 13, "DeparserEmit"),
        ("source_info", 100, "SourceInfo"),
    ],
    "SourceInfo": [
        ("file", 1, "string"), ("line", 2, "uint32"), ("column", 3, "uint32"), ("source_fragment", 4, "string"),
    ],
    "ParserTransition": [
        ("parser_name", 1, "string"), ("from_state", 2, "string"), ("to_state", 3, "string"),
        ("select_value", 4, "string"), ("select_expression", 5, "string"),
    ],
    "TableLookup": [
        ("table_name", 1, "string"), ("hit", 2, "bool"), ("matched_entry", 3, _ENTRY), ("action_name", 4, "string"),
        ("p4rt_matched_entry", 5, _ENTRY),
    ],
    "ActionExecution": [("action_name", 1, "string"), ("params", 2, "Parameter*")],
    "Parameter": [("key", 1, "string"), ("value", 2, "bytes")],
    "Branch": [("control_name", 1, "string"), ("taken", 2, "bool")],
    "ExternCall": [("extern_instance_name", 1, "string"), ("method", 2, "string")],
    "Clone": [("session_id", 1, "uint32")],
    "CloneSessionLookup": [
        ("session_id", 1, "uint32"), ("session_found", 2, "bool"), ("dataplane_egress_port", 3, "uint32"),
        ("p4rt_egress_port", 4, "bytes"),
    ],
    "PacketIngress": [("dataplane_ingress_port", 1, "uint32"), ("p4rt_ingress_port", 2, "bytes")],
    "PipelineStage": _STAGE,
    "LogMessage": [("message", 1, "string")],
    "Assertion": [("passed", 1, "bool")],
    "DeparserEmit": [("header_type", 1, "string"), ("byte_length", 2, "uint32")],
}  # fmt: skip
_BMV2: MessageFields = {
    "PacketTrace": [("input", 1, "InputPacket"), ("root", 2, "TraceTree")],
    "InputPacket": [("packet_id", 1, "uint64"), ("ingress_port", 2, "uint32")],
    "TraceTree": [("events", 1, "TraceEvent*"), ("transmit", 2, "Transmit"), ("drop", 3, "Drop")],
    "TraceEvent": [("pipeline_stage", 1, "PipelineStage")],
    "PipelineStage": _STAGE,
    "Transmit": [("egress_port", 1, "uint32"), ("packet_size", 2, "uint32")],
    "Drop": [],
}
_DETOUR: MessageFields = {
    "Hop": [("switch", 1, "string"), ("port", 2, "uint32"), ("at_ns", 3, "uint64"), ("fraction", 4, "double")],
    "Queue": [
        ("port", 1, "uint32"), ("rid", 2, "uint32"), ("priority", 3, "uint32"), ("depth_found", 4, "uint32"),
        ("depth_left", 5, "uint32"), ("wait_ticks", 6, "uint64"), ("enqueued_at_ticks", 7, "uint64"),
    ],
    "Assignment": [("field", 1, "string"), ("before", 2, "bytes"), ("after", 3, "bytes"), ("by", 4, "string")],
}  # fmt: skip


@cache
def message_of(name: str) -> tuple[Any, Any]:
    """The class of the outermost message of a format, with detour's extensions, and the pool that it is from."""
    package = ROOTS[name].rpartition(".")[0]
    if name == "4ward":
        from finsy.proto import p4r

        runtime = p4r.TableEntry.DESCRIPTOR.file
        pool = new_pool(runtime)
        add_messages(pool, package, _FOURWARD, enums=_FOURWARD_ENUMS, imports=[runtime.name])
    else:
        pool = new_pool()
        add_messages(pool, package, _BMV2, enums=_PIPELINE_ENUMS)
    extends: dict[str, list[tuple[str, int, str]]] = {
        f"{package}.TraceTree": [("hop", EXTENSIONS, "Hop")],
        f"{package}.TraceEvent": [("queue", EXTENSIONS, "Queue"), ("assignment", EXTENSIONS + 1, "Assignment")],
        f"{package}.Drop": [("reason", EXTENSIONS + 2, "string")],
    }
    if name == "4ward":
        extends[f"{package}.Fork"] = [("fork_reason", EXTENSIONS + 3, "string")]
        extends[f"{package}.ForkBranch"] = [("fraction", EXTENSIONS + 4, "double")]
    add_messages(pool, "detour", _DETOUR, imports=[f"detour/{package}.proto"], extends=extends)
    return message_class(pool, ROOTS[name]), pool
