"""The state of one metric of numbers on a device during a period. All of it is private."""

from __future__ import annotations

import json
from typing import Any

from client_sdk.randomisation.metric_encoder import MetricEncoder

MOST = 1e300  # of a sum; far above every edge, and no infinity follows from it

Kept = list[float]  # empty while nothing was recorded


class Collected:
    """The current period of a metric of numbers, with as little of its numbers as the one report
    needs.

    period: its number, or None before the first look at the clock.
    kept: by `of_period`: of `sum`, `count`, `max`, `last` one number; of `mean` how many and their
        sum; of `median` how many, and how many are at or above each of the device's cuts.
    """

    __slots__ = ("_device", "_number", "kept", "period")

    def __init__(self, device: MetricEncoder, saved: str | None) -> None:
        """saved: `to_json`'s text, or None. Raises ValueError and TypeError for a damaged one."""
        self._device = device
        self._number = device.metric.details
        self.period: int | None = None
        self.kept: Kept = []
        if saved is not None:
            self._restore(json.loads(saved))

    def _restore(self, saved: dict[str, Any]) -> None:
        """Take up what was saved, as far as it still means the same in this version of the app."""
        metric = self._device.metric
        if saved["of"] == [metric.period, metric.params_id]:
            self.period = saved["period"]
            self.kept = [float(number) for number in saved["kept"]]

    def to_json(self) -> str:
        """The whole state as JSON."""
        metric = self._device.metric
        saved = {"of": [metric.period, metric.params_id], "period": self.period, "kept": self.kept}
        return json.dumps(saved, separators=(",", ":"))

    def begin(self, period: int) -> None:
        """Forget the collected numbers and begin a new period."""
        self.period, self.kept = period, []

    def take(self, number: float) -> None:
        """Count one number, which the metric takes, into the period."""
        self.kept = _TAKE[self._number.of_period](self.kept, number, self._device)

    def bits(self) -> int:
        """The bits B of the period's number, or of no data."""
        if not self.kept:
            return self._device.value_bits(None)
        if self._number.of_period == "median":
            total, *above = self.kept
            return 1 << sum(2 * number >= total for number in above)
        if self._number.of_period == "mean":
            number, total = self.kept
            return self._device.value_bits(total / number)
        return self._device.value_bits(self.kept[0])


def _sum(kept: Kept, number: float, device: MetricEncoder) -> Kept:  # noqa: ARG001
    return [_bounded(sum(kept) + number)]


def _count(kept: Kept, number: float, device: MetricEncoder) -> Kept:  # noqa: ARG001
    return [sum(kept) + 1]


def _mean(kept: Kept, number: float, device: MetricEncoder) -> Kept:  # noqa: ARG001
    many, total = kept or (0.0, 0.0)
    return [many + 1, _bounded(total + number)]


def _median(kept: Kept, number: float, device: MetricEncoder) -> Kept:
    """The upper of two middle numbers is at a cut or above where half of all numbers are."""
    cuts = device.cuts()
    many, *above = kept or [0.0] * (len(cuts) + 1)
    return [many + 1, *(a + (number >= cut) for a, cut in zip(above, cuts, strict=True))]


def _max(kept: Kept, number: float, device: MetricEncoder) -> Kept:  # noqa: ARG001
    return [max([*kept, number])]


def _last(kept: Kept, number: float, device: MetricEncoder) -> Kept:  # noqa: ARG001
    return [number]


def _bounded(total: float) -> float:
    return min(max(total, -MOST), MOST)


_TAKE = {
    "sum": _sum,
    "count": _count,
    "mean": _mean,
    "median": _median,
    "max": _max,
    "last": _last,
}
