"""Metrics of flows: what a file may declare, which question is asked, which symbol a pair has."""

import math
import re

import pytest

from metric_design.flow_kind import FLOW as FLOW_DESIGN
from metric_design.flow_kind import band_variance, class_variance
from rappor_core.aggregate import Aggregate
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.compiled import compiled_text, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.flow import (
    Flow,
)
from rappor_core.metrics.metric import Metric
from rappor_core.sequence_risk import sequence_risk
from tests.flow_support import LAGGED, YEARLY, flow_metric, flow_text

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


def test_file_and_compiled_form_say_the_same() -> None:
    text = flow_text(**CITY)
    file = parse_metrics(text)
    metric, flow = file.metrics["commute"], file.metrics["commute"].details
    assert isinstance(flow, Flow)
    assert (len(flow.cells), len(flow.zones), metric.params.num_bits) == (170, 20, 8)
    assert all(c.startswith(flow.zones[z]) for c, z in zip(flow.cells, flow.zone_of, strict=True))
    assert (metric.max_reports, metric.no_data, metric.fallback) == (1, "no_data", "other")
    assert read_compiled(compiled_text(file)) == file
    assert Metric.from_dict(metric.to_dict()) == metric
    rows, counts = (0,) * 160, ((0,) * 8,) * 160
    whole = Aggregate(
        "commute", metric.params, rows, counts, metric.params_id, definition=metric.to_dict()
    )
    assert Aggregate.from_json(whole.to_json()) == whole


@pytest.mark.parametrize(
    "changes",
    [
        {"bands_km": "[120, 301]"},
        {"spread": "2"},
        {"from_": '"night 21-6"'},
        {"period": '"week"'},
        {"max_gap_minutes": "61"},
        {"box": "[0, 0, 4, 5]"},
        {"epsilon": "2.1"},
        YEARLY,
        LAGGED,
    ],
)
def test_what_changes_an_answer_changes_the_params_id(changes: dict[str, str]) -> None:
    assert flow_metric(**changes).params_id != flow_metric().params_id


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


def test_bands_are_by_upper_edge_in_whole_meters() -> None:
    flow = flow_metric().details
    north = flow.cells.index(flow.grid.place(1.5, 0.5, 1))
    here = flow.cells.index(flow.grid.place(0.5, 0.5, 1))
    meters = flow.meters(here, north)
    assert meters == round(6_371_000 * math.radians(1)) == flow.meters(north, here)
    assert flow.band(here, here) == 0
    assert flow.band(here, 16) == flow.band(17, 17) == 4
    for edge, band in ((meters, 1), (meters - 1, 2), (meters + 1, 1)):
        other = flow_metric(bands_km=f"[{edge / 1000}]").details
        assert other.band(here, north) == band
    far = flow.cells.index(flow.grid.place(3.5, 3.5, 1))
    assert flow.band(here, far) == 3


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


def test_the_epsilon_is_that_of_the_rounded_chances() -> None:
    metric = flow_metric()
    mechanism = metric.params.mechanism
    assert mechanism.p2 + 7 * mechanism.q2 == 1 << 16
    real = math.log(mechanism.p2 / mechanism.q2)
    assert metric.lifetime_epsilon == pytest.approx(real, rel=1e-12)
    assert 2.0 - 1e-3 < real <= 2.0
    assert flow_metric(**YEARLY).lifetime_epsilon == pytest.approx(2 * metric.lifetime_epsilon)
    for one in (metric, flow_metric(**YEARLY)):
        risk = sequence_risk(one)
        assert (risk.epsilon, risk.bounded, risk.shown) == (one.lifetime_epsilon, True, "")


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


@pytest.mark.parametrize(
    ("epsilon", "best", "variance"), [(2.0, 8, 0.72), (3.0, 21, 0.22), (4.0, 56, 0.076)]
)
def test_variances_are_those_of_the_design(epsilon: float, best: int, variance: float) -> None:
    """The table of docs/planning.md: one answer, by number of symbols; the best is e^eps + 1."""

    def of(symbols: int) -> float:
        kept = math.exp(epsilon) / (math.exp(epsilon) + symbols - 1)
        return class_variance(symbols, kept)

    assert of(best) == pytest.approx(variance, rel=0.02)
    assert of(best) <= min(of(best - 1), of(best + 1), of(2 * best), of(best // 2)) + 1e-9


def test_an_empty_band_has_the_lies_variance() -> None:
    kept = 0.5135
    lie = (1 - kept) / 7
    assert band_variance(8, kept, 0.0) == pytest.approx(lie * (1 - lie) / (kept - lie) ** 2)


def findings(population: int | None, **changes: str | None) -> dict[str, str]:
    metric = flow_metric(**{**CITY, "min_reports": None, "min_reports_per_cohort": None, **changes})
    return {message: level for level, message in FLOW_DESIGN.findings(metric, population)}


def test_check_warns_of_cohorts_that_hold_too_few() -> None:
    never = [m for m, level in findings(10_000).items() if level == "warning"]
    assert any("nothing is served before more devices report; use num_cohorts = 50" in m
               for m in never)  # fmt: skip
    merged = findings(100_000)
    assert any("several months are served as one" in message for message in merged)
    assert not [m for m, level in merged.items() if level == "warning"]


def test_the_dictionary_says_what_is_asked() -> None:
    question, answers = flow_metric(**CITY).rules.described(flow_metric(**CITY))
    assert "in the hours night 22-6, and in the hours work 9-17" in question
    assert answers == ()
    lagged = flow_metric(**LAGGED)
    assert "2 days later in the same hours" in lagged.rules.described(lagged)[0]
    names = lagged.rules.names(lagged.to_dict())
    assert len(names) == lagged.num_values == 18 * 18
    assert names[17] == f"{lagged.details.cells[0]}>no_data"
