"""A mode of places that the product does not know goes from the file to a map, once registered."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, time
from pathlib import Path

import pytest

from client_sdk.location.assignment import assignment_of
from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.ledger import Promise
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.memory import MemoryState
from decoder.density import modes as plans
from decoder.density.maps import estimate_density
from decoder.density.modes import Mode, register_plans
from metric_design.map_findings import map_findings
from rappor_core.calendar import day_of
from rappor_core.errors import MetricsFileError, ParameterError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics import location_modes
from rappor_core.metrics.file import MetricsFile, parse_metrics
from rappor_core.metrics.location import Location
from rappor_core.metrics.location_modes import PlaceMode, mode_named, register_mode
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.sequence_risk import sequence_risk
from tests.architecture.trees import nodes_of
from tests.collector.support import TODAY, served_after_a_day

PLACE_MODE = re.compile(r"\b(location|place)\.mode\b")
DEVICES = 1_200
POINTS = [(1.0, 1.0), (1.0, 3.0), (3.0, 1.0)]
SHARES = [0.5, 0.3, 0.2]
DECLARED = """
[metrics.density]
kind = "location"
description = "The usual place of one part of the day"
owner = "maps@example.org"
expires = 2099-06-30
grid = "square"
box = [0, 0, 4, 4]
rows = 2
columns = 2
levels = [0]
slots = ["early 0-12", "late 12-24"]
mode = "shift"
encoding = "one_hot"
epsilon = 3.0
max_reports = 5
min_reports = 10
min_reports_per_cohort = 1
"""


class Shift(PlaceMode):
    """A fresh report in every period, always of the same slot."""

    name = "shift"

    def every(self, location: Location) -> int:
        return len(location.slots)

    def most_reports_in(self, location: Location, periods: int) -> int:
        return periods


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> MetricsFile:
    """The declared metric, with its mode registered for one test."""
    monkeypatch.setattr(location_modes, "_MODES", dict(location_modes._MODES))
    monkeypatch.setattr(plans, "_PLANS", dict(plans._PLANS))
    register_mode(Shift())
    return parse_metrics(DECLARED)


def test_a_metric_file_holds_the_new_mode(file: MetricsFile) -> None:
    assert {part.location.mode for part in file.parts("density") if part.location} == {"shift"}
    with pytest.raises(MetricsFileError, match="max_memoized_values = 3 has no use: mode 'shift'"):
        parse_metrics(DECLARED + "max_memoized_values = 3\n")
    with pytest.raises(MetricsFileError, match="window = 7"):
        parse_metrics(DECLARED + "window = 7\n")
    with pytest.raises(MetricsFileError, match="mode = 'shifty' is not one of memo, window"):
        parse_metrics(DECLARED.replace('"shift"', '"shifty"'))


def test_the_new_mode_works_device_to_map(file: MetricsFile, tmp_path: Path) -> None:
    """Seeds are fixed; the bounds are five standard errors, as the map states them."""
    rng = random.Random(5)
    of_slot: dict[str, list[int]] = {"early": [], "late": []}
    reports = []
    for _ in range(DEVICES):
        state = MemoryState(rng.randbytes(32))
        recorder = Recorder(file.metrics, state, randomness=rng.randbytes)
        places = LocationRecorder(file, state, recorder, lambda: 0.0)
        duty = assignment_of(state.identity().secret or b"", file.parts("density"))
        ((slot, name),) = duty.due(day_of(TODAY))
        (cell,) = rng.choices(range(3), SHARES)
        for hour in (6, 18):
            at = datetime.combine(TODAY, time(hour), UTC)
            places.fix("density", *POINTS[cell], at)
        places.roll(datetime.combine(TODAY, time(23, 59), UTC).timestamp() + 120)
        (report,) = state.take_reports()
        assert report.metric == name
        of_slot[slot].append(cell)
        reports.append(report)
    for slot, cells in of_slot.items():
        metric = file.metrics[f"density/{slot}/0"]
        own = [report for report in reports if report.metric == metric.name]
        (tmp_path / slot).mkdir()
        found = estimate_density([served_after_a_day(tmp_path / slot, metric, own)])
        rows = zip(found.cells, found.estimate, found.std_error, strict=True)
        told = {cell: (estimate, error) for cell, estimate, error in rows}
        for number, point in enumerate(POINTS):
            estimate, error = told[cell_name(metric, point)]
            assert abs(estimate - cells.count(number) / len(cells)) < 5 * error


def cell_name(metric: Metric, point: tuple[float, float]) -> str:
    assert metric.location
    grid = metric.location.grid
    cell = grid.locate(*point)
    assert cell is not None
    return grid.system.name(cell, grid.finest)


def test_what_is_said_of_it_is_its_own(file: MetricsFile) -> None:
    metric = file.metrics["density/early/0"]
    risk = sequence_risk(metric)
    assert (risk.bounded, risk.block) == (True, 0.0)
    assert risk.epsilon == metric.lifetime_epsilon == pytest.approx(15, rel=1e-3)
    assert Promise.of(metric).reports_per_day == 1
    location = metric.location
    assert location
    assert (location.num_turns, location.most_reports_in(30)) == (2, 30)


def test_a_mode_offers_ways_to_spend_budgets(file: MetricsFile) -> None:
    def shifts(budget: float, periods: int, cohorts: int, no_data: bool) -> Iterator[Mode]:
        one = TwoRoundMechanism.one_shot(budget / periods)
        yield Mode("shift", 'mode = "shift"', RapporParams(16, 1, cohorts, one))

    register_plans("shift", shifts)
    found = [one.message for one in map_findings(file, 100_000, TODAY, periods=4)]
    assert len(found) == 1
    assert ", shift 0." in found[0]


def test_a_mode_is_registered_once(file: MetricsFile) -> None:
    with pytest.raises(ParameterError, match="mode 'shift' is registered already"):
        register_mode(Shift())
    assert mode_named("shift").every is not None


@pytest.mark.parametrize(
    "package",
    ["rappor_core", "client_sdk", "collector", "decoder", "metric_design", "rappor_cli"],
)
def test_no_part_asks_for_modes_by_name(package: str) -> None:
    root = Path(__file__).parents[2]
    assert not [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in (root / package).rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Compare | ast.Subscript) and PLACE_MODE.search(ast.unparse(node))
    ]
