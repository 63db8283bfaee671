"""The recorder for all number metrics on a device, which reports each period once.

The main path is `record` -> `Collected.take`, and `_close` when a period is over. Each period has
exactly one report, which says "no data" if nothing was recorded. Then the period's numbers are
forgotten. `record` saves each number to the state, in one transaction, before it returns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from client_sdk.errors import UnknownMetricError
from client_sdk.randomization.key_derivation import draw
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.recording.recorder import ELSEWHERE, Recorder
from client_sdk.storage.interface import NUMBERS
from rappor_core.calendar import SECONDS_A_DAY, day_of, last_day, period_number
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from client_sdk.storage.sqlite import SqliteState

Taken = Literal["queued", "expired", "elsewhere"] | None


class NumberRecorder:
    """A recorder that accepts numbers and reports each finished period.

    Any thread may call it. `metrics` are the declared metrics by name; metrics of other kinds are
    left to `recorder`.
    """

    def __init__(
        self, metrics: Mapping[str, Metric], state: SqliteState, recorder: Recorder
    ) -> None:
        """Prepare the recorder; the state is not read until a metric is used.

        Raises StateChangedError if there is no secret.
        """
        self._metrics = {name: m for name, m in metrics.items() if m.rules.collected}
        self._here = [name for name, m in self._metrics.items() if recorder.runs_here(m)]
        self._all = metrics
        self._state = state
        self._recorder = recorder
        self._secret = state.secret()
        self._periods: dict[str, int] = {}  # the current period at the last check
        self._phases = {
            name: draw(self._secret, b"phase", name, metric.details.spread)
            for name, metric in self._metrics.items()
        }

    def record(self, name: str, value: object, now: float) -> Taken:
        """Add a number to the metric's current period.

        Return "queued" if that closed the previous period, whose report is then queued. "expired"
        and "elsewhere" (declared for other platforms) mean that nothing is stored. `now` is in
        seconds since 1970, UTC. Raises UnknownMetricError, ValueRefusedError or StateChangedError.
        """
        metric = self._metric(name)
        if name not in self._here:
            return ELSEWHERE
        number = metric.rules.number(metric, value)
        if number is None:
            raise ValueRefusedError(f"metric {name!r} takes an int or a float, not a NoneType")
        day = _day(now)
        if day > day_of(metric.expires):
            return "expired"
        return "queued" if self._update(name, day, number) else None

    def check_sum(self, name: str) -> None:
        """Check that a metric is a sum. Raises UnknownMetricError or ValueRefusedError if not."""
        metric = self._metric(name)
        if metric.details.of_period != "sum":
            raise ValueRefusedError(
                f"metric {name!r} is not a counter: its of_period is {metric.details.of_period!r}, "
                "not 'sum'; use record"
            )

    def roll(self, now: float) -> bool:
        """Close finished periods; at the first call, start counting. Return True if any closed."""
        day = _day(now)
        closed = False
        for name in self._here:
            period = period_number(self._metrics[name].period, day)
            if self._periods.get(name) != period and self._load(name).period != period:
                closed |= self._update(name, day, None)
        return closed

    def _update(self, name: str, day: int, number: float | None) -> bool:
        """Close a metric's period if it is over on `day`, then add a number; return True if closed.

        If the clock went back, no period is closed: data from a period that has not ended yet is
        forgotten. The recorder ensures that no period is reported twice.
        """
        period = period_number(self._metrics[name].period, day)
        try:
            with self._state.transaction():
                collected = self._load(name)
                before = collected.period
                closed = before is not None and before < period
                if before not in (None, period):
                    self._state.leave_trace()
                if before is not None and closed:
                    self._close(name, collected, range(before, period), day)
                if before != period:
                    collected.begin(period)
                if number is not None and self._is_due(name, period):
                    collected.take(number)
                self._state.put_note(NUMBERS + name, collected.to_json())
        except BaseException:
            self._periods.pop(name, None)
            self._recorder.forget()  # its new lines and sources were rolled back
            raise
        self._periods[name] = period
        return closed

    def _close(self, name: str, collected: Collected, periods: range, today: int) -> None:
        """Report the collected number for the first of `periods`, and "no data" for the others.

        Periods too old for a collector are skipped, because even a rejected report costs budget.
        """
        metric = self._metrics[name]
        oldest = period_number(metric.period, max(0, today - metric.accept_days))
        for period in range(max(periods.start, oldest), periods.stop):
            if period != collected.period:
                collected.begin(period)
            if self._is_due(name, period):
                self._send(name, collected.bits(), last_day(metric.period, period))

    def _send(self, name: str, bits: int, day: int) -> None:
        """Queue the report for a period (the recorder allows only one), and count refusals."""
        outcome = self._recorder.record_bits(name, bits, day)
        if outcome not in ("queued", "queued_fallback", "full"):
            self._state.count(f"{outcome}:{name}")

    def _is_due(self, name: str, period: int) -> bool:
        spread: int = self._metrics[name].details.spread
        return period % spread == self._phases[name]

    def _metric(self, name: str) -> Metric:
        metric = self._metrics.get(name)
        if metric is not None:
            return metric
        if name in self._all:
            raise ValueRefusedError(f"metric {name!r} is not of kind 'number': use record")
        raise UnknownMetricError(name, self._metrics)

    def _load(self, name: str) -> Collected:
        """Load the state (new if damaged). Raises StateChangedError if the secret changed."""
        self._state.secret(self._secret)
        device = self._recorder.device(name)
        try:
            return Collected(device, self._state.note(NUMBERS + name))
        except (ValueError, TypeError, LookupError, AttributeError):
            self._state.count(f"numbers_damaged:{name}")
            return Collected(device, None)


def _day(now: float) -> int:
    return max(0, int(now // SECONDS_A_DAY))


MAX_SUM = 1e300  # the limit for a sum, far above every edge, so that the sum never becomes infinite

Kept = list[float]  # empty if nothing was recorded


class Collected:
    """The current period of a number metric, with only the data that its single report needs.

    Attributes:
        period: The number of the period, or None before the first check of the clock.
        kept: The data, which depends on `of_period`: one number for `sum`, `count`, `max` and
            `last`; the count and the sum for `mean`; the count, and the counts at or above each of
            the device's thresholds, for `median`.
    """

    __slots__ = ("_device", "_number", "kept", "period")

    def __init__(self, device: MetricEncoder, saved: str | None) -> None:
        """Restore the text from `to_json`, if any. Raises ValueError or TypeError if damaged."""
        self._device = device
        self._number = device.metric.details
        self.period: int | None = None
        self.kept: Kept = []
        metric, fields = device.metric, {} if saved is None else json.loads(saved)
        if fields and fields["of"] == [metric.period, metric.params_id]:  # the meaning is unchanged
            self.period = fields["period"]
            self.kept = [float(number) for number in fields["kept"]]

    def to_json(self) -> str:
        """Return the whole state as JSON."""
        metric = self._device.metric
        saved = {"of": [metric.period, metric.params_id], "period": self.period, "kept": self.kept}
        return json.dumps(saved, separators=(",", ":"))

    def begin(self, period: int) -> None:
        """Discard the collected numbers and begin a new period."""
        self.period, self.kept = period, []

    def take(self, number: float) -> None:
        """Add one valid number to the period."""
        values = self.kept
        match self._number.of_period:
            case "sum":
                values = [_bounded(sum(values) + number)]
            case "count":
                values = [sum(values) + 1]
            case "max":
                values = [max([*values, number])]
            case "last":
                values = [number]
            case "mean":
                many, total = values or (0.0, 0.0)
                values = [many + 1, _bounded(total + number)]
            case "median":  # a threshold counts if half of all numbers reach it (upper median)
                cuts = self._device.cuts()
                many, *above = values or [0.0] * (len(cuts) + 1)
                values = [
                    many + 1,
                    *(n + (number >= cut) for n, cut in zip(above, cuts, strict=True)),
                ]
        self.kept = values

    def bits(self) -> int:
        """Return the bits B for the period's number, or for "no data"."""
        if not self.kept:
            return self._device.value_bits(None)
        if self._number.of_period == "median":
            total, *above = self.kept
            return 1 << sum(2 * number >= total for number in above)
        if self._number.of_period == "mean":
            number, total = self.kept
            return self._device.value_bits(total / number)
        return self._device.value_bits(self.kept[0])


def _bounded(total: float) -> float:
    return min(max(total, -MAX_SUM), MAX_SUM)
