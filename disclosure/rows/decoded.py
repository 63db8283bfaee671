"""Draw several sets of synthetic rows from decoded estimates, which costs no further privacy."""

from __future__ import annotations

import numpy as np

from disclosure.errors import TableError
from disclosure.rows.estimates import DecodedCells, draw_shares
from disclosure.typing import Floats

MOST_VALUES = 100_000_000  # of all sets: rows by columns


def check_size(num_rows: int, num_columns: int, num_sets: int = 1) -> None:
    """Raises TableError for more values than memory is sure to hold."""
    if num_rows * num_columns * num_sets > MOST_VALUES:
        raise TableError(
            f"{num_sets:,} sets of {num_rows:,} rows by {num_columns:,} columns: {MOST_VALUES:,} "
            "values at most; ask for fewer rows (--rows), or fewer sets"
        )


def synthesise_decoded(
    estimates: DecodedCells,
    *,
    num_sets: int = 20,
    num_rows: int | None = None,
    rng: np.random.Generator | None = None,
) -> list[dict[str, list[str]]]:
    """Draw sets of synthetic rows: for each set first the shares, from the uncertainty of the
    estimates, then the rows.

    Args:
        estimates: unbiased, with their covariance.
        num_sets: of which `combine_shares` and its like make one answer; two or more.
        num_rows: of each set; None: as many as there were reports.
        rng: for tests; rows need no secrecy, as the estimates are not secret.

    Raises:
        TableError: fewer than two sets, fewer than one row, or more than 100 million values.
    """
    wanted = estimates.num_reports if num_rows is None else num_rows
    if num_sets < 2 or wanted < 1:
        raise TableError(
            f"{num_sets} sets of {wanted} rows: two sets or more are needed, as one alone cannot "
            "tell how sure it is, and one row or more"
        )
    check_size(wanted, len(estimates.columns), num_sets)
    source = rng or np.random.default_rng()
    shares = draw_shares(estimates, num_sets, source)
    return [_rows(estimates, one, wanted, source) for one in shares]


def _rows(
    estimates: DecodedCells, shares: Floats, wanted: int, rng: np.random.Generator
) -> dict[str, list[str]]:
    drawn = rng.multinomial(wanted, shares / shares.sum())
    order = rng.permutation(np.repeat(np.arange(len(drawn)), drawn)).tolist()
    columns = zip(*estimates.cells, strict=True)
    return {
        name: [values[cell] for cell in order]
        for name, values in zip(estimates.columns, columns, strict=True)
    }
