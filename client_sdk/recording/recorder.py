"""From a value to a queued report, under the ledger: what `Client.record` does.

A `Recorder` over a `MemoryState` is a whole device without files or threads, for fleets; over a
`SqliteState` it is the one in an app.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from client_sdk.errors import StateChangedError
from client_sdk.randomisation.encoder import Encoder, MetricEncoder
from client_sdk.randomisation.key_derivation import Randomness, system_randomness
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.recording.ledger import Ledger
from client_sdk.storage.interface import (
    RETIRED,
    Draft,
    Limits,
    Source,
    Stop,
    Stored,
    load_stop,
    put_stop,
)
from rappor_core.calendar import MEAN_DAYS, SECONDS_A_DAY, day_of, last_day, period_number
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.validation import APP, Platform

if TYPE_CHECKING:
    from client_sdk.storage.sqlite import SqliteState

ELSEWHERE: Final = "elsewhere"  # the metric is declared for other platforms
EVER = (1 << 62) - 1  # a period that no clock reaches

Outcome = Literal["queued", "queued_fallback", "full", "expired", "closed", "elsewhere", "stopped"]


class Recorder:
    """Records values of one device: encode, ask the ledger, queue.

    metrics: the declared ones, by name.  budget: nats over all of them, or None.
    platform: where this is; metrics that are not declared for it are refused (`elsewhere`).
    Raises StateChangedError where the state holds no secret.
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
        """Read the secret; the metrics are prepared when first used."""
        secret = state.identity().secret
        if secret is None:
            raise StateChangedError("the state holds no secret: the person does not consent")
        self._secret = secret
        self._metrics = metrics
        self._state = state
        self._level = PrivacyLevel.of(level or "standard")
        self._platform = platform
        self._ledger = Ledger(state, budget, self._level)
        self._encoder = Encoder(metrics, secret, randomness)
        self._metric_states: dict[str, MetricState] = {}

    def record(self, name: str, value: object, now: float) -> Outcome:
        """Queue a report of a value at a time (seconds since 1970, UTC), or say why not.

        Raises UnknownMetricError, ValueRefusedError, and StateChangedError when another process
        has replaced or wiped the secret. `full`: the metric's period or life has all its reports.
        """
        day = int(now // SECONDS_A_DAY)
        state = self._metric_states.get(name) or self._prepare(name, day)
        if state.stop is not None and self._is_stopped(state, now):
            return "stopped"
        return self._queue(state, state.device.value_bits(value), day)

    def record_bits(self, name: str, bloom_bits: int, day: int) -> Outcome:
        """Record a value as `record` does, given its bits; day: since 1970-01-01, UTC."""
        state = self._metric_states.get(name) or self._prepare(name, day)
        if state.stop is not None and self._is_stopped(state, (day + 1.0) * SECONDS_A_DAY):
            return "stopped"
        return self._queue(state, bloom_bits, day)

    def _is_stopped(self, state: MetricState, now: float) -> bool:
        """Whether the collector has stopped a metric; one report a day of a paused one is not."""
        stop = state.stop
        if stop is None or stop.params_id != state.device.params_id:
            return False
        if stop.reason == RETIRED or now < stop.until:
            return True
        later = stop._replace(until=now + SECONDS_A_DAY)
        put_stop(self._state, state.device.metric.name, later)  # raises where the state is held
        state.stop = later
        return False

    def forget_metric(self, name: str) -> None:
        """Discard what is remembered of a metric, since the collector stopped or resumed it."""
        self._metric_states.pop(name, None)

    def fill_periods(self, now: float) -> int:
        """Send `no_data` for each period that is over, took nothing, and still takes reports.

        Only for metrics that declare it and that this device has used, and not for those of
        fixes, whose periods are closed by `Visits`. Returns how many it queued.
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
        """The encoder of one metric on this device. Raises UnknownMetricError."""
        return (self._metric_states.get(name) or self._prepare(name)).device

    def runs_here(self, metric: Metric) -> bool:
        """Whether a metric is declared for the platform on which this runs."""
        return self._platform in metric.platforms

    @property
    def budget(self) -> float:
        """The present budget over all metrics and for life, nats; infinite for no bound."""
        return self._ledger.budget

    def why_closed(self, name: str) -> str:
        """The reason, in one word, why a metric records nothing any more; "" if it does."""
        state = self._metric_states.get(name)
        return "" if state is None else state.closed

    def forget(self) -> None:
        """Discard what is remembered of all metrics, since a transaction around it was undone (a
        full disk)."""
        self._metric_states = {}

    def _queue(self, state: MetricState, bits: int, day: int) -> Outcome:
        """One commit for a value that the ledger knows; the ledger decides on a new one."""
        if day < 0:  # a clock without a battery: the wire begins in 1970, and so do periods
            day = 0
        if day > state.last_day:
            return "expired"
        if state.closed:
            return ELSEWHERE if state.closed == ELSEWHERE else "closed"
        sent = state.replaced(bits)
        stored = self._store(state, sent, day)
        if stored == "not_memoised":
            admitted = self._admit(state, bits)
            if admitted is None:
                return "closed"
            sent = admitted
            stored = self._store(state, sent, day)
        if stored == "not_memoised":
            raise StateChangedError("the state was wiped while a value was recorded")
        if stored == "full":
            return "full"
        return "queued" if sent == bits else "queued_fallback"

    def _store(self, state: MetricState, bits: int, day: int) -> Stored:
        device = state.device
        draft = Draft(state.source, device.digest(bits), day, device.report_bits(bits))
        return self._state.add_report(draft, state.limits(day))

    def _admit(self, state: MetricState, bits: int) -> int | None:
        """Ask the ledger about a value that it may not know; remember an answer that is final."""
        with self._state.transaction():
            self._check_secret()
            decision = self._ledger.admit(state.device, bits)
        if decision.bits is None:
            state.closed = decision.reason
            self._state.count(f"closed:{state.device.metric.name}:{decision.reason}")
        elif decision.reason:
            entries = self._state.entries(state.device.line)
            state.full_at = frozenset(entry.digest for entry in entries)
            state.fallback = decision.bits
        return decision.bits

    def _check_secret(self) -> None:
        """In the transaction of what hangs on the secret: another process may replace it."""
        if self._state.identity().secret != self._secret:
            raise StateChangedError("another process has replaced or wiped the secret")

    def _prepare(self, name: str, day: int | None = None) -> MetricState:
        """First use of a metric in this process. day: since 1970-01-01, where it is known."""
        device = self._encoder.metric(name)
        metric = device.metric
        runs_here = self.runs_here(metric)
        with self._state.transaction():
            self._check_secret()
            reason = self._ledger.agree(metric, device.line) if runs_here else ELSEWHERE
            source = self._state.source(Source(name, device.params_id, device.cohort))
        per_period = int(min(metric.max_reports_per_period, self._level.max_reports_per_period))
        state = MetricState(device, source, per_period, reason)
        state.stop = load_stop(self._state, name)
        if not reason:  # nothing is carried over to what is refused
            counted_by, unit = state.counted_by
            present = None if day is None else period_number(unit, max(0, day))
            self._state.count_by(counted_by, unit, present)
        if reason and runs_here:
            self._state.count(f"closed:{name}:{reason}")
        self._metric_states[name] = state
        return state


class MetricState:
    """The recorder's memory of one metric: its encoder, its limits, and final decisions.

    closed: why nothing of this metric is recorded any more, or "".
    full_at: digests that the ledger held when it had no more place, or None before that.
    """

    def __init__(self, device: MetricEncoder, source: int, per_period: int, closed: str) -> None:
        """Nothing is decided yet but `closed`."""
        self.device = device
        self.source = source
        self.closed = closed
        self.full_at: frozenset[bytes] | None = None
        self.fallback = 0
        self.stop: Stop | None = None
        self.last_day = day_of(device.metric.expires)
        self._per_period = per_period
        self._latest: tuple[int, Limits] | None = None  # replaced as a whole: threads share it

    def replaced(self, bits: int) -> int:
        """The bits to send for a value: its own, or the fallback's where the ledger is full
        without it."""
        if self.full_at is None or self.device.digest(bits) in self.full_at:
            return bits
        return self.fallback

    def limits(self, day: int) -> Limits:
        """The limits on the number of reports that apply on a day: of its period, and for life.

        What bounds a life is counted by the declared name, so that new slots or levels do not
        start anew; so is the one report in a window.
        """
        latest = self._latest
        if latest is None or latest[0] != day:
            self._latest = latest = day, self._limits(day)
        return latest[1]

    @property
    def counted_by(self) -> tuple[str, str]:
        """The name and the unit of time by which reports are limited."""
        metric = self.device.metric
        if metric.spaced:
            return self.device.line, "day"  # periods may be redeclared
        return metric.name, metric.period

    def _limits(self, day: int) -> Limits:
        metric, line = self.device.metric, self.device.line
        name, unit = self.counted_by
        return Limits(
            name,
            period_number(unit, day),
            self._per_period,
            line,
            metric.max_reports,
            _days_of_one_report(metric, day),
        )


def _days_of_one_report(metric: Metric, day: int) -> tuple[int, int] | None:
    """First and last day among which a report is the only one, of a metric that is `spaced`.

    With fresh turns those of its block, else as many as a window has before it and after it.
    """
    place, unit = metric.location, metric.period
    if place is None or not metric.spaced:
        return None
    if place.turn == "fresh":
        first = period_number(unit, day) // place.window * place.window
        return max(last_day(unit, first - 1) + 1, 0), last_day(unit, first + place.window - 1)
    apart = int((place.window - 0.5) * MEAN_DAYS[unit])
    return max(day - apart, 0), day + apart
