# SPDX-License-Identifier: Apache-2.0
"""What a running fabric exports in Prometheus' text format: flows at their receivers, ports and verdicts of switches.

Metrics are plain dictionaries, `{"name", "kind", "text", "samples": [{"labels", "value"}]}` (a histogram has `buckets`
and `sum` in place of `value`), until somebody wants text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from detour.control.p4runtime.monitor import PORT_COUNTERS, REASONS, Sample
from detour.control.p4runtime.watching import CLASS_BOUNDS, CLASS_MEANS
from detour.fabric.footings.base import PortState
from detour.topo import Topology

Metric = dict[str, Any]

_FLOW = (
    ("flow_received_packets", "counter", "packets", "data packets that arrived for the first time"),
    ("flow_received_bytes", "counter", "bytes", "payload that arrived for the first time"),
    ("flow_duplicate_packets", "counter", "duplicates", "data packets that arrived again"),
    ("flow_ecn_packets", "counter", "ecn_packets", "data packets that arrived with a mark"),
    ("flow_throughput_bps", "gauge", "rate_bps", "payload in bits a second over the last window"),
    ("flow_usual_throughput_bps", "gauge", "usual_bps", "what the flow has otherwise"),
    ("flow_throughput_drop_ratio", "gauge", "drop", "share of the usual throughput that is missing"),
    ("flow_ecn_ratio", "gauge", "ecn_share", "share of marked packets over the last window"),
    ("flow_queuing_delay_seconds", "gauge", "delay_s", "mean queuing delay of packets over the last window"),
)
_SWITCH_FLOW = (
    ("switch_flow_packets", "counter", "packets", "packets of a watched flow that left the switch"),
    ("switch_flow_bytes", "counter", "bytes", "their bytes, headers included"),
    ("switch_flow_ecn_packets", "counter", "ecn_packets", "those that the switch marked"),
    ("switch_flow_throughput_bps", "gauge", "rate_bps", "bits a second over the last window"),
    ("switch_flow_usual_throughput_bps", "gauge", "usual_bps", "what the flow has otherwise"),
    ("switch_flow_throughput_drop_ratio", "gauge", "drop", "share of the usual throughput that is missing"),
    ("switch_flow_ecn_ratio", "gauge", "ecn_share", "share of packets that the switch marked over the last window"),
    ("switch_flow_mean_queuing_delay_seconds", "gauge", "delay_s", "mean queuing delay over the last window"),
)
_PORT = (
    ("port_transmitted_packets", "counter", "tx_packets", "packets that left"),
    ("port_transmitted_bytes", "counter", "tx_bytes", "bytes that left"),
    ("port_received_packets", "counter", "rx_packets", "packets that came in"),
    ("port_ecn_packets", "counter", "marked_packets", "packets that were marked on leaving"),
    ("port_queue_drops", "counter", "drops", "packets that found the queue full"),
    ("port_queue_packets", "gauge", "queue_packets", "packets that wait"),
    ("port_up", "gauge", "up", "1 if the link is up"),
    ("port_throughput_bps", "gauge", "tx_bps", "bits a second over the last window"),
    ("port_ecn_ratio", "gauge", "marked_share", "share of marked packets over the last window"),
)


def flow_metrics(rows: Iterable[Mapping[str, Any]]) -> list[Metric]:
    """Metrics of flows, from the rows of `live.LiveFlows.rows`."""
    rows = [{**row, "delay_s": row["delay_ps"] / 1e12} for row in rows]
    return _metrics(_FLOW, [({"flow": row["name"], "path": row["path"]}, row) for row in rows])


def switch_flow_metrics(rows: Iterable[Mapping[str, Any]], tick_ps: int) -> list[Metric]:
    """Metrics of watched flows at switches, from the rows of `Session.flows`; queuing delays as a histogram."""
    found: list[tuple[Mapping[str, str], Mapping[str, Any]]] = [
        ({"flow": row["name"], "switch": at["switch"]}, {**at, "delay_s": at["delay_ps"] / 1e12})
        for row in rows
        for at in row["switches"]
    ]
    if not found:
        return []
    text, name = "queuing delay of packets", "detour_switch_flow_queuing_delay_seconds"
    samples = [{"labels": labels, **_histogram(values["delays"], tick_ps / 1e12)} for labels, values in found]
    delays = {"name": name, "kind": "histogram", "text": text, "samples": samples}
    return [*_metrics(_SWITCH_FLOW, found), delays]


def _histogram(delays: list[int], tick_s: float) -> dict[str, Any]:
    """`buckets`: (less or equal, packets), cumulative, an octave each; `sum` in seconds."""
    upto = np.cumsum(delays).tolist()
    # The last class has no upper bound; a delay is a whole number of ticks.
    bounds = [(int(bound) - 1) * tick_s for bound in CLASS_BOUNDS[1:]]
    buckets = [*([f"{bound:.9g}", count] for bound, count in zip(bounds, upto, strict=False)), ["+Inf", upto[-1]]]
    return {"buckets": [*buckets[:-1:2], buckets[-1]], "sum": float(CLASS_MEANS @ np.array(delays)) * tick_s}


def port_rows(
    topology: Topology,
    windows: Mapping[str, Mapping[str, float]],
    sample: Sample,
    states: Mapping[tuple[int, int], PortState],
) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """(labels, values) of every port: its last window by name like `s0:3`, counters, and what the target says."""
    rows = []
    for name, window in windows.items():
        switch, _, number = name.partition(":")
        key = topology.switch(switch).device_id, int(number)
        counts = {f"{c}_{u}": getattr(sample.port(*key, c), u) for c in PORT_COUNTERS for u in ("packets", "bytes")}
        state = states[key]
        now = {"drops": state.drops, "queue_packets": state.queue_packets, "up": state.up}
        rows.append(({"switch": switch, "port": number, "link": topology.link(name).name}, {**window, **counts, **now}))
    return rows


def verdict_metric(topology: Topology, sample: Sample) -> Metric:
    """What became of packets in the pipelines."""
    rows = [
        ({"switch": switch.name, "verdict": reason}, sample.reason(switch.device_id, i).packets)
        for switch in topology.switches
        for i, reason in enumerate(REASONS)
    ]
    return metric("verdict_packets", "counter", "what became of packets in the pipeline", rows)


def placement_metrics(report: Mapping[str, Any]) -> list[Metric]:
    """The placement, from `steering.Steering.report`."""
    described = (
        ("flows", "flows of the placement"),
        ("collisions", "pairs of placed flows that share a link"),
        ("lower_bound", "what no placement can beat"),
        ("without_path", "flows that are cut off"),
    )
    return [metric(f"placement_{key}", "gauge", text, [({}, report[key])]) for key, text in described]


def port_metrics(rows: Iterable[tuple[Mapping[str, str], Mapping[str, Any]]]) -> list[Metric]:
    """Metrics of ports, from (labels, values); a value that is missing or None is left out."""
    return _metrics(_PORT, list(rows))


def metric(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Metric:
    """One metric, without the prefix `detour_`; `kind`: `counter` or `gauge`."""
    rows = [{"labels": dict(labels), "value": float(value)} for labels, value in samples]
    return {"name": f"detour_{name}", "kind": kind, "text": text, "samples": rows}


def _metrics(
    described: Iterable[tuple[str, str, str, str]], rows: list[tuple[Mapping[str, str], Mapping[str, Any]]]
) -> list[Metric]:
    return [
        metric(name, kind, text, [(labels, row[key]) for labels, row in rows if row.get(key) is not None])
        for name, kind, key, text in described
    ]


class _Once(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Any]:
        """Families in the order given."""
        for found in self._metrics:
            names = sorted({name for sample in found["samples"] for name in sample["labels"]})
            if found["kind"] == "histogram":
                yield _histograms(found, names)
                continue
            family: Any = CounterMetricFamily if found["kind"] == "counter" else GaugeMetricFamily
            result = family(found["name"], found["text"], labels=names)
            for sample in found["samples"]:
                result.add_metric([sample["labels"].get(name, "") for name in names], sample["value"])
            yield result


def _histograms(found: Metric, names: list[str]) -> HistogramMetricFamily:
    result = HistogramMetricFamily(found["name"], found["text"], labels=names)
    for sample in found["samples"]:
        labels = [sample["labels"].get(name, "") for name in names]
        result.add_metric(labels, [tuple(bucket) for bucket in sample["buckets"]], sample["sum"])
    return result


def text(metrics: Iterable[Metric]) -> str:
    """Prometheus' text format, version 0.0.4. Counters get the suffix `_total`."""
    registry = CollectorRegistry()
    registry.register(_Once(metrics))
    return generate_latest(registry).decode()
