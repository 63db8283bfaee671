"""What an audit found, for a file and for a reader: JSON, and a page that needs no network."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from decoder.planning.risk import belief, risk_sentence
from privacy_audit.audit import AuditResult
from privacy_audit.black_box.checks import Check
from rappor_core.metrics.metric import Metric

VERSION = 1
PRIOR = 0.01  # of the risk in words
DEFAULT_METRICS = Path(__file__).with_name("default_metrics.toml")
BOXES = {
    "encoder": "the mechanism: an encoder opened anew for each report, over wire bytes",
    "device": "a device with its ledger: opened anew for each report over its kept state",
    "installed": "whole installations: files, queue, batches and HTTP, a process for each day",
    "derivations": "what a device derives from its secret: cohort and permanent response",
    "linked": "devices that record two linked metrics, opened anew for each, over wire bytes",
    "rounds": "the two rounds alone, every draw of their randomness enumerated",
}


def to_dict(result: AuditResult, day: date) -> dict[str, Any]:
    """Plain values for JSON; infinities are null.

    Args:
        result: of an audit.
        day: on which it was made.
    """
    options = result.options
    return {
        "version": VERSION,
        "client": result.client,
        "day": day.isoformat(),
        "held": not result.broken,
        "alpha": options.alpha,
        "level_of_each_test": result.level,
        "trials": options.trials,
        "metrics": [_promise(metric) for metric in result.metrics],
        "checks": [_finite(check.to_dict(result.level)) for check in result.checks],
        "notes": list(result.notes),
    }


def page(result: AuditResult, day: date) -> str:
    """The page: verdict, promises, attacks against claims, tests, and what was not audited."""
    environment = Environment(
        loader=PackageLoader("privacy_audit"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"nats": nats, "percent": percent, "count": lambda n: f"{n:,}"}
    return environment.get_template("audit.html.j2").render(
        result=result,
        day=day.isoformat(),
        promises=[_promise(metric) for metric in result.metrics],
        risks=[
            (m.base_name, risk_sentence(m.params.epsilon_one, m.lifetime_epsilon, PRIOR))
            for m in result.metrics
        ],
        attacks=[check for check in result.checks if check.attack is not None],
        others=[check for check in result.checks if check.attack is None],
        boxes={k: v for k, v in BOXES.items() if any(check.box == k for check in result.checks)},
        width=_width,
    )


def nats(value: float | None) -> str:
    """An epsilon with three decimals; a word for one that has no bound."""
    if value is None or math.isinf(value):
        return "no bound"
    return f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share; a dash where there is none."""
    return "-" if value is None else f"{value:.0%}"


def _promise(metric: Metric) -> dict[str, Any]:
    params = metric.params
    return {
        "name": metric.base_name,
        "params_id": metric.params_id,
        "kind": metric.kind,
        "epsilon_one": params.epsilon_one,
        "epsilon_7": params.epsilon_n(7),
        "epsilon_30": params.epsilon_n(30),
        "epsilon_infinity": _number(params.epsilon_infinity),
        "lifetime_epsilon": _number(metric.lifetime_epsilon),
        "belief_after_one_report": belief(PRIOR, params.epsilon_one),
        "belief_ever": belief(PRIOR, metric.lifetime_epsilon),
    }


def _width(check: Check) -> float:
    """How much of the bar of the claim the bound fills, in per cent."""
    if check.attack is None or not check.claim:
        return 0.0
    return min(100.0, 100 * check.attack.bound / check.claim)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
