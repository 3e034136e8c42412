# SPDX-License-Identifier: Apache-2.0
"""Names of metrics: by Prometheus' conventions, all of them in docs/monitoring.md, and what the dashboard asks for is
there."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from detour.fabric.monitoring import metrics
from detour.fabric.records import FlowRow, PlacementTotals, PortCounts, PortState, PortWindow, SwitchFlowTotals

DOCS = Path(__file__).parents[3] / "docs"
DASHBOARD = json.loads((DOCS / "grafana" / "detour.json").read_text())
_UNITS = {
    "_bytes_per_second": "bytes a second", "_seconds": "seconds", "_bytes": "bytes", "_packets": "packets",
    "_drops": "packets", "_ratio": "0 to 1", "_up": "0 or 1", "_flows": "flows", "_path": "flows",
    "_collisions": "pairs of flows", "_bound": "pairs of flows",
}  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """A metric as Prometheus has it. `labels`: what tells its series apart."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def unit(self) -> str:
        """As the name says it."""
        name = self.name.removesuffix("_total")
        return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "1")


def catalogue() -> list[Exported]:
    """All that can be exported, by the names that queries use."""
    groups: tuple[tuple[str, Sequence[tuple[str, str, Any, str]], tuple[str, ...]], ...] = (
        ("flow", metrics._FLOW, ("flow", "path")),
        ("port", metrics._PORT, ("switch", "port", "link")),
        ("switch_flow", metrics._SWITCH_FLOW, ("flow", "switch")),
        ("placement", metrics._PLACEMENT, ()),
    )
    exports = [
        _exported(f"{of}_{name}", kind, text, labels) for of, rows, labels in groups for name, kind, _, text in rows
    ]
    exports.append(Exported(metrics._DELAYS[0], "histogram", metrics._DELAYS[1], ("flow", "switch")))
    return [*exports, _exported(*metrics._VERDICTS, ("switch", "verdict"))]


def _exported(name: str, kind: str, text: str, labels: tuple[str, ...]) -> Exported:
    return Exported(f"detour_{name}{'_total' if kind == 'counter' else ''}", kind, text, labels)


NAMES = {metric.name: metric for metric in catalogue()}


def exported() -> list[Any]:
    """Families of one of everything, as Prometheus reads them."""
    window = {"rate_bps": 1.0, "usual_bps": 1.0, "drop": 0.0, "ecn_share": 0.0, "delay_ps": 1.0}
    at = SwitchFlowTotals(
        switch="s0", packets=1, bytes=1, ecn_packets=0, delays=[0] * len(metrics.CLASS_MEANS), **window
    )
    flow = FlowRow(
        name="h0-h1", packets=1, bytes=1, duplicates=0, ecn_packets=0, path="p", placed=False, switches=[at], **window
    )
    port = metrics.PortRow(
        "s0", "1", "s0-h0", PortWindow(1.0, 0, 0.0, 0), PortCounts(*[1] * 8), PortState(True, 0, 0, 0)
    )
    lines = metrics.flow_metrics([flow]) + metrics.switch_flow_metrics([flow], 1000) + metrics.port_metrics([port])
    lines.append(metrics._metric(*metrics._VERDICTS, [({"switch": "s0", "verdict": "forwarded"}, 1)]))
    lines += metrics.placement_metrics(PlacementTotals(1, 0, 0, 0, None))
    return list(text_string_to_metric_families(metrics.text(lines)))


def test_the_catalogue_is_what_is_exported() -> None:
    families = {}
    for family in exported():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        families[name] = family.type, labels, family.documentation
    assert families == {each.name: (each.kind, set(each.labels), each.text) for each in catalogue()}


@pytest.mark.parametrize("metric", catalogue(), ids=lambda metric: metric.name)
def test_conventions(metric: Exported) -> None:
    assert re.fullmatch("detour(_[a-z]+)+", metric.name)
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    assert not re.search("_(bps|ms|us|ns|percent|count|sum)(_|$)", metric.name)
    assert metric.unit != "1"


def test_all_of_them_are_in_the_document() -> None:
    rows = re.findall(r"^\| `(detour_\w+)` \| (\w+) \| ([^|]+) \|", (DOCS / "monitoring.md").read_text(), re.MULTILINE)
    assert rows == [(each.name, each.kind, each.unit) for each in catalogue()]


def _queries() -> list[str]:
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return queries + [variable["definition"] for variable in DASHBOARD["templating"]["list"]]


@pytest.mark.parametrize("query", _queries())
def test_the_dashboard_asks_for_what_there_is(query: str) -> None:
    asked = re.findall(r"(detour_\w+)(?:\{([^}]*)\})?", query)
    assert asked
    for name, selectors in asked:
        histogram = NAMES.get(name.removesuffix("_bucket"))
        metric = histogram if name.endswith("_bucket") else NAMES.get(name)
        assert metric is not None, name
        assert (metric.kind == "histogram") == name.endswith("_bucket")
        assert set(re.findall(r"(\w+)(?:=~|!=|=)", selectors)) <= set(metric.labels)
        counted = f"rate({name}" in query.replace(" ", "")
        if not query.startswith("count(") and "label_values" not in query:
            assert counted == (metric.kind in ("counter", "histogram")), "counters are shown as rates, gauges are not"


def test_the_dashboard_shows_what_grafana_can_load() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        legends = " ".join(target["legendFormat"] for target in panel["targets"])
        assert set(re.findall(r"\{\{(\w+)\}\}", legends)) <= {"link", "switch", "port", "flow", "verdict"}


def test_the_compose_file_and_what_it_mounts() -> None:
    folder = DOCS / "grafana"
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    for service in services.values():
        for volume in service["volumes"]:
            assert (folder / volume.split(":")[0]).exists()
    (source,) = yaml.safe_load((folder / "provisioning" / "datasources" / "prometheus.yaml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {source["uid"]}
    (provider,) = yaml.safe_load((folder / "provisioning" / "dashboards" / "detour.yaml").read_text())["providers"]
    assert any(
        volume.split(":")[1].startswith(provider["options"]["path"]) for volume in services["grafana"]["volumes"]
    )
    (job,) = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:9464"]}]
