"""Attacks on a published table, and measures that compare original and published rows."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from disclosure.errors import TableError
from disclosure.rows.domain import num_rows
from disclosure.rows.utility import (
    column_shares,
    counting_query_error,
    encode_alike,
    hellinger,
    kl_divergence,
    number_rows,
)
from disclosure.typing import Table
from rappor_core.errors import shown

_MAX_CATEGORIES = 255
_BLOCK = 256
_AGREES = 0.9  # the probability that a column agrees for the same person
_LINKED = 100.0  # the likelihood ratio above which rows are linked
_MAX_LINKED_ROWS = 5_000
_MAX_COLUMNS, _MAX_SETS = 6, 30  # for joint distances


def origin_test(original: Table, published: Table, seed: int) -> float:
    """Return the AUC with which boosted trees distinguish published from original rows.

    0.5 means not at all. The AUC is computed with five folds. The thesis uses naive Bayes, which
    cannot detect that columns were made independent, and so reports .5 for tables that trees
    separate at .59 to .86."""
    first, second = encode_alike(original, published)
    X = np.concatenate([first, second])
    y = np.repeat([0, 1], [len(first), len(second)])
    categories = [bool(column.max() < _MAX_CATEGORIES) for column in X.T]
    model = HistGradientBoostingClassifier(categorical_features=categories, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    if min(len(first), len(second)) < folds.get_n_splits():
        raise TableError(f"{len(first)} and {len(second)} rows are too few for five folds")
    scores = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(y, scores))


def missing_person_share(original: Table, published: Table) -> float:
    """Return the share of published rows that may belong to the one person an attacker lacks.

    The attacker knows all other original rows, and removes each from the published rows once: `1 -
    |known and published| / |published|` as multisets, averaged over the missing person. The thesis
    leaves the rule of matching open: by this rule the share is .53, where it reports .664."""
    before, after = number_rows(*encode_alike(original, published))
    length = max(int(before.max()), int(after.max())) + 1
    have = np.bincount(before, minlength=length)
    want = np.bincount(after, minlength=length)
    lost = have[have <= want].sum() / len(before)  # the person's removal costs one match
    return float(1 - (np.minimum(have, want).sum() - lost) / len(after))


def link_records(original: Table, published: Table) -> float:
    """Return the fraction of published rows that an attacker links to their original row.

    Each is linked to the row with the largest ratio P(agreements | one person) / P(agreements | by
    chance) (Fellegi and Sunter 1969), if it is above 100 and unique. Columns are treated as
    independent; they agree for one person with probability .9, by chance with the sum over values
    of the product of both shares. Time O(rows^2), memory O(rows)."""
    first, second = encode_alike(original, published)
    chance = []
    for columns in zip(first.T, second.T, strict=True):
        length = max(int(column.max()) for column in columns) + 1
        first_law, other = (np.bincount(c, minlength=length) / len(c) for c in columns)
        chance.append(float(first_law @ other))
    u = np.clip(chance, 1 / (10 * len(first)), 1 - 1e-9)
    agrees, differs = np.log(_AGREES / u), np.log((1 - _AGREES) / (1 - u))
    correct = 0
    for start in range(0, len(second), _BLOCK):
        block = second[start : start + _BLOCK]
        logs = np.where(block[:, None, :] == first[None, :, :], agrees, differs).sum(axis=-1)
        best = logs.max(axis=1)
        alone = np.isclose(logs, best[:, None], rtol=0, atol=1e-9).sum(axis=1) == 1
        right = logs.argmax(axis=1) == np.arange(start, start + len(block))
        correct += int((right & alone & (best > np.log(_LINKED))).sum())
    return correct / len(second)


@dataclass(frozen=True)
class Measure:
    """One number that compares two tables, with its name and how to read it."""

    name: str  # What is measured
    column: str  # A column, or "all"
    value: float
    reading: str  # How to interpret the value


def compare(
    original: Table,
    published: Table,
    *,
    seed: int,
    numeric: Collection[str] = (),
    floor: float = 0.001,
) -> list[Measure]:
    """Measure the utility of a published table, and what it reveals about people.

    Args:
        original: The original table.
        published: The published table with the same columns. Replace generalized values by leaves
            first (`disclosure.anonymize.specialize_column`).
        seed: The seed of the random queries and folds, which makes the numbers reproducible.
        numeric: The number columns, for which queries are intervals.
        floor: The share of rows that bounds the denominator of a query's error.

    Raises:
        TableError: The columns differ, or there are fewer than five rows.
    """
    unknown = sorted(set(numeric) - set(original))
    if unknown:
        raise TableError(f"{shown(unknown[0])} is not one of the columns {', '.join(original)}")
    return [*_utility(original, published, seed, numeric, floor), *_risk(original, published, seed)]


def _utility(
    original: Table, published: Table, seed: int, numeric: Collection[str], floor: float
) -> list[Measure]:
    encode_alike(original, published)  # rejects tables with other columns
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
    """Measure mean distances of sets of two to six columns; from many sets a sample is drawn."""
    rng, measures = np.random.default_rng(seed), []
    for size in range(2, min(_MAX_COLUMNS, len(original) - 1) + 1):
        sets = list(combinations(original, size))
        if len(sets) > _MAX_SETS:
            sets = [sets[place] for place in rng.choice(len(sets), _MAX_SETS, replace=False)]
        mean = np.mean(
            [
                hellinger(*column_shares(original, published, candidate_set))
                for candidate_set in sets
            ]
        )
        text = f"mean over {len(sets)} sets of {size} columns"
        measures.append(Measure(f"Hellinger of {size} columns", "all", float(mean), text))
    return measures


def _risk(original: Table, published: Table, seed: int) -> list[Measure]:
    before, after = number_rows(*encode_alike(original, published))
    equal = float(np.isin(after, before).mean())
    counts = np.bincount(before)
    unique = float(np.isin(after, np.flatnonzero(counts == 1)).mean())
    measures = [
        Measure("rows equal to an original", "all", equal, "share of the published rows"),
        Measure("rows equal to a unique original", "all", unique, "share of the published rows"),
        Measure("origin test", "all", origin_test(original, published, seed), "AUC; .5 = same"),
        Measure(
            "missing person",
            "all",
            missing_person_share(original, published),
            "share of the published rows that a person could be, for a reader who knows all others",
        ),
    ]
    if num_rows(original) == num_rows(published) <= _MAX_LINKED_ROWS:
        share = link_records(original, published)
        measures.append(Measure("record linkage", "all", share, "share linked to its own row"))
    return measures
