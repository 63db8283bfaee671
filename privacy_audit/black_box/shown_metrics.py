"""Replace the noise of metrics, so that a single report shows what a device answered.

The client is the same; only thresholds differ, and with them `params_id`. Without the second round
a report is the permanent response itself; with next to no first round it is the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile


def without_second_round(metric: Metric) -> Metric:
    """The metric without its second round: reports are then the permanent responses."""
    if not metric.params.mechanism.has_permanent_round:
        return metric
    return _last_round_silent(metric)


def _last_round_silent(metric: Metric) -> Metric:
    m = metric.params.mechanism.replace(p2=PROBABILITY_SCALE, q2=0)
    return metric.replace(params=metric.params.replace(mechanism=m))


def nearly_clear(metric: Metric) -> Metric:
    """The metric with next to no noise: 2**-16 a bit, without which a file is refused."""
    last = _last_round_silent(metric)
    if not last.params.mechanism.has_permanent_round:
        return last
    others = metric.params.num_bits - 1 if metric.params.scheme.symbols else 1
    m = last.params.mechanism.replace(p1=PROBABILITY_SCALE - others, q1=1)
    return last.replace(params=last.params.replace(mechanism=m))


def chance_of_another(metric: Metric) -> float:
    """The probability that a report of a `nearly_clear` metric looks as if it were of another
    answer."""
    k = metric.params.num_bits
    if metric.params.scheme.symbols:
        return (k - 1) / PROBABILITY_SCALE
    return 1 / PROBABILITY_SCALE if k == 1 else (k / PROBABILITY_SCALE) ** 2


def looks_another(metric: Metric, shown: bytes, answer: int) -> bool:
    """Whether a report of a `nearly_clear` metric looks as if it were of another answer. answer:
    B."""
    off = (int.from_bytes(shown, "little") ^ answer).bit_count()
    return off > (0 if metric.params.num_bits == 1 or metric.params.scheme.symbols else 1)


def exchanged(
    file: MetricsFile, how: Callable[[Metric], Metric], *, budget: float | None = None
) -> MetricsFile:
    """A metrics file with the mechanisms of all metrics replaced by less noisy ones. how: one of
    the functions above."""
    return MetricsFile({name: how(metric) for name, metric in file.metrics.items()}, budget)


def bits_of(raw: bytes, num_bits: int) -> NDArray[np.uint8]:
    """A report as a row of 0 and 1."""
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), bitorder="little", count=num_bits)
