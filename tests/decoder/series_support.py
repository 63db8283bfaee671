"""Series of windows drawn from people on a small grid, as aggregates of a location metric."""

from datetime import date, timedelta

import numpy as np

from decoder.density.cells import Places, places_of
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.location import reserved_values
from rappor_core.metrics.metric import Metric
from tests.map_draws import draw_memo, draw_window, square_metric

MONTHS = 'period = "month"\nnum_cohorts = 64\n'
WINDOW = 'mode = "window"\nwindow = 12\nmax_reports = 2\nnum_bits = 32\nepsilon = 4.0\n'
SYMBOLS = ('mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\n'
           "epsilon_infinity = 8.0\nepsilon_one = 4.0\n")  # fmt: skip
FIRST = date(2024, 1, 1)


def declared(keys: str, side: int = 12) -> tuple[Metric, Places]:
    metric = square_metric(side, MONTHS + keys)
    return metric, places_of([metric.location], reserved_values(metric.no_data))


def hills(places: Places) -> np.ndarray:
    """Two quarters; about half of the cells are empty. Shares of the cells, (n,)."""
    at = np.array([[int(part) for part in cell.split("-")[1:]] for cell in places.shown_cells])
    side = at.max() + 1
    near = [np.exp(-((at / side - c) ** 2).sum(axis=1) / 0.02) for c in ((0.3, 0.3), (0.7, 0.6))]
    shares = np.where(sum(near) > 0.05, sum(near), 0.0)
    return np.asarray(shares / shares.sum())


def people(
    places: Places,
    num_people: int,
    others: np.ndarray,
    rng: np.random.Generator,
    missing: np.ndarray | None = None,
) -> np.ndarray:
    """Values (num_people, T): two in five are elsewhere in a window, a share of `other` outside.

    missing: shares of `no_data`, (T,), of all; those of `others` are of the rest.
    """
    size, shape = len(places.shown_cells), (num_people, len(others))
    shares = hills(places)
    values = np.repeat(rng.choice(size, (num_people, 1), p=shares), len(others), axis=1)
    away = rng.random(shape) < 0.4
    values[away] = rng.choice(size, int(away.sum()), p=shares)
    values[rng.random(shape) < others] = size
    if missing is not None:
        values[rng.random(shape) < missing] = size + 1
    return values


def truths(values: np.ndarray, places: Places) -> np.ndarray:
    """True shares (T, n) of each window."""
    size = len(places.finest)
    return np.stack([np.bincount(one, minlength=size) / len(one) for one in values.T])


def windows_of(
    metric: Metric, places: Places, values: np.ndarray, rng: np.random.Generator
) -> list[list[Aggregate]]:
    """What a collector holds of each month, one after the other."""
    names = list(places.finest)
    if metric.location is not None and metric.location.mode == "memo":
        counts = draw_memo(values, names, metric.params, rng)
    else:
        counts = draw_window(values, names, metric.params, 1, rng)
    ends = [month_end(number) for number in range(values.shape[1])]
    return [
        [counts.aggregate(metric, slice(number, number + 1), end, end)]
        for number, end in enumerate(ends)
    ]


def month_end(number: int) -> date:
    """The last day of month `number` from the first."""
    first = month_start(number + 1)
    return first - timedelta(days=1)


def month_start(number: int) -> date:
    """The first day of month `number` from the first."""
    return FIRST.replace(year=FIRST.year + number // 12, month=number % 12 + 1)


def cell_distance(one: np.ndarray, other: np.ndarray, reserved: int = 1) -> float:
    """Total variation over the cells, among those in one; the reserved values are the last."""
    cells = [shares[: len(shares) - reserved] for shares in (one, other)]
    return float(np.abs(cells[0] / cells[0].sum() - cells[1] / cells[1].sum()).sum() / 2)
