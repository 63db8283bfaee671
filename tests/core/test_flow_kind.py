"""Metrics of flows: what a file may declare, which question is asked, which symbol a pair has."""

import re

import pytest

from metric_design.flow_kind import FLOW as FLOW_DESIGN
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from tests.flow_support import flow_metric

CITY = {
    "grid": '"quadkey"',
    "box": "[42.0, -72.8, 42.5, -72.4]",
    "rows": None,
    "columns": None,
    "levels": "[11, 13]",
    "bands_km": "[1, 2, 5, 10, 20]",
    "num_cohorts": "160",
    "period": '"month"',
    "spread": "12",
    "no_data": '"no_data"',
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": "5", "columns": "13", "levels": "[0, 1]"}, "260 cells"),
        ({"bands_km": '["1"]'}, "bands_km = ['1'] is not a list of kilometers"),
        ({"num_symbols": None}, "num_symbols is missing"),
        ({"mode": '"window"', "max_reports": "3"}, "window = 0: mode 'window' needs 2 to 1,000"),
        ({"epsilon": "0"}, "epsilon = 0 is not a positive number of nats"),
        ({"epsilon": "0.00001"}, "epsilon = 1e-05 keeps nothing"),
        ({"max_reports_per_period": "2"}, "unknown key max_reports_per_period = 2"),
        ({"platforms": '["web"]'}, "add lives: platforms"),
    ],
)
def test_a_wrong_table_is_refused_by_value(changes: dict[str, str | None], said: str) -> None:
    with pytest.raises(MetricsFileError, match=re.escape(said)) as error:
        flow_metric(**changes)
    assert "metric 'commute'" in str(error.value)


def test_a_definition_with_wrong_keys_is_refused() -> None:
    definition = flow_metric().to_dict()
    for change in ({"more": 1}, {"spread": None}):
        details = {**definition["details"], **change}
        details = {key: value for key, value in details.items() if value is not None}
        with pytest.raises(MetricsFileError, match="a flow has unknown or missing keys"):
            Metric.from_dict({**definition, "details": details})


def test_an_edge_belongs_to_the_band_below() -> None:
    flow = flow_metric().details
    here, north = (flow.cells.index(flow.grid.place(x, 0.5, 1)) for x in (0.5, 1.5))
    meters = flow.meters(here, north)
    for edge, band in ((meters, 1), (meters - 1, 2), (meters + 1, 1)):
        other = flow_metric(bands_km=f"[{edge / 1000}]").details
        assert other.band(here, north) == band


@pytest.mark.parametrize(
    ("grid", "box", "levels"),
    [
        ("geohash", "[42.0, -72.8, 42.5, -72.4]", "[4, 5]"),
        ("quadkey", "[-1.0, 179.5, 1.0, -179.5]", "[7, 9]"),
        ("h3", "[42.0, -72.8, 42.5, -72.4]", "[5, 6]"),
    ],
)
def test_every_cell_has_its_zone_and_its_center(grid: str, box: str, levels: str) -> None:
    changes = {**CITY, "grid": f'"{grid}"', "box": box, "levels": levels}
    flow = flow_metric(**changes).details
    level = flow.grid.finest
    for cell, zone, (north, east) in zip(flow.cells, flow.zone_of, flow.centers, strict=True):
        system = flow.grid.system
        wrapped = (east + 180) % 360 - 180
        assert system.name(system.cell(north, wrapped, level), level) == cell
        parent = system.parent(system.parse(cell)[0], level, flow.grid.levels[0])
        assert flow.zones[zone] == system.name(parent, flow.grid.levels[0])
    assert set(flow.zone_of) == set(range(len(flow.zones)))


@pytest.mark.parametrize("value", ["0-0", "0-0>", ">", "nowhere>0-0", "0-0>0-0>0-0", "", 3, None])
def test_a_non_pair_is_refused_without_its_value(value: object) -> None:
    with pytest.raises(ValueRefusedError) as error:
        flow_metric().value_bits(value, 0)
    assert "nowhere" not in str(error.value)


def test_no_other_noise_goes_with_a_flow() -> None:
    metric = flow_metric()
    memo = TwoRoundMechanism.symbols(8, 3.0, 1.0)
    for change in ({"mechanism": memo}, {"num_cohorts": 15}):
        with pytest.raises(MetricsFileError, match="params"):
            metric.replace(params=metric.params.replace(**change))
    with pytest.raises(ParameterError, match="must add up to 1"):
        metric.params.replace(num_bits=9)
    for change in ({"max_memoized_values": 2}, {"fallback": "0-0"}, {"no_data": None}):
        with pytest.raises(MetricsFileError):
            metric.replace(**change)


def findings(population: int | None, **changes: str | None) -> dict[str, str]:
    metric = flow_metric(**{**CITY, "min_reports": None, "min_reports_per_cohort": None, **changes})
    return {message: level for level, message in FLOW_DESIGN.findings(metric, population)}


def test_check_warns_of_cohorts_that_hold_too_few() -> None:
    never = [m for m, level in findings(10_000).items() if level == "warning"]
    assert any("nothing is served until more devices report; use num_cohorts = 50" in m
               for m in never)  # fmt: skip
    merged = findings(100_000)
    assert any("several months are served as one" in message for message in merged)
    assert not [m for m, level in merged.items() if level == "warning"]
