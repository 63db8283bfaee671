"""The checks without chance: `tests.client.enumeration` for the metrics under audit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privacy_audit.black_box.checks import Check, all_of, exact
from rappor_core.metrics.metric import Metric
from tests.client.enumerated_kinds import enumerate_kinds
from tests.client.enumeration import (
    TOLERANCE,
    Enumerated,
    enumerate_epsilons,
    exact_chances,
    exact_symbol_chances,
    sampled_mechanisms,
)
from tests.client.exact_laws import TooManyDrawsError


def exact_checks(metrics: list[Metric]) -> Iterator[Check]:
    """Yield the checks that enumerate every outcome of the SDK's two rounds, without sampling."""
    for metric in metrics:
        params = metric.params
        if params.scheme.symbols:
            wrong = exact_symbol_chances(params)
        else:
            found = exact_chances(params.mechanism)
            wrong = f"p1, q1, p2, q2 = {found}" if isinstance(found, tuple) else ""
        yield exact(
            metric.base_name,
            "both rounds toss exactly the declared coins",
            "rounds",
            wrong,
            all_of("any chance that is off by 2^-16"),
        )
    off = [m for m in sampled_mechanisms(40, np.random.default_rng()) if exact_chances(m) is not m]
    yield exact(
        "", "coins at thresholds drawn from all there are", "rounds",
        f"{off[0]} is tossed as {exact_chances(off[0])}" if off else "",
        all_of("any chance that is off by 2^-16"),
    )  # fmt: skip
    yield exact(
        "", "epsilon of small filters, all draws of both rounds enumerated", "rounds",
        _wrong_epsilon(enumerate_epsilons()), all_of("any epsilon that is off by 1e-12"),
    )  # fmt: skip
    yield exact(
        "", "epsilon of small numbers, pairs, and coded prefixes, enumerated",
        "rounds", _wrong_epsilon(enumerate_kinds()), all_of("any epsilon that is off by 1e-12"),
    )  # fmt: skip


def _wrong_epsilon(every: Iterator[Enumerated]) -> str:
    """What contradicts the formulas, or ""."""
    try:
        worst = max(every, key=lambda one: one.error)
    except TooManyDrawsError as error:
        return str(error)
    if worst.error <= TOLERANCE:
        return ""
    return (
        f"{worst.text}, {worst.reports} reports: {worst.found:.6f}, by formula {worst.declared:.6f}"
    )
