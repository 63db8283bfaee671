"""The tables of `rappor metrics list`: kind, owner, last day and epsilons of each metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric
from rappor_core.risk import PRIOR, belief_text, risk_of

SUSPICION = f"{100 * PRIOR:g} %"
METRICS = (
    *("metric", "kind", "params_id", "state", "accepted", "days served"),
    *(f"{SUSPICION} after one report", "for life", "until", "by whom"),
)
Row = list[str]


def metric_rows(metrics: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Make a table row for each version of a metric that a collector lists."""
    return [
        [
            *(row["name"], row["definition"]["kind"], row["params_id"], row["state"]),
            *(str(row["accepted"]), window_text(row["served"])),
            *map(epsilon_text, _epsilons(row["definition"])),
            *(row["definition"]["expires"], row["definition"]["owner"]),
        ]
        for row in metrics
    ]


def window_text(served: Mapping[str, str] | None) -> str:
    """The days of a window that is served."""
    return f"{served['first_day']} to {served['last_day']}" if served else "none yet"


def epsilon_text(epsilon: float) -> str:
    """What a suspicion of `PRIOR` can become by an epsilon in nats; "?" if this program does not
    know it."""
    return "?" if math.isnan(epsilon) else belief_text(epsilon)


def _epsilons(definition: Mapping[str, Any]) -> tuple[float, float]:
    """What one report and a life cost; NaN for a kind that is not known here."""
    try:
        risk = risk_of(Metric.from_dict(definition))
    except (RapporError, KeyError):
        return math.nan, math.nan
    return risk.report, risk.worst
