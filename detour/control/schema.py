# SPDX-License-Identifier: Apache-2.0
"""Names, sizes and constants of the P4 programs as their P4Infos have them (a test compares the two).

What programs share is called the same in all; `valiant` is in fabric.p4 and trim.p4 only, `trimming` in trim.p4,
`adaptive` in adaptive.p4, ugal.p4 and ugal_graph.p4, `ranking` in adaptive.p4, ugal.p4 and qcn.p4,
`spraypoint` in spraypoint.p4.
"""

from __future__ import annotations

NODE_CONFIG = "FabricIngress.node.config"
LOCAL_SID = "FabricIngress.usid.local_sid"
DETOUR = "FabricIngress.valiant.detour"
CUT_OFF = "FabricIngress.valiant.cut_off"
ROUTE = "FabricIngress.router.route"
DSCP = "FabricIngress.qos.dscp"
CHANNEL = "FabricIngress.qos.channel"
ORDER = "FabricIngress.ranking.order"
TRIM_CLASSES = "FabricIngress.trimming.classes"
MODE = "FabricIngress.adaptive.mode"
HOST_PORTS = "FabricIngress.adaptive.host_ports"
TOWARDS_GROUP = "FabricIngress.adaptive.towards_group"
SHORTEST_LOAD = "FabricIngress.adaptive.shortest_load"
DETOUR_LOAD = "FabricIngress.adaptive.detour_load"
DISTANCES = "FabricIngress.adaptive.distances"
SHORTEST_WAY = "FabricIngress.adaptive.shortest_way"
DETOUR_WAY = "FabricIngress.adaptive.detour_way"
GRANULARITY = "FabricIngress.spraypoint.granularity"
SENDING_PORTS = "FabricIngress.spraypoint.host_ports"
OWN_HOSTS = "FabricIngress.spraypoint.own_hosts"
SPRAY = "FabricIngress.spraypoint.spray"
MARKING = "FabricEgress.ecn.marking"
WATCHED = "FabricEgress.flows.watched"
FLOW_PASSED = "FabricEgress.flows.passed"
FLOW_WAITED = "FabricEgress.flows.waited"
PUNT_METER = "FabricIngress.verdict.punt_meter"
GROUP_LOAD = "FabricIngress.adaptive.group_load"
PORT_LOAD = "FabricIngress.adaptive.port_load"
DECISIONS = "FabricIngress.adaptive.decisions"
LINKS_TAKEN = "FabricIngress.adaptive.taken"

SET_NODE = "FabricIngress.node.set_node"
UN = "FabricIngress.usid.un"
UA = "FabricIngress.usid.ua"
NODE_UA = "FabricIngress.usid.node_ua"
TOWARDS = "FabricIngress.valiant.towards"
FORWARD = "FabricIngress.router.forward"
DELIVER = "FabricIngress.router.deliver"
MINIMAL = "FabricIngress.adaptive.minimal"
RANDOM_GROUP = "FabricIngress.adaptive.random_group"
UGAL = "FabricIngress.adaptive.ugal"
UGAL_LOCAL = "FabricIngress.adaptive.ugal_local"
UGAL_GLOBAL = "FabricIngress.adaptive.ugal_global"
READ_DIRECT = "FabricIngress.adaptive.read_direct"
READ_AROUND = "FabricIngress.adaptive.read_around"
ALL_FAR = "FabricIngress.adaptive.far"
ADAPTIVE_TOWARDS = "FabricIngress.adaptive.towards"
BY_PACKET = "FabricIngress.spraypoint.by_packet"
BY_FLOWLET = "FabricIngress.spraypoint.by_flowlet"
HOST = "FabricIngress.spraypoint.host"
SPRAY_TOWARDS = "FabricIngress.spraypoint.towards"
SET_PRIORITY = "FabricIngress.qos.set_priority"
SET_CHANNEL = "FabricIngress.qos.set_channel"
OLDEST_FIRST = "FabricIngress.ranking.oldest_first"
TRIM = "FabricIngress.trimming.trim"
WATCH = "FabricEgress.flows.watch"
STEP = "FabricEgress.ecn.step"
RED = "FabricEgress.ecn.red"
NO_ACTION = "NoAction"

SRC_ADDR = "hdr.ipv6.src_addr"
DST_ADDR = "hdr.ipv6.dst_addr"
FLOW_LABEL = "flow_label"
VIA = "meta.via"
DESTINATION_GROUP = "destination_group"
DESTINATION_NODE = "destination_node"
DESTINATION_SWITCH = "destination_switch"
FROM_HOST = "from_host"
DSCP_FIELD = "hdr.ipv6.dscp"
EGRESS_PORT_FIELD = "std.egress_port"
IN_PORT = "meta.in_port"
EGRESS_SPEC_FIELD = "std.egress_spec"

# Entries that a table takes; members that a selector takes.
TABLE_SIZE = {
    LOCAL_SID: 1024, DETOUR: 1024, CUT_OFF: 4096, ROUTE: 16384, DSCP: 64, CHANNEL: 4096, MODE: 64, HOST_PORTS: 512,
    TOWARDS_GROUP: 1024, SHORTEST_LOAD: 64, DETOUR_LOAD: 64, DISTANCES: 512, SHORTEST_WAY: 512, DETOUR_WAY: 512,
    SENDING_PORTS: 512, OWN_HOSTS: 16, SPRAY: 16, MARKING: 512, WATCHED: 256, TRIM_CLASSES: 64,
}  # fmt: skip
SELECTOR_SIZE = {ROUTE: 16384, DETOUR: 4096, SPRAY: 4096, TOWARDS_GROUP: 4096, SHORTEST_WAY: 4096, DETOUR_WAY: 4096}
MAX_GROUP_SIZE = 64

# headers.p4
CPU_COPY_SESSION = 1
PUNT_REASONS = (3, 6, 7, 10, 13)  # no route, hop limit, SID exhausted, access rule, bad SRH: indices of the punt meter
MAX_WATCHED = TABLE_SIZE[WATCHED]
DELAY_CLASSES, DELAY_SHIFT = 32, 4  # classes of queuing delay of watched flows; the shortest one is below 2^shift ticks
MAX_PASSES = 5  # recirculations for own uSIDs in a row
MAX_QDEPTH = (1 << 19) - 1
MAX_GROUPS = 64  # cells of group_load
MAX_NODES = TABLE_SIZE[DISTANCES]  # switches whose distances ugal_graph.p4 knows
MAX_LINKS = 7  # that a distance there may have
MAX_THRESHOLD = (1 << 16) - 1
PORT_MASK = (1 << 9) - 1
