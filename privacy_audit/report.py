"""Write the result of an audit as JSON and as a page that needs no network."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from privacy_audit.audit import AuditResult
from privacy_audit.black_box.checks import Check
from privacy_audit.identity import AuditedCode
from privacy_audit.life_findings import life_text
from privacy_audit.promises import LIVES, grouped, promise_of
from rappor_core.metrics.metric import Metric
from rappor_core.risk import believed, risk_of
from rappor_core.sequence_risk import risk_text, sequence_risk

VERSION = 2
PUBLISHED = ((0.496, 1.0), (0.995, 2.0), (1.993, 4.0))  # LDP-Auditor's attack on unary encodings:
# bound and claim of a million trials, k = 2 (arXiv:2309.01597; run again with its own attack)
DEFAULT_METRICS = Path(__file__).with_name("default_metrics.toml")
BOXES = {
    "encoder": "the mechanism: an encoder opened anew for each report, over wire bytes",
    "device": "a device with its ledger: opened anew for each report over its kept state",
    "answers": "devices that draw values, silences and places by lot, with and without noise",
    "calendars": "devices through silent years, months of use, versions and clocks that go back",
    "budgets": "devices that record whatever they can of all metrics, under many budgets",
    "freshness": "many reports of one device, compared with each other",
    "app": "an app with the client in it, as a program: its requests, and the files of its state",
    "derivations": "what a device derives from its secret: cohort and permanent response",
}


def to_dict(result: AuditResult, day: date, identity: AuditedCode) -> dict[str, Any]:
    """The result as plain values for JSON; infinities are null.

    Args:
        result: of an audit.
        day: on which it was made.
        identity: of what was audited.
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
        "audited": asdict(identity),
        "not_tested": [f"{one.metric}: {one.what}" for one in result.untested],
        "metrics": [_promise(metric) for metric in result.metrics],
        "checks": [_finite(check.to_dict(result.level)) for check in result.checks],
        "notes": list(result.notes),
    }


def page(result: AuditResult, day: date, identity: AuditedCode) -> str:
    """The page: verdict, findings, what was not tested, and all claims, by promise."""
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
        risks=[(m.base_name, risk_text(m) + life_text(m)) for m in result.metrics],
        identity=identity,
        findings=[(promise_of(check).broken, check) for check in result.broken],
        attacks=[check for check in result.checks if check.attack is not None],
        groups=[one for one in grouped(result.checks) if one[0] is not LIVES],
        lives=LIVES,
        kinds=bounds_of_kinds(result),
        published=PUBLISHED,
        boxes={k: v for k, v in BOXES.items() if any(check.box == k for check in result.checks)},
        width=_width,
    )


def bounds_of_kinds(result: AuditResult) -> list[tuple[str, float, float]]:
    """For each kind of metric: its name, the claim for one report, and the lower bound that an
    attack reached."""
    kinds = {metric.base_name: metric.kind for metric in result.metrics}
    found: dict[str, tuple[float, float]] = {}
    for check in result.checks:
        if check.what.endswith("disjoint values, 1 report") and check.attack and check.claim:
            kind, own = kinds.get(check.metric, ""), (check.attack.bound, check.claim)
            if kind not in found or own[0] / own[1] > found[kind][0] / found[kind][1]:
                found[kind] = own
    return [(kind, bound, claim) for kind, (bound, claim) in found.items()]


def nats(value: float | None) -> str:
    """An epsilon with three decimals; a word for one that has no bound."""
    if value is None or math.isinf(value):
        return "no bound"
    return f"{value:.3f}"


def percent(value: float | None) -> str:
    """Format a share as per cent; a dash where there is none."""
    return "-" if value is None else f"{value:.0%}"


def _promise(metric: Metric) -> dict[str, Any]:
    params, risk = metric.params, risk_of(metric)
    return {
        "name": metric.base_name,
        "params_id": metric.params_id,
        "kind": metric.kind,
        "epsilon_one": risk.report,
        "epsilon_7": params.epsilon_n(7),
        "epsilon_30": params.epsilon_n(30),
        "epsilon_infinity": _number(params.epsilon_infinity),
        "lifetime_epsilon": _number(risk.worst),
        "epsilon_sequence": sequence_risk(metric).to_dict(),
        "belief_after_one_report": believed(risk.report),
        "belief_ever": believed(risk.worst),
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
