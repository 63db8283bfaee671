"""Several sets of synthetic rows from decoded estimates, and combined analyses of them.

Each set is analyzed like a sample of real rows, with an estimate q and its variance u. For m sets
that were drawn independently (all rows synthetic), Raghunathan, Reiter and Rubin (2003) derive the
variance T = (1 + 1/m) b - u_mean of the mean of q, b the variance between sets, with (m - 1) (1 -
u_mean / ((1 + 1/m) b))^2 degrees of freedom. A single set has b = 0 and does not show the
uncertainty of the decoding."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from disclosure.errors import TableError
from disclosure.rows.domain import num_rows
from disclosure.rows.estimates import DecodedCells, draw_shares
from disclosure.typing import Floats, Table

MAX_VALUES = 100_000_000  # the maximum number of rows times columns of all sets


def check_size(num_rows: int, num_columns: int, num_sets: int = 1) -> None:
    """Raise TableError for more values than are certain to fit in memory."""
    if num_rows * num_columns * num_sets > MAX_VALUES:
        raise TableError(
            f"{num_sets:,} sets of {num_rows:,} rows by {num_columns:,} columns exceed "
            f"{MAX_VALUES:,} values; ask for fewer rows (--rows), or fewer sets"
        )


def synthesize_decoded(
    estimates: DecodedCells,
    *,
    num_sets: int = 20,
    num_rows: int | None = None,
    rng: np.random.Generator | None = None,
) -> list[dict[str, list[str]]]:
    """Draw sets of synthetic rows; each set first draws shares within their uncertainty.

    Args:
        estimates: Unbiased estimates with their covariance.
        num_sets: The number of sets, two or more, which functions like `combine_shares` combine.
        num_rows: The number of rows of each set; None for the number of reports.
        rng: A generator for tests; rows need no secrecy, since the estimates are not secret.

    Raises:
        TableError: There are fewer than two sets, less than one row, or more than 100 million
            values.
    """
    size = estimates.num_reports if num_rows is None else num_rows
    if num_sets < 2 or size < 1:
        raise TableError(
            f"{num_sets} sets of {size} rows: use two sets or more, since one alone shows no "
            "uncertainty, and one row or more"
        )
    check_size(size, len(estimates.columns), num_sets)
    source = rng or np.random.default_rng()
    shares = draw_shares(estimates, num_sets, source)
    return [_rows(estimates, share, size, source) for share in shares]


def _rows(
    estimates: DecodedCells, shares: Floats, size: int, rng: np.random.Generator
) -> dict[str, list[str]]:
    drawn = rng.multinomial(size, shares / shares.sum())
    order = rng.permutation(np.repeat(np.arange(len(drawn)), drawn)).tolist()
    columns = zip(*estimates.cells, strict=True)
    return {
        name: [values[cell] for cell in order]
        for name, values in zip(estimates.columns, columns, strict=True)
    }


@dataclass(frozen=True)
class Combined:
    """An estimate from several synthetic sets, with error, interval and degrees of freedom."""

    estimate: float
    std_error: float
    low: float
    high: float
    freedom: float


def combine(
    estimates: Floats,
    variances: Floats,
    *,
    rows_by_report: float,
    level: float = 0.95,
) -> Combined:
    """Combine the analyses of m sets.

    Args:
        estimates: The estimate of each set, (m,), as for a plain sample of its rows.
        variances: Their variances, (m,).
        rows_by_report: The rows of a set per decoded report. A decoding has no more information
            than its reports, so the variance is at least that of the reports, `u_mean
            rows_by_report`, even if b is below u_mean by chance.
        level: The level of the interval.

    Raises:
        TableError: There are fewer than two sets, lengths differ, or numbers are out of range.
    """
    m = len(estimates)
    if m < 2 or len(variances) != m:
        raise TableError(f"{m} estimates and {len(variances)} variances: two sets or more needed")
    if not (0 < level < 1 and rows_by_report > 0 and (np.asarray(variances) >= 0).all()):
        raise TableError(f"level {level}, rows_by_report {rows_by_report}, or a variance below 0")
    between, within = float(np.var(estimates, ddof=1)), float(np.mean(variances))
    least = within * rows_by_report
    total = max(between - within, least) + between / m
    mean = float(np.mean(estimates))
    if total == 0:
        return Combined(mean, 0.0, mean, mean, float("inf"))
    freedom = (m - 1) * (total / ((1 + 1 / m) * between)) ** 2 if between > 0 else float("inf")
    freedom = max(freedom, 1.0)
    reach = float(stdtrit(min(freedom, 1e6), 0.5 + level / 2)) * total**0.5
    return Combined(mean, total**0.5, mean - reach, mean + reach, freedom)


def combine_shares(
    sets: Sequence[Table],
    where: Mapping[str, Collection[str]],
    num_reports: int,
    level: float = 0.95,
) -> Combined:
    """Return the share of rows with the given values, combined over several sets.

    Args:
        sets: Synthetic rows, by column.
        where: By column, the values that count; a row must match in all named columns.
        num_reports: The number of reports that the sets were decoded from.
        level: The level of the interval, which is clipped to [0, 1].

    Raises:
        TableError: A column is missing, or `combine` rejects the sets.
    """
    shares, rows = [], []
    for candidate_set in sets:
        missing = sorted(set(where) - set(candidate_set))
        if missing:
            raise TableError(f"columns {missing} are not in the rows")
        inside = np.ones(num_rows(candidate_set), dtype=bool)
        for name, values in where.items():
            values_in = frozenset(values)
            inside &= np.array([value in values_in for value in candidate_set[name]], dtype=bool)
        shares.append(float(inside.mean()))
        rows.append(len(inside))
    q, n = np.array(shares), np.array(rows, dtype=float)
    joint = combine(q, q * (1 - q) / n, rows_by_report=float(n.mean()) / num_reports, level=level)
    low, high = max(joint.low, 0.0), min(joint.high, 1.0)
    return Combined(joint.estimate, joint.std_error, low, high, joint.freedom)
