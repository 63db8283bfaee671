"""Train models on published rows and test them on real ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import CategoricalNB

from disclosure.errors import TableError
from disclosure.rows.tables import Table, encode_alike
from disclosure.typing import Floats, Integers


@dataclass(frozen=True)
class Prediction:
    """The quality of a prediction. accuracy: share predicted right. auc: area under the ROC
    curve, weighted over the values."""

    accuracy: float
    auc: float


def predict_column(train: Table, test: Table, target: str) -> Prediction:
    """Train a naive Bayes of all other columns on `train`, and test it on `test`.

    Give it published rows to train on and real rows that were not used for them to test on; compare
    with the same trained on the original rows. Columns are taken as categories: bin numbers first.

    Raises TableError where the training rows, or the test rows, show one value of the target only.
    """
    codes, tested = encode_alike(train, test)
    index = list(train).index(target)
    y, y_test = codes[:, index], tested[:, index]
    if len(np.unique(y)) < 2 or len(np.unique(y_test)) < 2:
        raise TableError(f"column {target!r} shows one value only: there is nothing to predict")
    X, X_test = np.delete(codes, index, axis=1), np.delete(tested, index, axis=1)
    sizes = np.maximum(X.max(axis=0), X_test.max(axis=0)) + 1
    model = CategoricalNB(min_categories=sizes).fit(X, y)
    scores = np.zeros((len(X_test), int(max(y.max(), y_test.max())) + 1))
    scores[:, model.classes_] = model.predict_proba(X_test)
    right = float((scores.argmax(axis=1) == y_test).mean())
    return Prediction(right, _weighted_auc(y_test, scores))


def _weighted_auc(y: Integers, scores: Floats) -> float:
    """One value against the rest, weighted by how often it occurs among the tested."""
    values, counts = np.unique(y, return_counts=True)
    areas = [roc_auc_score(y == value, scores[:, value]) for value in values]
    return float(np.average(areas, weights=counts))
