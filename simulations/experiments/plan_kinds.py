"""Are the errors true that `rappor plan` predicts of numbers, maps, flows and discovery?

Each metric is planned, its counts are drawn as devices of such a metric make them, and the real
decoder decodes them. What is predicted is what `rappor metrics check` says, of the shape of data
that the plan names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from scipy.fft import idctn

from decoder.density.cells import places_of
from decoder.density.field_prior import field_weights
from decoder.density.maps import estimate_density
from decoder.density.predicted_error import REFERENCE_STRENGTH
from decoder.discovery.discovery import (
    NEARLY_ALL,
    DiscoverOptions,
    FoundString,
    discover,
    named_shares,
)
from decoder.flows.decoding import decode_flows
from decoder.flows.detection import FOUND_OFTEN
from decoder.flows.space import FlowSpace
from decoder.model.noise import BitNoise
from decoder.numbers.decoding import decode_numbers
from decoder.typing import Floats
from metric_design.flow_kind import class_error, least_flow
from metric_design.metric_plan import MetricToPlan, reviewed
from metric_design.number_kind import Z
from metric_design.plan_file import asked_of
from rappor_core.metrics.metric import Metric
from simulations.experiments.discovery import drawn_strings, zipf
from simulations.experiments.plan_lists import SeenCheck
from simulations.flows.city import city_matrix, draw_flows
from simulations.numbers.draws import aggregate_of
from simulations.populations.draws import aggregate_of_metric, draw_aggregate
from simulations.populations.prefix_draws import StringPopulation

PLACED = 5  # flows, or strings, of one share in a window
STRINGS = 1_000  # that are held besides
Seen = Mapping[str, Sequence[float]]  # errors, or 1 and 0 for what was told and was not

_DAY = date(2026, 11, 2)
_LABELS = {"description": "-", "owner": "-", "expires": date(2099, 1, 1)}
_EDGES = {"scale": "linear", "from": 0, "to": 100}
_LOGARITHMIC = {"scale": "log", "from": 1, "to": 1000, "bins": 16}
_SQUARE = {"grid": "square", "box": [0, 0, 8, 8]}


@dataclass(frozen=True)
class KindCase:
    """A metric that is planned. table: of the question.  times: windows a draw, of what is fast."""

    name: str
    table: Mapping[str, Any]
    devices: int
    epsilon: float
    times: int = 1

    def metric(self) -> Metric:
        """The metric that the planner chooses."""
        one = asked_of("planned", _LABELS | dict(self.table), self.devices)
        asked = one.question
        question = MetricToPlan(asked.name, asked.given, None, self.devices, self.epsilon)
        return one.planner.plan(question, reviewed).metric


@dataclass(frozen=True)
class Experiment:
    """How metrics of a kind are tried.

    predicted: of a metric and devices, by quantity.  seen: of one window, by quantity.
    squared: whether a quantity is a standard error.
    """

    predicted: Callable[[Metric, int], Mapping[str, float]]
    seen: Callable[[Metric, int, np.random.Generator], Seen]
    squared: Callable[[str], bool] = lambda quantity: quantity.startswith("standard error")


def kind_cases() -> list[KindCase]:
    """Two settings or more of each kind."""
    mean = {"kind": "number", "ask": "mean", "edges": _EDGES}
    curve = {"kind": "number", "edges": _LOGARITHMIC}
    place = {"kind": "location", **_SQUARE, "levels": [0]}
    flow = {"kind": "flow", **_SQUARE, "levels": [0, 1], "bands_km": [100, 300]}
    return [
        KindCase("mean, mode once", mean, 20_000, 2.0, 20),
        KindCase("mean, mode memo", mean | {"mode": "memo"}, 100_000, 2.0, 20),
        KindCase("curve of 17 edges, mode once", curve, 50_000, 1.0, 20),
        KindCase("curve of 17 edges, mode memo", curve | {"mode": "memo"}, 200_000, 2.0, 20),
        KindCase("map of 169 cells", place | {"rows": 13, "columns": 13}, 10_000, 2.0, 2),
        KindCase("map of 400 cells", place | {"rows": 20, "columns": 20}, 100_000, 1.0, 2),
        KindCase("flows between 36 cells", flow | {"rows": 3, "columns": 3}, 50_000, 2.0),
        KindCase("flows between 64 cells", flow | {"rows": 4, "columns": 4}, 200_000, 1.5),
        KindCase("strings without a list", {"kind": "discover"}, 100_000, 4.0),
        KindCase("strings without a list", {"kind": "discover"}, 300_000, 2.0),
    ]


def check_kind(case: KindCase, draws: int, rng: np.random.Generator) -> Iterator[SeenCheck]:
    """Plan a metric, draw and decode so many windows, and compare each quantity."""
    metric, experiment = case.metric(), _EXPERIMENTS[str(case.table["kind"])]
    name = f"{case.name}, {case.devices:,} devices, epsilon {case.epsilon:g}"
    seen: dict[str, list[float]] = {}
    for one in rng.spawn(draws * case.times):
        for quantity, values in experiment.seen(metric, case.devices, one).items():
            seen.setdefault(quantity, []).extend(values)
    for quantity, predicted in experiment.predicted(metric, case.devices).items():
        drawn = np.array(seen[quantity])
        if experiment.squared(quantity):
            found = float(np.sqrt((drawn**2).mean()))
            error = found / math.sqrt(2 * len(drawn))
        else:
            found, error = float(drawn.mean()), float(drawn.std() / math.sqrt(len(drawn)))
        yield SeenCheck(name, quantity, predicted, found, error, draws * case.times)


def _precision(metric: Metric, devices: int) -> float:
    return asked_of("x", {"kind": metric.kind}, devices).planner.precision(metric, devices)


def _number_predicted(metric: Metric, devices: int) -> Mapping[str, float]:
    what = "the mean" if metric.details.ask == "mean" else "a share of one half"
    return {f"standard error of {what}": _precision(metric, devices) / Z}


def _number_seen(metric: Metric, devices: int, rng: np.random.Generator) -> Seen:
    """Numbers about the middle of the range, in units or in logarithms."""
    number = metric.details
    middle, spread = (50.0, 20.0) if number.ask == "mean" else (math.log(31.0), 1.5)
    values = rng.normal(middle, spread, devices)
    values = np.clip(values, 0, 100) if number.ask == "mean" else np.exp(values)
    counts = aggregate_of(metric, _at_or_above(metric, values), devices, rng)
    found = decode_numbers(counts)
    if number.ask == "mean":
        assert found.mean is not None  # noqa: S101 (of this question)
        return {"standard error of the mean": [found.mean.estimate - float(values.mean())]}
    shares = [(point.estimate, float((values >= point.edge).mean())) for point in found.curve]
    estimate, truth = min(shares, key=lambda pair: abs(pair[1] - 0.5))
    return {"standard error of a share of one half": [estimate - truth]}


def _at_or_above(metric: Metric, values: Floats) -> Floats:
    """Chance that a device answers yes to each question, over the constants of `ask = "mean"`."""
    number = metric.details
    asked = np.array(number.asked)
    if number.ask == "edges":
        return np.asarray([(values >= cut).mean() for cut in asked])
    width = number.edges[1] - number.edges[0]
    jittered = np.isfinite(asked) & (asked != number.edges[-1])
    return np.asarray([
        np.clip((values - cut) / width, 0, 1).mean() if moved else (values >= cut).mean()
        for cut, moved in zip(asked, jittered, strict=True)
    ])  # fmt: skip


def _map_predicted(metric: Metric, devices: int) -> Mapping[str, float]:
    return {"total variation": _precision(metric, devices)}


def _map_seen(metric: Metric, devices: int, rng: np.random.Generator) -> Seen:
    """A map drawn from the prior of the reference map."""
    location = metric.location
    assert location is not None  # noqa: S101 (of this kind)
    places = places_of([location])
    names = list(places.finest)
    truth = np.append(drawn_map(location.grid.rows, rng), 0.0)  # nobody is outside
    drawn, _ = draw_aggregate(names, truth, devices, metric.params, rng)
    counts = aggregate_of_metric(
        metric, np.array(drawn.reports_per_cohort), np.array(drawn.bit_counts), _DAY, _DAY
    )
    found = estimate_density([counts])
    shares = dict(zip(found.cells, found.shares.tolist(), strict=True))
    off = sum(abs(shares[name] - share) for name, share in zip(names, truth, strict=True))
    return {"total variation": [off / 2]}


def drawn_map(side: int, rng: np.random.Generator) -> Floats:
    """Shares of side * side cells, whose logarithms are a field of the prior, (side^2,)."""
    slopes = 2 - 2 * np.cos(np.pi * np.arange(side) / side)
    laplacian = (slopes[:, None] + slopes).ravel()
    modes = np.zeros(side**2)
    modes[1:] = rng.standard_normal(side**2 - 1)
    modes[1:] /= np.sqrt(REFERENCE_STRENGTH * field_weights(laplacian[1:]))
    weights = np.exp(idctn(modes.reshape(side, side), norm="ortho")).ravel()
    return np.asarray(weights / weights.sum())


def _flow_predicted(metric: Metric, devices: int) -> Mapping[str, float]:
    return {
        "standard error of a flow": class_error(metric, "pair", devices),
        "the least flow is detected": FOUND_OFTEN,
    }


def _flow_seen(metric: Metric, devices: int, rng: np.random.Generator) -> Seen:
    """A made-up city, and some flows of the least share where there are next to none."""
    flow, least = metric.details, least_flow(metric, devices)
    matrix = city_matrix(flow, rng)
    between = np.flatnonzero(FlowSpace.of(flow).between_cells)
    placed = between[np.argsort(matrix[between], kind="stable")[: 10 * PLACED]]
    placed = rng.choice(placed, PLACED, replace=False)
    matrix *= 1 - PLACED * least
    matrix[placed] += least
    found = decode_flows(draw_flows(metric, matrix / matrix.sum(), devices, rng))
    return {
        "standard error of a flow": (found.flows.estimate - matrix)[placed].tolist(),
        "the least flow is detected": found.detected[placed].astype(float).tolist(),
    }


def _string_shares(metric: Metric, devices: int) -> tuple[float, float]:
    noise = BitNoise.of(metric.params.mechanism)
    named = named_shares(noise, metric.details, DiscoverOptions(), devices)
    return named.half, named.most


_HALF, _MOST = "a string of half the chance is named", "a string of the least share is named"


def _string_predicted(metric: Metric, devices: int) -> Mapping[str, float]:  # noqa: ARG001
    return {_HALF: 0.5, _MOST: NEARLY_ALL}


def _string_seen(metric: Metric, devices: int, rng: np.random.Generator) -> Seen:
    """Strings of both shares, beside many that are rarer."""
    strings = drawn_strings(2 * PLACED + STRINGS, rng)
    half, most = _string_shares(metric, devices)
    rest = zipf(STRINGS)
    rest = np.minimum(rest * (1 - PLACED * (half + most)), half / 2)
    shares = np.concatenate([np.full(PLACED, half), np.full(PLACED, most), rest])
    left = 1 - shares.sum()
    shares[2 * PLACED :] += left / STRINGS
    counts, _ = StringPopulation.of(metric, strings).draw(shares, devices, rng)
    found = discover(counts).found
    named = [any(_is(row, string.lower()) for row in found) for string in strings[: 2 * PLACED]]
    return {
        _HALF: [float(one) for one in named[:PLACED]],
        _MOST: [float(one) for one in named[PLACED:]],
    }


def _is(row: FoundString, string: str) -> bool:
    """Whether what was found is the string, as far as its code goes."""
    return row.string == string if row.whole else string.startswith(row.string)


_EXPERIMENTS: dict[str, Experiment] = {
    "number": Experiment(_number_predicted, _number_seen),
    "location": Experiment(_map_predicted, _map_seen),
    "flow": Experiment(_flow_predicted, _flow_seen),
    "discover": Experiment(_string_predicted, _string_seen),
}
