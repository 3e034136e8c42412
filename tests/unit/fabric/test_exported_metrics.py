# SPDX-License-Identifier: Apache-2.0
"""Names of metrics: by Prometheus' conventions, all of them in docs/monitoring.md, and what the dashboard asks for is
there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from detour.fabric.monitoring import exposition, metrics
from detour.fabric.records import FlowRow, PlacementTotals, PortCounts, PortState, PortWindow, SwitchFlowTotals

DOCS = Path(__file__).parents[3] / "docs"
DASHBOARD = json.loads((DOCS / "grafana" / "detour.json").read_text())
_UNITS = {
    "_bytes_per_second": "bytes a second", "_seconds": "seconds", "_bytes": "bytes", "_packets": "packets",
    "_drops": "packets", "_ratio": "0 to 1", "_up": "0 or 1", "_flows": "flows", "_path": "flows",
    "_collisions": "pairs of flows", "_bound": "pairs of flows",
}  # fmt: skip


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
    return list(text_string_to_metric_families(exposition.text(lines)))


METRICS = {f"{each.name}_total" if each.type == "counter" else each.name: each for each in exported()}


def _unit(name: str) -> str:
    """As the name says it."""
    return next(unit for end, unit in _UNITS.items() if name.removesuffix("_total").endswith(end))


@pytest.mark.parametrize("name", METRICS)
def test_conventions(name: str) -> None:
    assert re.fullmatch("detour(_[a-z]+)+", name)
    assert not re.search("_(bps|ms|us|ns|percent|count|sum)(_|$)", name)
    assert _unit(name)


def test_all_of_them_are_in_the_document() -> None:
    rows = re.findall(r"^\| `(detour_\w+)` \| (\w+) \| ([^|]+) \|", (DOCS / "monitoring.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((name, each.type, _unit(name)) for name, each in METRICS.items())


def _queries() -> list[str]:
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return queries + [variable["definition"] for variable in DASHBOARD["templating"]["list"]]


@pytest.mark.parametrize("query", _queries())
def test_the_dashboard_asks_for_what_there_is(query: str) -> None:
    asked = re.findall(r"(detour_\w+)(?:\{([^}]*)\})?", query)
    assert asked
    for name, selectors in asked:
        metric = METRICS[name.removesuffix("_bucket")]
        assert (metric.type == "histogram") == name.endswith("_bucket")
        assert set(re.findall(r"(\w+)(?:=~|!=|=)", selectors)) <= {
            key for each in metric.samples for key in each.labels
        }
        counted = f"rate({name}" in query.replace(" ", "")
        if not query.startswith("count(") and "label_values" not in query:
            assert counted == (metric.type in ("counter", "histogram")), "counters are shown as rates, gauges are not"


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
