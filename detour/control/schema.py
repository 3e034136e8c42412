# SPDX-License-Identifier: Apache-2.0
"""Names, sizes and constants of `p4src/fabric.p4` as its P4Info has them (a test compares the two)."""

from __future__ import annotations

CONFIG = "FabricIngress.node.config"
LOCAL_SID = "FabricIngress.usid.local_sid"
DETOUR = "FabricIngress.valiant.detour"
CUT_OFF = "FabricIngress.valiant.cut_off"
ROUTE = "FabricIngress.router.route"
DSCP = "FabricIngress.qos.dscp"
MARKING = "FabricEgress.ecn.marking"
PUNT_METER = "FabricIngress.verdict.punt_meter"

SET_NODE = "FabricIngress.node.set_node"
UN = "FabricIngress.usid.un"
UA = "FabricIngress.usid.ua"
NODE_UA = "FabricIngress.usid.node_ua"
TOWARDS = "FabricIngress.valiant.towards"
FORWARD = "FabricIngress.router.forward"
DELIVER = "FabricIngress.router.deliver"
SET_PRIORITY = "FabricIngress.qos.set_priority"
STEP = "FabricEgress.ecn.step"
RED = "FabricEgress.ecn.red"
NO_ACTION = "NoAction"

DST_ADDR = "hdr.ipv6.dst_addr"
VIA = "meta.via"
DESTINATION_GROUP = "destination_group"
DSCP_FIELD = "hdr.ipv6.dscp"
EGRESS_PORT = "std.egress_port"

# Entries that a table takes; members that the selectors of `route` and `detour` take.
TABLE_SIZE = {
    LOCAL_SID: 1024,
    DETOUR: 1024,
    CUT_OFF: 4096,
    ROUTE: 16384,
    DSCP: 64,
    MARKING: 512,
}
SELECTOR_SIZE = {ROUTE: 16384, DETOUR: 4096}
MAX_GROUP_SIZE = 64

# headers.p4
CPU_COPY_SESSION = 1
PUNT_REASONS = (6, 7, 10)  # hop limit, SID exhausted, access rule: indices of the punt meter
MAX_PASSES = 5  # recirculations for own uSIDs in a row
MAX_QDEPTH = (1 << 19) - 1
