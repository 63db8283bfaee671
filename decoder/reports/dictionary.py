"""The public dictionary: what is collected, by whom, until when, and what it can tell of a person.

One page for people who never saw the code; nothing in it needs a key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from decoder.files import make_folder, replacing
from decoder.reports.jinja import page_template
from decoder.reports.number_text import factor
from rappor_core.metrics.association import Association
from rappor_core.metrics.metric import Metric

PRIOR = 0.01  # of the example: how likely somebody thought a value before
KINDS = {
    "string": "a text",
    "category": "one of the answers listed",
    "boolean": "yes or no",
    "location": "the area where the device usually is",
}


@dataclass(frozen=True)
class Entry:
    """A metric in words.

    once, value, life: epsilon of a report, of one value for ever, and of everything for ever.
    linked: with which answers its own travel together, and why.
    """

    name: str
    description: str
    what: str
    answers: tuple[str, ...]
    owner: str
    expires: date
    over: bool
    period: str
    once: float
    value: float
    life: float
    risk: str
    linked: tuple[str, ...] = ()


def entries_of(
    metrics: Iterable[Metric], today: date, associations: Sequence[Association] = ()
) -> list[Entry]:
    """What the dictionary says of metrics, by declared name; parts of a location are one entry."""
    linked = {
        metric.name: _linked(one, other.name)
        for one in associations
        for metric, other in (one.metrics, one.metrics[::-1])
        if one.expires >= today
    }
    first: dict[str, Metric] = {}
    for metric in metrics:
        first.setdefault(metric.base_name, metric)
    return [
        replace(_entry(name, metric, today), linked=linked.get(name, ()))
        for name, metric in sorted(first.items())
    ]


def write_site(entries: Iterable[Entry], folder: Path, contact: str) -> Path:
    """Write the dictionary as one page that loads nothing; returns its path. Raises OutputError.

    contact: whom to ask, in words or as an address.
    """
    make_folder(folder)
    page = page_template("dictionary.html.j2").render(
        entries=list(entries), contact=contact, odds=odds_text
    )
    with replacing(folder / "index.html") as part:
        part.write_text(page, encoding="utf-8")
    return folder / "index.html"


def risk_text(once: float, life: float) -> str:
    """What a report, and all of them, can tell to who thought a value 1 % likely."""
    after_one = _percent(_believed(once))
    if math.isinf(life):
        return (
            f"Who thinks it 1 % likely that an answer is yours believes it at most {after_one} "
            "after one report. Each further report adds to that."
        )
    return (
        f"Who thinks it 1 % likely that an answer is yours believes it at most {after_one} after "
        f"one report, and at most {_percent(_believed(life))} after all that your device ever "
        "sends about it."
    )


def _entry(name: str, metric: Metric, today: date) -> Entry:
    value = metric.params.epsilon_infinity
    return Entry(
        name=name,
        description=metric.description,
        what=KINDS.get(metric.kind, metric.kind),
        answers=metric.categories,
        owner=metric.owner,
        expires=metric.expires,
        over=metric.expires < today,
        period=_period(metric),
        once=metric.epsilon_one,
        value=value,
        life=metric.lifetime_epsilon,
        risk=risk_text(metric.epsilon_one, value),
    )


def _linked(one: Association, other: str) -> tuple[str, ...]:
    """What people should know of an association, for one of its metrics."""
    return (
        f"with the answer to {other}, if both are given on one day, until {one.expires}",
        one.description,
    )


def _period(metric: Metric) -> str:
    most = metric.max_reports_per_period
    times = "at most one report" if most == 1 else f"at most {most:,} reports"
    ever = "" if metric.max_reports is None else f", {metric.max_reports:,} in all"
    return f"{times} a {metric.period}{ever}"


def _believed(epsilon: float) -> float:
    """The posterior of a value that was thought `PRIOR` likely, at most."""
    return 1 / (1 + (1 - PRIOR) / PRIOR * math.exp(-epsilon))


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.1f} %"


def odds_text(epsilon: float) -> str:
    """An epsilon as odds."""
    if math.isinf(epsilon):
        return "no bound"
    return f"epsilon {epsilon:.2f}: odds change at most {factor(epsilon)} times"
