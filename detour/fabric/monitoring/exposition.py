# SPDX-License-Identifier: Apache-2.0
"""Metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from detour.fabric import records


class _Once(Collector):
    def __init__(self, metrics: Iterable[records.FabricMetric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterable[Any]:
        """Families in the order given."""
        for metric in self._metrics:
            names = sorted({name for sample in metric.samples for name in sample.labels})
            if metric.kind == "histogram":
                yield _histograms(metric, names)
                continue
            family: Any = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            result = family(metric.name, metric.text, labels=names)
            for sample in metric.samples:
                result.add_metric([sample.labels.get(name, "") for name in names], sample.value)
            yield result


def _histograms(metric: records.FabricMetric, names: list[str]) -> HistogramMetricFamily:
    result = HistogramMetricFamily(metric.name, metric.text, labels=names)
    for sample in metric.samples:
        assert sample.buckets is not UNSET
        assert sample.sum is not UNSET
        result.add_metric([sample.labels.get(name, "") for name in names], sample.buckets, sample.sum)
    return result


def text(metrics: Iterable[records.FabricMetric]) -> str:
    """Prometheus' text format, version 0.0.4. Counters get the suffix `_total`."""
    registry = CollectorRegistry()
    registry.register(_Once(metrics))
    return generate_latest(registry).decode()
