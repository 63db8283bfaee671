"""What this device holds and has told, for the person whose device it is. No value, no secret."""

from __future__ import annotations

import json
import math
from typing import Any

from client_sdk.damage import reading
from client_sdk.ledger import Promise, committed, spent
from client_sdk.sqlite_state import SqliteState
from client_sdk.state import Line


def inspect_state(state: SqliteState, budget: float | None = None) -> dict[str, Any]:
    """The whole account in plain values, for JSON. budget: nats, of the metrics file if known.

    No writer is waited for. Raises StateError for a state that is damaged, or locked as a whole.
    """
    with reading(state.path), state.snapshot():
        lines = [_line(state, line) for line in state.lines()]
        counters = state.counters()
        return {
            "consent": state.identity().secret is not None,
            "queued": _queued(state),
            "in_batches": state.rows("SELECT coalesce(sum(reports), 0) FROM batches")[0][0],
            "counters": counters,
            "metrics": lines,
            "device": _device(lines, budget),
            "earlier_secrets": [
                {"day": day, "reason": reason, "ledger": _ledger(ledger)}
                for day, reason, ledger in state.rows("SELECT day, reason, ledger FROM tombstones")
            ],
        }


def render(account: dict[str, Any]) -> str:
    """The account as text."""
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
        "",
        account["device"]["sentence"],
    ]
    for tombstone in account["earlier_secrets"]:
        lines.append(
            f"An earlier secret ended on day {tombstone['day']} since 1970-01-01 "
            f"({tombstone['reason']}); what it spent comes on top: {tombstone['ledger']}"
        )
    return "\n".join(lines)


def _line(state: SqliteState, line: Line) -> dict[str, Any]:
    promise = Promise.from_json(line.agreed)
    entries = state.entries(line.name)
    reports = line.past_reports + sum(entry.reports for entry in entries)
    so_far, ever = spent(line, entries), committed(line, entries)
    values = line.past_values + len(entries)
    return {
        "metric": line.name,
        "values_memoised": values,
        "max_memoized_values": int(promise.max_memoized_values),
        "reports_made": reports,
        "epsilon_spent": _number(so_far),
        "epsilon_committed": _number(ever),
        "epsilon_worst_case": _number(promise.lifetime_epsilon),
        "sentence": (
            f"{line.name}: {reports} reports were made, about {values} of at most "
            f"{promise.max_memoized_values:.0f} answers. {_odds(so_far)} "
            f"However long this goes on, it stays at or below {_epsilon(promise.lifetime_epsilon)}."
        ),
    }


def _device(lines: list[dict[str, Any]], budget: float | None) -> dict[str, Any]:
    so_far, ever = _total(lines, "epsilon_spent"), _total(lines, "epsilon_committed")
    bound = "no bound over all metrics is declared" if budget is None else f"of {budget:g} allowed"
    return {
        "epsilon_spent": _number(so_far),
        "epsilon_committed": _number(ever),
        "budget": budget,
        "sentence": f"This device, all metrics together: {_odds(so_far)} ({bound}.)",
    }


def _total(lines: list[dict[str, Any]], name: str) -> float:
    return sum(math.inf if line[name] is None else line[name] for line in lines)


def _odds(epsilon: float) -> str:
    """What an epsilon means for a person, in one sentence (the likelihood ratio it bounds)."""
    return (
        "Whoever saw them all could change the odds between any two answers by a factor of at "
        f"most {math.exp(min(epsilon, 700)):.3g} ({_epsilon(epsilon)})."
    )


def _epsilon(epsilon: float) -> str:
    return f"epsilon {epsilon:.2f}" if math.isfinite(epsilon) else "no bound"


def _number(value: float) -> float | None:
    """For JSON, which has no infinity."""
    return value if math.isfinite(value) else None


def _queued(state: SqliteState) -> dict[str, int]:
    return dict(
        state.rows(
            "SELECT metric, count(*) FROM queue JOIN sources ON sources.id = source GROUP BY metric"
        )
    )


def _ledger(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text
