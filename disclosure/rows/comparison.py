"""One table of measures for a pair of original and published rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations

import numpy as np

from disclosure.rows.attacks import link_records, missing_person_share, origin_test
from disclosure.rows.distributions import column_shares, hellinger, kl_divergence
from disclosure.rows.queries import counting_query_error
from disclosure.rows.tables import Table, encode_alike, num_rows, number_rows

_MAX_LINKED_ROWS = 5_000
_MOST_COLUMNS, _MOST_SETS = 6, 30  # of joint distances


@dataclass(frozen=True)
class Measure:
    """One measured figure. name: what is measured. column: of one column, or "all". value.
    reading: what it says."""

    name: str
    column: str
    value: float
    reading: str


def compare(
    original: Table,
    published: Table,
    *,
    seed: int,
    numeric: Collection[str] = (),
    floor: float = 0.001,
) -> list[Measure]:
    """Measure what a published table keeps of the original one, and what it tells of persons.

    Args:
        original, published: the same columns. Generalised values are first spread over their leaves
            (`disclosure.anonymize.specialise`).
        seed: of the random queries and folds; the same gives the same figures.
        numeric: columns of numbers, for which queries are intervals.
        floor: share of rows that bounds the denominator of the error of a query.

    Raises:
        TableError: other columns, no rows, fewer than five.
    """
    return [*_utility(original, published, seed, numeric, floor), *_risk(original, published, seed)]


def _utility(
    original: Table, published: Table, seed: int, numeric: Collection[str], floor: float
) -> list[Measure]:
    encode_alike(original, published)  # refuses tables with other columns
    measures = []
    for name in original:
        p, q = column_shares(original, published, [name])
        measures.append(Measure("Hellinger", name, hellinger(p, q), "0 = same shares, 1 = apart"))
        text = "nats; infinite if a value is lost"
        measures.append(Measure("KL divergence", name, kl_divergence(p, q), text))
    joint = hellinger(*column_shares(original, published, list(original)))
    measures.append(Measure("Hellinger", "all", joint, "0 = same rows, 1 = none in common"))
    measures += _joint_distances(original, published, seed)
    error = counting_query_error(
        original,
        published,
        np.random.default_rng(seed),
        numeric=numeric,
        num_columns=min(2, len(original)),
        floor=floor,
    )
    text = f"mean relative error, denominator at least {floor:g} of the rows"
    return [*measures, Measure("counting queries", "all", error, text)]


def _joint_distances(original: Table, published: Table, seed: int) -> list[Measure]:
    """Mean distance of sets of two to six columns; of many sets some are drawn."""
    rng, found = np.random.default_rng(seed), []
    for size in range(2, min(_MOST_COLUMNS, len(original) - 1) + 1):
        sets = list(combinations(original, size))
        if len(sets) > _MOST_SETS:
            sets = [sets[place] for place in rng.choice(len(sets), _MOST_SETS, replace=False)]
        mean = np.mean([hellinger(*column_shares(original, published, one)) for one in sets])
        text = f"mean over {len(sets)} sets of {size} columns"
        found.append(Measure(f"Hellinger of {size} columns", "all", float(mean), text))
    return found


def _risk(original: Table, published: Table, seed: int) -> list[Measure]:
    known, shown = number_rows(*encode_alike(original, published))
    equal = float(np.isin(shown, known).mean())
    counts = np.bincount(known)
    unique = float(np.isin(shown, np.flatnonzero(counts == 1)).mean())
    measures = [
        Measure("rows equal to an original", "all", equal, "share of the published rows"),
        Measure("rows equal to a unique original", "all", unique, "share of the published rows"),
        Measure("origin test", "all", origin_test(original, published, seed), "AUC; .5 = same"),
        Measure(
            "missing person",
            "all",
            missing_person_share(original, published),
            "share of the published rows that a person could be, to who knows all others",
        ),
    ]
    if num_rows(original) == num_rows(published) <= _MAX_LINKED_ROWS:
        found = link_records(original, published)
        measures.append(Measure("record linkage", "all", found, "share linked to its own row"))
    return measures


def to_csv(measures: Sequence[Measure]) -> str:
    """The measures as CSV with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["measure", "column", "value", "reading"])
    writer.writerows(astuple(measure) for measure in measures)
    return text.getvalue()
