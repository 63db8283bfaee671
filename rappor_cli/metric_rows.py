"""The tables of `rappor metrics list`: kind, owner, last day and epsilons of each metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric
from rappor_core.risk import PRIOR, belief_text, risk_of

SUSPICION = f"{100 * PRIOR:g} %"
METRICS = (
    *("metric", "kind", "params_id", "state", "accepted", "days served"),
    *(f"{SUSPICION} after one report", "for life", "until", "by whom"),
)
ASSOCIATIONS = (
    *("association", "of", "state", "linked", "days served"),
    *(f"{SUSPICION} after both reports", "for life", "until", "by whom"),
)
SIDES = ("of", "params_ids")
Row = list[str]


def metric_rows(metrics: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Make a table row for each version of a metric that a collector lists."""
    return [
        [
            *(row["name"], row["definition"]["kind"], row["params_id"], row["state"]),
            *(str(row["accepted"]), window_text(row["served"])),
            *map(epsilon_text, _epsilons([row["definition"]])),
            *(row["definition"]["expires"], row["definition"]["owner"]),
        ]
        for row in metrics
    ]


def association_rows(
    associations: Iterable[Mapping[str, Any]], metrics: Iterable[Mapping[str, Any]]
) -> list[Row]:
    """Make a table row for each version of an association, with the sum of both metrics'
    epsilons."""
    known = {(row["name"], row["params_id"]): row["definition"] for row in metrics}
    rows = []
    for row in associations:
        definition = row["definition"]
        both = [known.get(key) for key in zip(*(definition[k] for k in SIDES), strict=True)]
        epsilons = _epsilons([one for one in both if one is not None] if all(both) else [])
        rows.append(
            [
                *(row["name"], " and ".join(definition["of"]), row["state"], str(row["linked"])),
                *(window_text(row["served"]), *map(epsilon_text, epsilons)),
                *(definition["expires"], definition["owner"]),
            ]
        )
    return rows


def window_text(served: Mapping[str, str] | None) -> str:
    """The days of a window that is served."""
    return f"{served['first_day']} to {served['last_day']}" if served else "none yet"


def epsilon_text(epsilon: float) -> str:
    """What a suspicion of `PRIOR` can become by an epsilon in nats; "?" if this program does not
    know it."""
    return "?" if math.isnan(epsilon) else belief_text(epsilon)


def _epsilons(definitions: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Of one report and for life, summed over metrics; NaN for kinds that are not known here."""
    try:
        metrics = [Metric.from_dict(definition) for definition in definitions]
    except (RapporError, KeyError):
        metrics = []
    if not metrics:
        return math.nan, math.nan
    risk = risk_of(*metrics)
    return risk.report, risk.worst
