# SPDX-License-Identifier: Apache-2.0
"""Names and constants of qcn.p4 that the other programs do not have, as its P4Info has them (a test compares them)."""

from __future__ import annotations

CONDITION = "FabricIngress.conditional.condition"
CONDITIONAL_HOST_PORTS = "FabricIngress.conditional.host_ports"
MINIMAL_RULE = "FabricIngress.conditional.minimal_rule"
CONDITIONAL_TOWARDS_GROUP = "FabricIngress.conditional.towards_group"
CONDITIONAL_DECISIONS = "FabricIngress.conditional.decisions"
PAUSED = "FabricIngress.conditional.paused"
DETOURED = "detoured"
MECHANISM = "FabricIngress.reaction.mechanism"
OWN_HOSTS = "FabricIngress.reaction.host_ports"
LAST_FEEDBACK = "FabricIngress.reaction.last"
LAST_SUM = "FabricIngress.reaction.last_sum"
SENT = "FabricIngress.reaction.sent"
INPUT_POINTS = "FabricEgress.congestion.input_points"
OUTPUT_POINTS = "FabricEgress.congestion.output_points"
Q_OLD = "FabricEgress.congestion.q_old"
BUFFERED = "buffered"

CONDITIONAL_MINIMAL = "FabricIngress.conditional.minimal"
CONDITIONAL_TOWARDS = "FabricIngress.conditional.towards"
ADAPT = "FabricIngress.reaction.adapt"
INPUT_BUFFER = "FabricEgress.congestion.input_buffer"
OUTPUT_QUEUE = "FabricEgress.congestion.output_queue"

CONDITIONS = {
    "always": "FabricIngress.conditional.always",
    "unless_paused": "FabricIngress.conditional.unless_paused",
    "by_probability": "FabricIngress.conditional.by_probability",
}

# headers.p4
NOTIFICATION_SESSION = 2
