# SPDX-License-Identifier: Apache-2.0
"""Metrics of a running fabric, as records: flows at their receivers, ports and verdicts of switches. `exposition` makes
Prometheus' text of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from detour.control.p4runtime.monitor import PORT_COUNTERS, REASONS, Sample
from detour.control.p4runtime.watching import CLASS_BOUNDS, CLASS_MEANS
from detour.fabric import records
from detour.topo import Topology

_Row = TypeVar("_Row")
_Measure = tuple[str, str, Callable[[_Row], float | None], str]
"""name, kind, value (None: there is none) and what it is"""


@dataclass(frozen=True)
class PortRow:
    """The metrics of a port."""

    switch: str
    port: str
    link: str
    window: records.PortWindow
    counts: records.PortCounts
    state: records.PortState


_FLOW: tuple[_Measure[records.FlowRow], ...] = (
    ("received_packets", "counter", lambda row: row.packets, "data packets that arrived for the first time"),
    ("received_bytes", "counter", lambda row: row.bytes, "payload that arrived for the first time"),
    ("duplicate_packets", "counter", lambda row: row.duplicates, "data packets that arrived again"),
    ("ecn_packets", "counter", lambda row: row.ecn_packets, "data packets that arrived with a mark"),
    ("throughput_bytes_per_second", "gauge", lambda row: row.rate_bps / 8, "payload over the last window"),
    ("usual_throughput_bytes_per_second", "gauge", lambda row: row.usual_bps / 8, "what the flow has otherwise"),
    ("throughput_drop_ratio", "gauge", lambda row: row.drop, "share of the usual throughput that is missing"),
    ("ecn_ratio", "gauge", lambda row: row.ecn_share, "share of marked packets over the last window"),
    ("queuing_delay_seconds", "gauge", lambda row: row.delay_ps / 1e12,
     "mean queuing delay of packets over the last window"),
)  # fmt: skip
_SWITCH_FLOW: tuple[_Measure[records.SwitchFlowTotals], ...] = (
    ("packets", "counter", lambda row: row.packets, "packets of a watched flow that left the switch"),
    ("bytes", "counter", lambda row: row.bytes, "their bytes, headers included"),
    ("ecn_packets", "counter", lambda row: row.ecn_packets, "those that the switch marked"),
    ("throughput_bytes_per_second", "gauge", lambda row: row.rate_bps / 8, "over the last window, headers included"),
    ("usual_throughput_bytes_per_second", "gauge", lambda row: row.usual_bps / 8, "what the flow has otherwise"),
    ("throughput_drop_ratio", "gauge", lambda row: row.drop, "share of the usual throughput that is missing"),
    ("ecn_ratio", "gauge", lambda row: row.ecn_share,
     "share of packets that the switch marked over the last window"),
    ("mean_queuing_delay_seconds", "gauge", lambda row: row.delay_ps / 1e12,
     "mean queuing delay over the last window"),
)  # fmt: skip
_PORT: tuple[_Measure[PortRow], ...] = (
    ("transmitted_packets", "counter", lambda row: row.counts.tx_packets, "packets that left"),
    ("transmitted_bytes", "counter", lambda row: row.counts.tx_bytes, "bytes that left"),
    ("received_packets", "counter", lambda row: row.counts.rx_packets, "packets that came in"),
    ("ecn_packets", "counter", lambda row: row.counts.marked_packets, "packets that were marked on leaving"),
    ("queue_drops", "counter", lambda row: row.state.drops, "packets that found the queue full"),
    ("queue_packets", "gauge", lambda row: row.state.queue_packets, "packets that wait"),
    ("up", "gauge", lambda row: row.state.up, "1 if the link is up"),
    ("throughput_bytes_per_second", "gauge", lambda row: row.window.tx_bps / 8, "what left over the last window"),
    ("ecn_ratio", "gauge", lambda row: row.window.marked_share, "share of marked packets over the last window"),
)


_DELAYS = "detour_switch_flow_queuing_delay_seconds", "queuing delay of packets at the switch"
_VERDICTS = "verdict_packets", "counter", "what became of packets in the pipeline"
_PLACEMENT: tuple[_Measure[records.PlacementTotals], ...] = (
    ("flows", "gauge", lambda placement: placement.flows, "flows of the placement"),
    ("collisions", "gauge", lambda placement: placement.collisions, "pairs of placed flows that share a link"),
    ("lower_bound", "gauge", lambda placement: placement.lower_bound, "pairs that must, whatever the placement"),
    ("without_path", "gauge", lambda placement: placement.without_path, "flows that are cut off"),
)


def flow_metrics(rows: Iterable[records.FlowRow]) -> list[records.FabricMetric]:
    return _metrics("flow", _FLOW, [({"flow": row.name, "path": row.path}, row) for row in rows])


def switch_flow_metrics(rows: Iterable[records.FlowRow], tick_ps: int) -> list[records.FabricMetric]:
    """Metrics of watched flows at switches; queuing delays as a histogram."""
    watched = [({"flow": row.name, "switch": at.switch}, at) for row in rows for at in row.switches]
    if not watched:
        return []
    name, text = _DELAYS
    samples = [_histogram(labels, at.delays, tick_ps / 1e12) for labels, at in watched]
    return [*_metrics("switch_flow", _SWITCH_FLOW, watched), records.FabricMetric(name, "histogram", text, samples)]


def _histogram(labels: dict[str, str], delays: list[int], tick_s: float) -> records.MetricSample:
    """`buckets`: (less or equal, packets), cumulative, an octave each; `sum` in seconds."""
    upto = np.cumsum(delays).tolist()
    # The last class has no upper bound; a delay is a whole number of ticks.
    bounds = [(int(bound) - 1) * tick_s for bound in CLASS_BOUNDS[1:]]
    buckets = [*((f"{bound:.9g}", count) for bound, count in zip(bounds, upto, strict=False)), ("+Inf", upto[-1])]
    total = float(CLASS_MEANS @ np.array(delays)) * tick_s
    return records.MetricSample(labels, buckets=[*buckets[:-1:2], buckets[-1]], sum=total)


def port_counts(sample: Sample, device: int, port: int) -> records.PortCounts:
    """The counters of a port in a sample."""
    counts: dict[str, int] = {}
    for name in PORT_COUNTERS:
        count = sample.port(device, port, name)
        counts |= {f"{name}_packets": count.packets, f"{name}_bytes": count.bytes}
    return records.PortCounts(**counts)


def port_rows(
    topology: Topology,
    windows: Mapping[str, records.PortWindow],
    sample: Sample,
    states: Mapping[tuple[int, int], records.PortState],
) -> list[PortRow]:
    """Every port: its last window by name like `s0:3`, its counters, and what the target says."""
    rows = []
    for name, window in windows.items():
        switch, _, port = name.rpartition(":")
        key = topology.switch(switch).device_id, int(port)
        rows.append(PortRow(switch, port, topology.link(name).name, window, port_counts(sample, *key), states[key]))
    return rows


def verdict_metric(topology: Topology, sample: Sample) -> records.FabricMetric:
    """Return the metric of packets by verdict in the pipelines."""
    rows = [
        ({"switch": switch.name, "verdict": reason}, sample.reason(switch.device_id, i).packets)
        for switch in topology.switches
        for i, reason in enumerate(REASONS)
    ]
    return _metric(*_VERDICTS, rows)


def placement_metrics(placement: records.PlacementTotals) -> list[records.FabricMetric]:
    return _metrics("placement", _PLACEMENT, [({}, placement)])


def port_metrics(rows: Iterable[PortRow]) -> list[records.FabricMetric]:
    return _metrics("port", _PORT, [({"switch": row.switch, "port": row.port, "link": row.link}, row) for row in rows])


def _metric(name: str, kind: str, text: str, samples: Iterable[tuple[dict[str, str], float]]) -> records.FabricMetric:
    rows = [records.MetricSample(labels, float(value)) for labels, value in samples]
    return records.FabricMetric(f"detour_{name}", kind, text, rows)


def _metrics(
    of: str, measures: Iterable[_Measure[_Row]], rows: Sequence[tuple[dict[str, str], _Row]]
) -> list[records.FabricMetric]:
    families = []
    for name, kind, value, text in measures:
        values = [(labels, value(row)) for labels, row in rows]
        families.append(_metric(f"{of}_{name}", kind, text, [(labels, v) for labels, v in values if v is not None]))
    return families
