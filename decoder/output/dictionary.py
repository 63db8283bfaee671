"""The public dictionary of metrics: what is collected, by whom, until when, and what it can tell
about a person.

One page for people who never saw the code; nothing in it needs a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from decoder.files import make_folder, replacing
from decoder.output.jinja import page_template
from rappor_core.metrics.association import Association
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.metric import Metric
from rappor_core.risk import rise_text, risk_of
from rappor_core.sequence_risk import risk_text
from rappor_core.text import visible

MOST_LISTED = 12  # answers that are named one by one


@dataclass(frozen=True)
class DictionaryEntry:
    """A metric in words, or an association of two.

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
) -> list[DictionaryEntry]:
    """Make the dictionary's entries, one for each declared name and each association.

    Associations follow, as entries of their own.
    """
    linked = {
        metric.name: _linked(one, other.name)
        for one in associations
        for metric, other in (one.metrics, one.metrics[::-1])
        if one.expires >= today
    }
    first: dict[str, Metric] = {}
    for metric in metrics:
        first.setdefault(metric.base_name, metric)
    single = [
        replace(_entry(name, metric, today), linked=linked.get(name, ()))
        for name, metric in sorted(first.items())
    ]
    pairs = sorted(associations, key=lambda one: one.name)
    return [_shown(one) for one in [*single, *(_association_entry(one, today) for one in pairs)]]


def _shown(entry: DictionaryEntry) -> DictionaryEntry:
    """An entry in one line a text, without characters that hide or turn what is written."""

    def plain(text: str) -> str:
        return visible(" ".join(text.split()))

    return replace(
        entry,
        description=plain(entry.description),
        what=plain(entry.what),
        answers=tuple(map(plain, entry.answers)),
        owner=plain(entry.owner),
        linked=tuple(map(plain, entry.linked)),
    )


def write_site(entries: Iterable[DictionaryEntry], folder: Path, contact: str) -> Path:
    """Write the dictionary as one page that loads nothing; returns its path. Raises OutputError.

    contact: whom to ask, in words or as an address.
    """
    make_folder(folder)
    page = page_template("dictionary.html.j2").render(
        entries=list(entries), contact=contact, rise=rise_text
    )
    with replacing(folder / "index.html") as part:
        part.write_text(page, encoding="utf-8")
    return folder / "index.html"


def _entry(name: str, metric: Metric, today: date) -> DictionaryEntry:
    risk = risk_of(metric)
    what, answers = _asked(metric)
    return DictionaryEntry(
        name=name,
        description=metric.description,
        what=what,
        answers=answers,
        owner=metric.owner,
        expires=metric.expires,
        over=metric.expires < today,
        period=_period(metric),
        once=risk.report,
        value=risk.answer,
        life=risk.worst,
        risk=risk_text(metric),
    )


def _asked(metric: Metric) -> tuple[str, tuple[str, ...]]:
    """What is asked, and the answers; of a kind that has no words for it the names of its values.

    Answers that the metric does not list itself are counted where they are many.
    """
    kind = kind_named(metric.kind)
    what, answers = kind.described(metric)
    if not what:
        answers = tuple(kind.names(metric.to_dict()))
        what = "one of the answers listed" if answers else "a value"
    if len(answers) > MOST_LISTED and answers != metric.categories:
        answers = (f"{len(answers)} from {answers[0]} to {answers[-1]}",)
    return what, answers


def _association_entry(one: Association, today: date) -> DictionaryEntry:
    """What two linked reports can tell: what both can, together."""
    shared = one.cohort_of_second is not None
    cohort = (
        ". Both use the one group (cohort) that the device drew for the first" if shared else ""
    )
    risk = risk_of(*one.metrics)
    return DictionaryEntry(
        name=one.name,
        description=one.description,
        what=f"nothing more: the reports of {one.of[0]} and of {one.of[1]} of one day are sent "
        f"together, so that it can be seen how the two go together{cohort}",
        answers=(),
        owner=one.owner,
        expires=one.expires,
        over=one.expires < today,
        period=f"at most once a {one.first.period}",
        once=risk.report,
        value=risk.answer,
        life=risk.worst,
        risk=risk.sentence,
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
