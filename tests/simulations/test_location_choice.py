"""The mode that `metrics check --modes` names, against other cities and other draws."""

from collections.abc import Sequence

import numpy as np
import pytest

from decoder.places import Places, places_of
from rappor_core.metrics_file import MetricsFile, parse_metrics
from simulations.location_choice import (
    admitted,
    city,
    compare_modes,
    flat_error,
    map_error,
    mapped_periods,
    mode_findings,
)
from simulations.location_ways import ways

TEXT = """budget = 20
[metrics.a]
kind = "location"
description = "The usual cell of a month"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [42.0, -72.8, 42.5, -72.2]
rows = {side}
columns = {side}
levels = [0]
period = "month"
"""


def declared(side: int, keys: str) -> MetricsFile:
    return parse_metrics(TEXT.format(side=side) + keys)


def square(side: int) -> Places:
    (metric,) = declared(side, ways(4.0, 12)[6].keys).declared
    return places_of([metric.location] if metric.location else [])


def regret(places: Places, devices: int, periods: int, budget: float, fresh: int) -> float:
    """Error of the mode that is named, by the least of all modes, on other cities."""
    named = compare_modes(places, devices, periods, budget, 64, np.random.default_rng(0))[0]
    rng = np.random.default_rng(1_000)
    others: Sequence[np.ndarray] = [city(places, rng) for _ in range(fresh)]
    errors = {
        one.mode: one.error
        for one in compare_modes(places, devices, periods, budget, 64, rng, cities=others)
    }
    return errors[named.mode] / min(errors.values())


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("devices", "periods", "budget"), [(20_000, 30, 4.0), (200_000, 2, 4.0)])
def test_the_mode_that_is_named_is_best_within_a_tenth(
    devices: int, periods: int, budget: float
) -> None:
    assert regret(square(10), devices, periods, budget, 8) <= 1.1


def test_what_a_cap_admits() -> None:
    rng = np.random.default_rng(0)
    assert admitted(31, 30, rng) == 1.0
    assert admitted(2, 1, rng) == 1.0
    two, three, four = (admitted(cap, 30, rng) for cap in (2, 3, 4))
    assert 0.3 < two < three < four < 0.9


def test_a_better_mode_is_named_and_a_worthless_one_warned_of() -> None:
    """In a window of a year 20,000 devices send 55 reports a day, memoised ones all of them."""
    window = 'mode = "window"\nwindow = 365\nmax_reports = 1\nnum_bits = 32\nnum_cohorts = 64\n'
    file = declared(8, window + "epsilon = 2.0\n")
    assert mapped_periods(file.declared[0]) == 365
    (found,) = mode_findings(file, 20_000, np.random.default_rng(0), 1)
    assert found.level == "warning"
    assert "365 maps from 20,000 devices and 2.00 nats" in found.message
    assert 'declare mode = "memo"' in found.message
    assert not list(mode_findings(declared(8, ways(4.0, 12)[6].keys), 20_000, None, 1))  # type: ignore[arg-type]
    (many,) = mode_findings(declared(40, ways(4.0, 12)[4].keys), 20_000, None, 1)  # type: ignore[arg-type]
    assert (many.level, "1,600 cells take minutes" in many.message) == ("note", True)


def test_a_map_of_many_reports_is_near_and_of_few_is_flat() -> None:
    places, rng = square(8), np.random.default_rng(0)
    shares = city(places, rng)
    assert shares.sum() == pytest.approx(1)
    params = ways(4.0, 12)[6].metric(12, "day").params
    far, near = (map_error(places, shares, n, params, 1.0, rng) for n in (50, 1_000_000))
    assert near < 0.05 < 0.3 < far + 0.15
    assert far < 1.5 * flat_error([shares])
