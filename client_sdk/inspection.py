"""The overview of stored and sent data for the device's owner, without any value or secret."""

import json
import math
from collections.abc import Mapping
from typing import Any

from client_sdk.recording.bounds import PrivacyLevel, stored_budget
from client_sdk.recording.ledger import Promise, committed, spent
from client_sdk.storage.damage import reading
from client_sdk.storage.interface import PAUSED, RETIRED, STOP, VISITS, Line
from client_sdk.storage.sqlite import SqliteState
from rappor_core.metrics.metric import Metric
from rappor_core.risk import CERTAIN, belief_text

SAID = {
    RETIRED: "no longer collects it; nothing of it is recorded",
    PAUSED: "has paused it; nothing of it is recorded but one report a day",
}
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
    "nothing_left": "what the ledger allows on this device is used up permanently",
    "busy": "another process or thread held the state for longer than 50 ms",
    "state_changed": "another process replaced or wiped the secret; the state was read again",
}


def inspect_state(state: SqliteState, budget: float | None = None) -> dict[str, Any]:
    """Return the complete overview as plain values for JSON, without waiting for writers.

    `budget` is the current budget in nats if a running client knows it; None reads the stored
    budget. Raises StateError if the state is damaged, or locked as a whole.
    """
    query = "SELECT metric, count(*) FROM queue JOIN sources ON sources.id = source GROUP BY metric"
    with reading(state.path), state.snapshot():
        if budget is None:
            budget = stored_budget(state)
        lines = [_line(state, line) for line in state.lines()]
        return {
            "consent": state.identity().secret is not None,
            "queued": dict(state.rows(query)),
            "in_batches": state.rows("SELECT coalesce(sum(reports), 0) FROM batches")[0][0],
            "counters": state.counters(),
            "metrics": lines,
            "places": _places(state),
            "stopped": _stopped(state),
            "device": _device(lines, budget),
            "earlier_secrets": [
                {
                    "day": day,
                    "reason": reason,
                    "ledger": json.loads(ledger) if ledger[:1] == "{" else ledger,
                }
                for day, reason, ledger in state.rows("SELECT day, reason, ledger FROM tombstones")
            ],
        }


def render(account: dict[str, Any]) -> str:
    """Format the overview from `Client.inspect` as text; if nothing is stored, explain why."""
    if "consent" not in account:
        return str(account["status"]["sentence"])
    lines = [
        f"Consent: {'given' if account['consent'] else 'not given; nothing is recorded'}",
        f"Waiting: {sum(account['queued'].values())} reports queued, "
        f"{account['in_batches']} in batches not yet acknowledged",
        *(f"  {name}: {number}" for name, number in sorted(account["queued"].items())),
        "",
        "What became of reports:",
        *(f"  {name}: {number}" for name, number in sorted(account["counters"].items())),
        "",
        *(line["sentence"] for line in account["metrics"]),
        *(place["sentence"] for place in account["places"]),
        *(stop["sentence"] for stop in account["stopped"]),
        "",
        account["device"]["sentence"],
        *(
            f"An earlier secret ended on day {tombstone['day']} since 1970-01-01 "
            f"({tombstone['reason']}); what it spent comes on top: {tombstone['ledger']}"
            for tombstone in account["earlier_secrets"]
        ),
    ]
    return "\n".join(lines)


def _line(state: SqliteState, line: Line) -> dict[str, Any]:
    promise = Promise.from_json(line.agreed)
    entries = state.entries(line.name)
    reports = line.past_reports + sum(entry.reports for entry in entries)
    so_far, ever = spent(line, entries), committed(line, entries)
    values = line.past_values + len(entries)
    answers = line.past_values + sum(entry.reports > 0 for entry in entries)
    return {
        "metric": line.name,
        "values_memoised": values,
        "max_memoized_values": int(promise.max_memoized_values),
        "reports_made": reports,
        "epsilon_spent": _number(so_far),
        "epsilon_committed": _number(ever),
        "epsilon_worst_case": _number(promise.lifetime_epsilon),
        "sentence": (
            f"{line.name}: reports made: {reports}; different answers: {answers} of at most "
            f"{promise.max_memoized_values:.0f}. {_risk(so_far)}, and at most "
            f"{belief_text(promise.lifetime_epsilon)} sure after everything your device ever sends "
            "about it."
        ),
    }


def _places(state: SqliteState) -> list[dict[str, Any]]:
    rows = state.rows("SELECT name, text FROM notes WHERE name LIKE ? ORDER BY 1", (f"{VISITS}%",))
    return [_places_account(name.removeprefix(VISITS), text) for name, text in rows]


def _places_account(metric: str, text: str) -> dict[str, Any]:
    try:
        saved = json.loads(text)
        present, num_known = len(saved["dwell"]), len(saved.get("known", ()))
        which = "first" if "since" in saved else "last known"
        summary = (
            f"kept for answers to come, and none is sent as it is: places of the time that runs: "
            f"{present}; {which} ones: {num_known}"
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        present, num_known, summary = None, None, "what is kept of places cannot be read"
    return {
        "metric": metric,
        "places_of_period": present,
        "last_known_places": num_known,
        "sentence": f"{metric}: {summary}.",
    }


def _stopped(state: SqliteState) -> list[dict[str, Any]]:
    """Return the metrics that the collector has stopped, each with an explanation."""
    rows = state.rows("SELECT name FROM meta WHERE name LIKE ? ORDER BY 1", (f"{STOP}%",))
    names = [name.removeprefix(STOP) for (name,) in rows]
    return [
        {
            "metric": name,
            "reason": stop.reason,
            "sentence": f"{name}: the collector {SAID[stop.reason]}.",
        }
        for name in names
        if (stop := state.stop(name)) is not None
    ]


def _device(lines: list[dict[str, Any]], budget: float | None) -> dict[str, Any]:
    so_far, ever = (
        sum(math.inf if line[name] is None else line[name] for line in lines)
        for name in ("epsilon_spent", "epsilon_committed")
    )
    bound = "whether a bound over all metrics is declared is not known: no client has opened it yet"
    if budget is not None:
        bound = f"of {budget:g} allowed"
        if math.isinf(budget):
            bound = "no bound over all metrics is declared"
    return {
        "epsilon_spent": _number(so_far),
        "epsilon_committed": _number(ever),
        "budget": None if budget is None else _number(budget),
        "sentence": f"This device, all metrics together: {_risk(so_far)} ({bound}).",
    }


def _risk(epsilon: float) -> str:
    return f"{CERTAIN} {belief_text(epsilon)} sure after what was sent so far"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def sentence(
    reason: str,
    metrics: Mapping[str, Metric],
    level: PrivacyLevel | None = None,
    detail: str = "",
    budget: float | None = None,
) -> str:
    """Explain a refusal in a sentence that contains no value.

    Args:
        reason: The reason as `inspect` counts it, such as `full:homepage`.
        metrics: The declared metrics, by name.
        level: The user's privacy level, if known.
        detail: The mistake in the call.
        budget: The device's budget for all metrics together in nats, if known.
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
    """Describe the maximum number of reports for a metric, if its definition states one."""
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
