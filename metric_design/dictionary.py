"""The public dictionary of metrics: what is collected, by whom, until when, with what risk."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from decoder.files import make_folder, replacing
from decoder.output.jinja import page_template
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.metric import Metric
from rappor_core.risk import rise_text, risk_of
from rappor_core.sequence_risk import risk_text
from rappor_core.text import visible

MAX_LISTED = 12  # the maximum number of answers that are listed individually


@dataclass(frozen=True)
class DictionaryEntry:
    """A metric as text, with the epsilon of one report, one value, and everything ever sent."""

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


def entries_of(metrics: Iterable[Metric], today: date) -> list[DictionaryEntry]:
    """Make the dictionary's entries, one for each declared name."""
    first: dict[str, Metric] = {}
    for metric in metrics:
        first.setdefault(metric.base_name, metric)
    return [_entry(name, metric, today) for name, metric in sorted(first.items())]


def write_site(entries: Iterable[DictionaryEntry], folder: Path, contact: str) -> Path:
    """Write the dictionary as one self-contained page with a `contact`; return its path.

    Raises OutputError if that fails."""
    make_folder(folder)
    page = page_template("dictionary.html.j2").render(
        entries=list(entries), contact=contact, rise=rise_text
    )
    with replacing(folder / "index.html") as part:
        part.write_text(page, encoding="utf-8")
    return folder / "index.html"


def _entry(name: str, metric: Metric, today: date) -> DictionaryEntry:
    """Return a metric as text; long lists of undeclared answers are only counted."""
    risk, kind = risk_of(metric), kind_named(metric.kind)
    what, answers = kind.described(metric)
    if not what:
        answers = tuple(kind.names(metric.to_dict()))
        what = "one of the answers listed" if answers else "a value"
    if len(answers) > MAX_LISTED and answers != metric.categories:
        answers = (f"{len(answers)} from {answers[0]} to {answers[-1]}",)
    most = metric.max_reports_per_period
    times = "at most one report" if most == 1 else f"at most {most:,} reports"
    ever = "" if metric.max_reports is None else f", {metric.max_reports:,} in all"

    def plain(text: str) -> str:  # in one line, without characters that hide or turn it
        return visible(" ".join(text.split()))

    return DictionaryEntry(
        name=name,
        description=plain(metric.description),
        what=plain(what),
        answers=tuple(map(plain, answers)),
        owner=plain(metric.owner),
        expires=metric.expires,
        over=metric.expires < today,
        period=f"{times} a {metric.period}{ever}",
        once=risk.report,
        value=risk.answer,
        life=risk.worst,
        risk=risk_text(metric),
    )
