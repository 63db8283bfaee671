"""Sentences for the developer on why a value was not recorded. Loaded when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping

from client_sdk.privacy_level import PrivacyLevel
from rappor_core.metrics.metric import Metric

SPENT = "nothing_left"
THIS = {"day": "of today", "week": "of this week", "month": "of this month"}
BLAMED = {
    "trouble": "the state could not be used",
    "mistake": "the call is wrong",
    "fault": "the SDK failed, which is not a mistake of the call",
}
FIXED = {
    "late": "the time of the fix lies in a period that is over",
    "ahead": "the time of the fix lies more than a day ahead of this device's clock",
    "elsewhere": "it is declared for other platforms than this one (see `platforms`)",
    "stopped": "the collector collects it no more, or not today: see `inspect`",
    "nothing_left": "what the ledger allows on this device is used up, for good",
    "busy": "another process or thread held the state for longer than 50 ms",
    "state_changed": "another process replaced or wiped the secret; the state was read again",
}


def sentence(
    reason: str,
    metrics: Mapping[str, Metric],
    level: PrivacyLevel | None = None,
    detail: str = "",
    budget: float | None = None,
) -> str:
    """The reason of a refusal in one sentence, in which no value stands.

    reason: as `inspect` counts it, such as `full:homepage`.  metrics: the declared ones, by name.
    level: the person's, where it is known.  detail: of a mistake, what was wrong.
    budget: nats over all metrics as it holds on the device, where that is known.
    """
    outcome, _, rest = reason.partition(":")
    name, _, more = rest.partition(":")
    if outcome == "not_recorded":
        return f"nothing is recorded: {FIXED.get(rest, f'the status is {rest!r}')}"
    if outcome in BLAMED:
        return f"{BLAMED[outcome]}: {detail or rest}"
    metric = metrics.get(name)
    if outcome == "full":
        return f"{name} has {_limit(metric, level)}"
    if outcome == "expired":
        when = "" if metric is None else f" on {metric.expires}"
        return f"{name} expired{when}; a later version of the metrics file may extend it"
    if outcome == "closed":
        spent = "" if metric is None or budget is None else _spent(metric, level, budget)
        return f"{name} is closed on this device: {_closed(more)}{spent if more == SPENT else ''}"
    return f"{name}: {FIXED.get(outcome, outcome)}"


def _limit(metric: Metric | None, level: PrivacyLevel | None) -> str:
    """What reports it has, as far as the definition tells."""
    if metric is None:
        return "all the reports that its period or its life may have"
    if metric.location is not None and metric.spaced:
        block = "of this block of" if metric.location.turn == "fresh" else "within"
        return f"its one report {block} {metric.location.window:,} {metric.period}s"
    most: float = metric.max_reports_per_period
    if level is not None:
        most = min(most, level.max_reports_per_period)
    number = "one report" if most == 1 else f"{int(most):,} reports"
    text = f"its {number} {THIS[metric.period]}"
    if metric.max_reports is not None:
        text += f", or the {metric.max_reports:,} of its life"
    return text


def _spent(metric: Metric, level: PrivacyLevel | None, budget: float) -> str:
    """The cap and the budget, one of which has no room for the metric, and the way out."""
    cap: float = metric.max_permanent_responses
    if level is not None:
        cap = min(cap, level.max_values)
    return (
        f"; its cap is {cap:g} values at epsilon {metric.params.epsilon_infinity:.2f} each, the "
        f"budget of all metrics {budget:g}; a larger one needs set_consent(True, budget=NUMBER)"
    )


def _closed(why: str) -> str:
    promise, _, weaker = why.partition(":")
    if promise == "weaker_than_agreed":
        return f"it first promised less than it does now ({weaker}); declare what it had"
    return FIXED.get(promise, promise or "see the reasons counted under closed:")
