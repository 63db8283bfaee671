"""A fleet that answers the metrics of any file: invented values, falling shares."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import date

import numpy as np

from rappor_core.calendar import date_of, day_of, last_day, period_number
from rappor_core.metrics.metric import Metric
from simulations.populations.fleet import RecordedValue

MOST_VALUES = 8  # that a fleet holds of one metric


def report_day(metric: Metric, today: date) -> date:
    """The day that reports bear: today, or the last one of the week or month that is over."""
    if metric.period == "day":
        return today
    return date_of(last_day(metric.period, period_number(metric.period, day_of(today)) - 1))


def served_at_once(metric: Metric, devices: int, today: date) -> Metric:
    """The metric as a collector of a small fleet serves it: floors that so few devices reach, and
    reports as old as those of `report_day`.

    What a report means, and its params_id, stay as declared.
    """
    age = (today - report_day(metric, today)).days
    return metric.replace(
        min_reports=min(metric.min_reports, devices),
        min_reports_per_cohort=1,
        accept_days=max(metric.accept_days, age),
    )


def held_values(metric: Metric) -> Sequence[Hashable]:
    """What the devices of a fleet hold of a metric, the most frequent first."""
    return tuple(metric.rules.examples(metric))[:MOST_VALUES]


def readings(
    metrics: Mapping[str, Metric], devices: int, rng: np.random.Generator
) -> Iterator[RecordedValue]:
    """One value of each metric for each device, by device; shares fall as 1 / rank."""
    drawn = {name: _drawn(held_values(metric), devices, rng) for name, metric in metrics.items()}
    for device in range(devices):
        for name, values in drawn.items():
            yield RecordedValue(str(device), name, values[device])


def _drawn(values: Sequence[Hashable], devices: int, rng: np.random.Generator) -> list[Hashable]:
    weights = 1 / np.arange(1, len(values) + 1)
    return [values[i] for i in rng.choice(len(values), size=devices, p=weights / weights.sum())]
