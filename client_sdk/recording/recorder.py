"""The path from a value to a queued report, as `Client.record` uses it.

A `Recorder` with a `MemoryState` is a whole device without files or threads, for fleets; with a
`SqliteState` it is the recorder of an app.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from client_sdk.errors import StateChangedError, UnknownMetricError
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from client_sdk.randomization.metric_encoder import MetricEncoder
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.recording.ledger import Ledger
from client_sdk.storage.interface import RETIRED, Limits, Stop
from rappor_core.calendar import MEAN_DAYS, SECONDS_A_DAY, day_of, last_day, period_number
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.validation import APP, Platform

if TYPE_CHECKING:
    from client_sdk.storage.sqlite import SqliteState

ELSEWHERE: Final = "elsewhere"  # the metric is declared for other platforms
EVER = (1 << 62) - 1  # a period that no clock reaches

Outcome = Literal["queued", "queued_fallback", "full", "expired", "closed", "elsewhere", "stopped"]


class Recorder:
    """A recorder for one device's values, limited by the ledger.

    Read `record` to see the whole path of a value.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        state: SqliteState,
        *,
        budget: float | None = None,
        level: PrivacyLevel | None = None,
        randomness: Randomness = system_randomness,
        platform: Platform = APP,
    ) -> None:
        """Read the secret; each metric is prepared when it is first used.

        Args:
            metrics: The declared metrics, by name.
            state: The state of the device.
            budget: The budget in nats over all metrics, or None if unlimited.
            level: The user's own limits; None for `standard`.
            randomness: The source of the instantaneous responses.
            platform: The platform of this process. Metrics for other platforms are refused
                (`elsewhere`).

        Raises:
            StateChangedError: The state contains no secret.
        """
        self._secret = state.secret()
        self._metrics = metrics
        self._state = state
        self._level = PrivacyLevel.of(level or "standard")
        self._platform = platform
        self._randomness = randomness
        self._ledger = Ledger(state, budget, self._level)
        self._metric_states: dict[str, MetricState] = {}

    def record(self, name: str, value: object, now: float, bits: int | None = None) -> Outcome:
        """Queue a report of a value: look up the metric, ask the ledger, encode, write.

        Args:
            name: The name of the metric.
            value: The value in the form that the metric accepts.
            now: The seconds since 1970, UTC.
            bits: The bits B of the value, if the caller has encoded it; `value` is then ignored.

        Returns:
            The outcome; `full` means that the limit on reports per period or lifetime is reached.

        Raises:
            UnknownMetricError: The metric is not declared.
            ValueRefusedError: The metric cannot encode the value.
            StateChangedError: Another process has replaced or wiped the secret.
        """
        day = max(0, int(now // SECONDS_A_DAY))  # an unset clock may be before 1970
        metric = self._metric_states.get(name) or self._prepare(name, day)
        if metric.stop is not None and self._is_stopped(metric, now):
            return "stopped"
        encoder = metric.encoder
        bits = encoder.value_bits(value) if bits is None else bits
        if day > metric.last_day:
            return "expired"
        if metric.closed:
            return ELSEWHERE if metric.closed == ELSEWHERE else "closed"

        sent, digest = bits, encoder.digest(bits)
        if digest not in metric.memoized:
            admitted = self._ask_ledger(metric, bits)
            if admitted is None:
                return "closed"
            sent, digest = admitted, encoder.digest(admitted)

        report_bits = encoder.report_bits(sent)
        limits = metric.limits(day)
        stored = self._state.add_report(metric.source, digest, day, report_bits, limits)
        if stored == "not_memoized":
            raise StateChangedError("the state was wiped while a value was recorded")
        if stored == "full":
            return "full"
        return "queued" if sent == bits else "queued_fallback"

    def record_bits(self, name: str, bits: int, day: int) -> Outcome:
        """Record a value that is given as bits, at the end of a day; otherwise like `record`.

        Args:
            name: The name of the metric.
            bits: The bits B, as an integer of k bits. Private.
            day: The day since 1970-01-01, UTC.

        Returns:
            The outcome, as from `record`.
        """
        return self.record(name, None, (day + 1) * SECONDS_A_DAY - 1.0, bits)

    def _ask_ledger(self, metric: MetricState, bits: int) -> int | None:
        """Return the bits B to send for a value that is not known to be memoized.

        These are its own bits or, beyond the cap, the fallback's; None to send nothing. A decision
        that cannot change anymore is cached in `metric`.
        """
        if metric.fallback is not None:
            return metric.fallback
        with self._state.transaction():
            self._state.secret(self._secret)
            decision = self._ledger.admit(metric.encoder, bits)
        if decision.bits is None:
            metric.closed = decision.reason
            self._state.count(f"closed:{metric.encoder.metric.name}:{decision.reason}")
        elif decision.reason:
            entries = self._state.entries(metric.encoder.line)
            metric.memoized = {entry.digest for entry in entries}
            metric.fallback = decision.bits
        else:
            metric.memoized.add(metric.encoder.digest(bits))
        return decision.bits

    def _is_stopped(self, metric: MetricState, now: float) -> bool:
        """Return whether a metric is stopped; a paused one still gets one report per day."""
        stop = metric.stop
        if stop is None or stop.params_id != metric.encoder.params_id:
            return False
        if stop.reason == RETIRED or now < stop.until:
            return True
        later = stop._replace(until=now + SECONDS_A_DAY)
        self._state.put_stop(metric.encoder.metric.name, later)  # raises if the state is busy
        metric.stop = later
        return False

    def forget_metric(self, name: str) -> None:
        """Discard the cached data of a metric, because the collector stopped or resumed it."""
        self._metric_states.pop(name, None)

    def fill_periods(self, now: float) -> int:
        """Send `no_data` for each finished period without reports that can still be reported.

        Only for metrics that declare `no_data` and that this device has used, except locations,
        whose periods `Visits` closes. Return the number of queued reports.
        """
        today = int(now // SECONDS_A_DAY)
        filled = 0
        for name, metric in self._metrics.items():
            if metric.no_data is None or metric.rules.takes_fixes:
                continue
            if self._state.last_period(name, EVER) is None:
                continue
            if name not in self._metric_states:
                self._prepare(name, today)
            present = period_number(metric.period, max(0, today))
            last = self._state.last_period(name, present)
            if last is None:
                continue
            first = max(last + 1, period_number(metric.period, max(0, today - metric.accept_days)))
            for period in range(first, present):
                bits = self.device(name).value_bits(metric.no_data)
                outcome = self.record_bits(name, bits, last_day(metric.period, period))
                filled += outcome in ("queued", "queued_fallback")
        return filled

    def device(self, name: str) -> MetricEncoder:
        """Return the encoder of one metric on this device. Raises UnknownMetricError if unknown."""
        return (self._metric_states.get(name) or self._prepare(name)).encoder

    def runs_here(self, metric: Metric) -> bool:
        """Return whether a metric is declared for the platform of this process."""
        return self._platform in metric.platforms

    @property
    def budget(self) -> float:
        """Return the current lifetime budget over all metrics, in nats; infinity if unlimited."""
        return self._ledger.budget

    def why_closed(self, name: str) -> str:
        """Return, in one word, why a metric no longer records anything; "" if it still does."""
        state = self._metric_states.get(name)
        return "" if state is None else state.closed

    def forget(self) -> None:
        """Discard the cached data of all metrics, because a transaction was rolled back."""
        self._metric_states = {}

    def _prepare(self, name: str, day: int | None = None) -> MetricState:
        """Prepare a metric at its first use in this process; `day` is None if unknown."""
        if name not in self._metrics:
            raise UnknownMetricError(name, self._metrics)
        encoder = MetricEncoder(self._metrics[name], self._secret, self._randomness)
        metric = encoder.metric
        runs_here = self.runs_here(metric)
        with self._state.transaction():
            self._state.secret(self._secret)
            reason = self._ledger.agree(metric, encoder.line) if runs_here else ELSEWHERE
            source = self._state.source(name, encoder.params_id, encoder.cohort)
        per_period = int(min(metric.max_reports_per_period, self._level.max_reports_per_period))
        prepared = MetricState(encoder, source, per_period, reason)
        prepared.stop = self._state.stop(name)
        if not reason:  # if a metric is refused, no counts are carried over
            counted_by, unit = prepared.counted_by
            present = None if day is None else period_number(unit, max(0, day))
            self._state.count_by(counted_by, unit, present)
        if reason and runs_here:
            self._state.count(f"closed:{name}:{reason}")
        self._metric_states[name] = prepared
        return prepared


class MetricState:
    """The recorder's data for one metric: its encoder, its limits and final decisions.

    `closed` is the reason why nothing is recorded anymore, or "". `memoized` contains digests that
    are known to be in the ledger. `fallback` is the bits B to send for all other values once the
    ledger is full; it is None before that.
    """

    def __init__(self, encoder: MetricEncoder, source: int, per_period: int, closed: str) -> None:
        self.encoder = encoder
        self.source = source
        self.closed = closed
        self.memoized: set[bytes] = set()
        self.fallback: int | None = None
        self.stop: Stop | None = None
        self.last_day = day_of(encoder.metric.expires)
        self._per_period = per_period
        self._latest: tuple[int, Limits] | None = None  # replaced as a whole, for thread safety

    def limits(self, day: int) -> Limits:
        """Return the report limits that apply on a day, for its period and for the lifetime.

        Lifetime limits are counted under the declared name, so that new slots or levels do not
        reset them. The same is true for the limit of one report per window.
        """
        latest = self._latest
        if latest is None or latest[0] != day:
            metric, (name, unit) = self.encoder.metric, self.counted_by
            limits_of_day = Limits(
                name,
                period_number(unit, day),
                self._per_period,
                self.encoder.line,
                metric.max_reports,
                _days_of_one_report(metric, day),
            )
            self._latest = latest = day, limits_of_day
        return latest[1]

    @property
    def counted_by(self) -> tuple[str, str]:
        """Return the name, and the unit of periods, under which a metric's reports are counted."""
        metric = self.encoder.metric
        if metric.spaced:
            return self.encoder.line, "day"  # a later version may declare different periods
        return metric.name, metric.period


def _days_of_one_report(metric: Metric, day: int) -> tuple[int, int] | None:
    """Return the first and last day of a range with at most one report, or None if unlimited.

    For fresh schedules, the range is the block of `day`; otherwise, about a window on each side.
    """
    place, unit = metric.location, metric.period
    if place is None or not metric.spaced:
        return None
    if place.turn == "fresh":
        first = period_number(unit, day) // place.window * place.window
        return max(last_day(unit, first - 1) + 1, 0), last_day(unit, first + place.window - 1)
    apart = int((place.window - 0.5) * MEAN_DAYS[unit])
    return max(day - apart, 0), day + apart
