"""Attacks on a published table: how much an attacker learns from it."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from disclosure.errors import TableError
from disclosure.rows.tables import Table, encode_alike, number_rows

_MAX_CATEGORIES = 255
_BLOCK = 256
_AGREES = 0.9  # chance that a column agrees for one person
_LINKED = 100.0  # ratio above which rows are linked


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


def link_records(original: Table, published: Table) -> float:
    """The share of published rows that an attacker links to the original row of their position.

    Each is linked to the row of the greatest ratio P(agreements | one person) / P(agreements | by
    chance) (Fellegi and Sunter 1969), above 100 and without equal. Columns are taken as
    independent; they agree for one person with probability .9, by chance with the sum over values
    of the product of both shares. Time O(rows^2), memory O(rows).
    """
    first, second = encode_alike(original, published)
    chance = [_chance(first[:, c], second[:, c]) for c in range(first.shape[1])]
    u = np.clip(chance, 1 / (10 * len(first)), 1 - 1e-9)
    agrees, differs = np.log(_AGREES / u), np.log((1 - _AGREES) / (1 - u))
    correct = 0
    for start in range(0, len(second), _BLOCK):
        block = second[start : start + _BLOCK]
        logs = np.where(block[:, None, :] == first[None, :, :], agrees, differs).sum(axis=-1)
        best = logs.max(axis=1)
        alone = np.isclose(logs, best[:, None], rtol=0, atol=1e-9).sum(axis=1) == 1
        own = logs.argmax(axis=1) == np.arange(start, start + len(block))
        correct += int((own & alone & (best > np.log(_LINKED))).sum())
    return correct / len(second)


def _chance(first: np.ndarray, second: np.ndarray) -> float:
    length = max(int(first.max()), int(second.max())) + 1
    shares = [np.bincount(c, minlength=length) / len(c) for c in (first, second)]
    return float(shares[0] @ shares[1])
