"""The fleets for the demo and the quickstart: metrics, readings, candidates and true shares."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from rappor_core.calendar import date_of, day_of, last_day, period_number
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from simulations.populations.fleet import (
    RecordedValue,
    absent_words,
    draw_words,
    topic_words,
)

LENGTHS = ("2 letters", "3 letters", "4-5 letters", "6-7 letters", "8 or more")
MIN_REPORTS = 100
METRICS = """\
# Made by `rappor demo`.
budget = {budget}

[metrics.word]
kind = "string"
description = "A word of the help topics, drawn as often as it appears there"
owner = "demo@example.org"
expires = {expires}
num_bits = 64
num_hashes = 1
num_cohorts = 32
epsilon_infinity = {epsilon_infinity}
epsilon_one = {epsilon_one}
max_memoized_values = 2
fallback = ""
max_reports_per_period = 1
min_reports = {min_reports}
min_reports_per_cohort = 1  # a demo has few devices; without this line it is 100

[metrics.length]
kind = "category"
description = "How long the word is"
owner = "demo@example.org"
expires = {expires}
categories = {categories}
epsilon_infinity = {epsilon_infinity}
epsilon_one = {epsilon_one}
max_memoized_values = 2
fallback = "2 letters"
min_reports = {min_reports}
"""
MAX_VALUES = 8  # The number of different values of one metric in a fleet


@dataclass(frozen=True, slots=True)
class DemoMetric:
    """A metric of the demo, with its true shares."""

    metric: Metric
    candidates: Sequence[str] | None  # None for the metric's own categories
    true_shares: Mapping[str, float]  # The share among the readings, by value


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """All data of the demo, prepared before it starts."""

    toml: str
    file: MetricsFile
    readings: Sequence[RecordedValue]  # Sorted by client
    questions: Sequence[DemoMetric]
    num_clients: int
    cost: str  # A sentence on the privacy cost of the caps


def plan_words(
    num_clients: int, epsilons: tuple[float, float], today: date, rng: np.random.Generator
) -> DemoPlan:
    """Plan the demo with words of a real text and their lengths, one report of each per device."""
    counts = topic_words()
    words = list(counts)
    toml = METRICS.format(
        budget=4 * epsilons[0],
        expires=today + timedelta(days=1),
        epsilon_infinity=epsilons[0],
        epsilon_one=epsilons[1],
        categories=list(LENGTHS),
        min_reports=min(MIN_REPORTS, num_clients),
    ).replace("'", '"')
    drawn = draw_words(counts, num_clients, rng)
    readings = [
        reading
        for client, word in enumerate(drawn)
        for reading in (
            RecordedValue(str(client), "word", word),
            RecordedValue(str(client), "length", length_of(word)),
        )
    ]
    listed = {"word": words + absent_words(words, rng), "length": None}
    return _plan(toml, readings, listed, num_clients)


def length_of(word: str) -> str:
    """Return the category of a word's length."""
    return LENGTHS[sum(len(word) >= edge for edge in (3, 4, 6, 8))]


def _plan(
    toml: str,
    readings: Sequence[RecordedValue],
    listed: Mapping[str, Sequence[str] | None],
    num_clients: int,
) -> DemoPlan:
    file = parse_metrics(toml)
    questions = [
        _question(metric, listed[name], [r for r in readings if r.metric == name])
        for name, metric in file.metrics.items()
    ]
    return DemoPlan(toml, file, readings, questions, num_clients, _cost(file))


def _question(
    metric: Metric, candidates: Sequence[str] | None, readings: Sequence[RecordedValue]
) -> DemoMetric:
    counts = Counter(str(reading.value) for reading in readings)
    shares = {value: count / len(readings) for value, count in counts.items()}
    return DemoMetric(metric, candidates, shares)


def _cost(file: MetricsFile) -> str:
    parts = [
        f"{metric.name}: {metric.max_memoized_values} memoized values of epsilon "
        f"{metric.params.epsilon_infinity:.2f} each, {metric.lifetime_epsilon:.1f} for life "
        f"({metric.epsilon_one:.2f} a report)"
        for metric in file.metrics.values()
    ]
    return f"{'; '.join(parts)}. All metrics together: {file.lifetime_epsilon:.1f}."


def report_day(metric: Metric, today: date) -> date:
    """Return the day for reports: today, or the last day of the latest complete week or month."""
    if metric.period == "day":
        return today
    return date_of(last_day(metric.period, period_number(metric.period, day_of(today)) - 1))


def served_at_once(metric: Metric, devices: int, today: date) -> Metric:
    """Return the metric with low minimums and a long acceptance period, for a small fleet.

    The meaning of its reports and its params_id are unchanged."""
    age = (today - report_day(metric, today)).days
    return metric.replace(
        min_reports=min(metric.min_reports, devices),
        min_reports_per_cohort=1,
        accept_days=max(metric.accept_days, age),
    )


def held_values(metric: Metric) -> Sequence[Hashable]:
    """Return the values of a metric that a fleet's devices hold, most frequent first."""
    return tuple(metric.rules.examples(metric))[:MAX_VALUES]


def readings(
    metrics: Mapping[str, Metric], devices: int, rng: np.random.Generator
) -> Iterator[RecordedValue]:
    """Yield each device's value of each metric, device by device; shares decrease as 1 / rank."""
    drawn = {name: _drawn(held_values(metric), devices, rng) for name, metric in metrics.items()}
    for device in range(devices):
        for name, values in drawn.items():
            yield RecordedValue(str(device), name, values[device])


def _drawn(values: Sequence[Hashable], devices: int, rng: np.random.Generator) -> list[Hashable]:
    weights = 1 / np.arange(1, len(values) + 1)
    return [values[i] for i in rng.choice(len(values), size=devices, p=weights / weights.sum())]
