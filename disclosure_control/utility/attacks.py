"""Attacks on a published table: how much an attacker learns from it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from disclosure_control.errors import TableError
from disclosure_control.typing import Booleans, Floats
from disclosure_control.utility.tables import Table, encode_alike, number_rows

_MAX_CATEGORIES = 255
_BLOCK = 256


def origin_test(original: Table, published: Table, seed: int) -> float:
    """How well boosted trees tell published rows from original ones, as AUC; .5 is not at all.

    Out of five folds. The thesis uses a naive Bayes, which cannot see that columns were made
    independent of each other, and so reports .5 for tables that trees separate at .59 to .86.
    """
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
    """The share of published rows that may belong to one person, to an attacker who knows all
    other original rows.

    The attacker knows the original rows but one, and strikes each off the published rows once.
    `1 - |known and published| / |published|` as multisets, averaged over the missing person. The
    thesis leaves the rule of matching open; this reading gives .53 where it reports .664.
    """
    known, shown = number_rows(*encode_alike(original, published))
    length = max(int(known.max()), int(shown.max())) + 1
    have = np.bincount(known, minlength=length)
    want = np.bincount(shown, minlength=length)
    lost = have[have <= want].sum() / len(known)  # without the person one match fewer
    return float(1 - (np.minimum(have, want).sum() - lost) / len(shown))


def population_unique_risk(
    population: Sequence[Hashable], sample: Sequence[Hashable]
) -> tuple[float, float]:
    """Probability that a key is unique in the population, and the same for a key that is unique
    in the sample.

    `N_1 / N` and `sum I(f=1, F=1) / sum I(f=1)`, F and f the counts of a key in the population and
    in the sample. The thesis speaks of a person drawn from the population; the second probability
    is of a sample unique. It is 0 where the sample has none.
    """
    if not len(population) or not set(sample) <= set(population):
        raise TableError("the sample has keys that its population has not")
    counts, shown = _count(population), _count(sample)
    uniques = [key for key, number in shown.items() if number == 1]
    given = sum(counts[key] == 1 for key in uniques) / len(uniques) if uniques else 0.0
    return sum(number == 1 for number in counts.values()) / len(population), given


def _count(keys: Sequence[Hashable]) -> dict[Hashable, int]:
    counts: dict[Hashable, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts


def agreement_ratios(agreements: Booleans, m: Floats, u: Floats) -> Floats:
    """Fellegi and Sunter's ratio P(agreements | match) / P(agreements | no match) for each
    pattern of agreement.

    agreements: (..., columns). m, u: (columns,) in (0, 1), the probability that a column agrees for
    a pair that is one person, and for one that is not; columns independent. Returns: (...,).
    """
    logs = np.where(agreements, np.log(m / u), np.log((1 - m) / (1 - u)))
    ratios: Floats = np.exp(logs.sum(axis=-1))
    return ratios


@dataclass(frozen=True)
class Linkage:
    """Shares of the published rows.

    linked: their best original row has a ratio above the upper threshold, and no equal.
    correct: linked, and to the row of the same position. possible: best ratio between thresholds.
    """

    linked: float
    correct: float
    possible: float


def link_records(
    original: Table,
    published: Table,
    *,
    m: Mapping[str, float] | float = 0.9,
    upper: float = 100.0,
    lower: float = 1.0,
) -> Linkage:
    """Link each published row to the original row of the greatest ratio.

    m: probability that a column agrees for one person, by column or for all. u is what chance
    gives: the sum over values of the product of both shares. Time O(rows^2), memory O(rows).
    Row i of both tables must be of one person for `correct` to mean something.
    """
    first, second = encode_alike(original, published)
    names = list(original)
    of_m = np.array([m[name] if isinstance(m, Mapping) else m for name in names], dtype=float)
    if ((of_m <= 0) | (of_m >= 1)).any() or not lower <= upper:
        raise TableError(f"m must lie in (0, 1) and lower <= upper: {of_m}, {lower}, {upper}")
    chance = [_chance(first[:, c], second[:, c]) for c in range(len(names))]
    of_u = np.clip(chance, 1 / (10 * len(first)), 1 - 1e-9)
    linked, correct, possible = 0, 0, 0
    for start in range(0, len(second), _BLOCK):
        block = second[start : start + _BLOCK]
        ratios = agreement_ratios(block[:, None, :] == first[None, :, :], of_m, of_u)
        best = ratios.max(axis=1)
        alone = np.isclose(ratios, best[:, None], rtol=1e-9).sum(axis=1) == 1
        found = (best > upper) & alone
        linked += int(found.sum())
        own = np.arange(start, start + len(block))
        correct += int((found & (ratios.argmax(axis=1) == own)).sum())
        possible += int(((best >= lower) & ~found).sum())
    return Linkage(linked / len(second), correct / len(second), possible / len(second))


def _chance(first: np.ndarray, second: np.ndarray) -> float:
    length = max(int(first.max()), int(second.max())) + 1
    shares = [np.bincount(c, minlength=length) / len(c) for c in (first, second)]
    return float(shares[0] @ shares[1])
