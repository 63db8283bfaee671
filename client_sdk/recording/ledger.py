"""The ledger of a device, which decides what may still be reported before anything is sent.

It has one line for each metric by base name, across params_ids, slots and levels. Each distinct
permanent response costs epsilon_infinity once, because many reports of it would eventually reveal
that much. So a line counts distinct responses against `max_memoized_values` and adds up their
costs. The fallback is memoized before any other value, so that there is always an answer to send
beyond the cap. Silence would reveal that the value changed.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from client_sdk.errors import StateError
from client_sdk.recording.bounds import PrivacyLevel, store_budget, stored_budget
from client_sdk.storage.interface import Entry, Line
from client_sdk.storage.periods import MAX_TOUCHED
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.frozen import Frozen
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from client_sdk.randomization.metric_encoder import MetricEncoder
    from client_sdk.storage.sqlite import SqliteState

ROUNDING = 1 + 1e-9  # epsilons are floats; an equal epsilon must not look larger


class Promise(Frozen):
    """The limits that a metric promised when this device first used it; epsilons are in nats."""

    epsilon_infinity: float
    epsilon_one: float  # the cost of each report over the lifetime; see `Metric.epsilon_per_report`
    lifetime_epsilon: float
    max_memoized_values: float
    max_reports: float
    reports_per_day: float
    # period, reports_per_period: The limit `max_reports_per_period`, for each name under which
    # reports are counted. "" and infinity if a minimum time between reports applies instead (mode
    # `window`), and in promises from versions that did not store it.
    period: str = ""
    reports_per_period: float = math.inf
    # The maximum number of reports in any `window` consecutive periods: 2 if the schedule is drawn
    # again in each block.
    reports_in_window: float = 1.0

    @classmethod
    def of(cls, metric: Metric) -> Promise:
        """Return the promise that a metric's definition makes."""
        place, period, per_period = metric.location, str(metric.period), math.inf
        in_a_period: float = metric.max_reports_per_period
        if not metric.spaced:
            per_period = in_a_period
        if place is not None:
            in_a_period = len(place.slots) / place.num_turns
        in_window = 1.0
        if place is not None and metric.spaced:  # the time between two reports limits them
            period = ""
            in_window = float(place.most_reports_in(place.window))
        return cls(
            metric.params.epsilon_infinity,
            metric.epsilon_per_report,
            metric.lifetime_epsilon,
            metric.max_permanent_responses,
            math.inf if metric.max_reports is None else metric.max_reports,
            in_a_period / PERIOD_DAYS[metric.period],
            period,
            per_period,
            in_window,
        )

    def weaker_than(self, first: Promise) -> list[str]:
        """Return the names of the limits that are weaker than in `first`."""
        then, now = first.to_fields(), self.to_fields()
        weaker = [name for name in _BOUNDS if now[name] > then[name] * ROUNDING]
        if first.period and self.period:
            times = MAX_TOUCHED[first.period][self.period]
            if times * self.reports_per_period > first.reports_per_period * ROUNDING:
                weaker.append("reports_per_period")
        return weaker

    @classmethod
    def from_json(cls, text: str) -> Promise:
        """Read a promise from the state. Raises StateError if it is damaged."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise StateError(f"the ledger is damaged: {error}", "state_corrupt") from error


_BOUNDS = (*Promise.field_names[:6], "reports_in_window")  # compared one by one


class Decision(NamedTuple):
    """The ledger's decision on a value: which bits to send, if any."""

    bits: int | None  # B to encode, or None to send nothing
    reason: str = ""  # why it is not the value's own B; "" if it is


class Ledger:
    """The ledger that enforces the caps of one device.

    The smallest of three budgets applies: `budget` (the nats over all metrics as declared now, or
    None), the budget with which the device began, and the user's limit.
    """

    def __init__(self, state: SqliteState, budget: float | None, level: PrivacyLevel) -> None:
        store_budget(state, budget)
        self._state = state
        self._declared = math.inf if budget is None else budget
        self._level = level

    @property
    def budget(self) -> float:
        """Return the current lifetime budget over all metrics, in nats."""
        stored = stored_budget(self._state)
        bounds = self._declared, self._level.max_epsilon
        return min(*bounds, math.inf if stored is None else stored)

    def agree(self, metric: Metric, line_name: str) -> str:
        """Store the promise of a metric at first use; later, compare it with the stored promise.

        A device never accepts a promise that is weaker than the metric's first promise.

        Args:
            metric: The metric as the app declares it now.
            line_name: The name of the ledger's line.

        Returns:
            "" if the metric may be used; otherwise the reason why not.
        """
        promise = Promise.of(metric)
        with self._state.transaction():
            line = self._state.line(line_name)
            if line is None:
                self._state.put_line(Line(line_name, json.dumps(promise.to_fields())))
                return ""
            first = Promise.from_json(line.agreed)
            weaker = promise.weaker_than(first)
        return f"weaker_than_agreed:{weaker[0]}" if weaker else ""

    def admit(self, device: MetricEncoder, bits: int) -> Decision:
        """Decide which answer to send for a value: the value, the fallback, or nothing.

        Args:
            device: The encoder of the metric.
            bits: The bits B of the value.

        Returns:
            The decision. It has no bits only if not even the fallback fits, whatever the value.
        """
        with self._state.transaction():
            reserved = device.reserved_bits()
            if not self._memoize(device, reserved):
                return Decision(None, "nothing_left")
            if self._memoize(device, [bits]):
                return Decision(bits)
            if device.metric.fallback is None:  # only one answer per lifetime, at the same cost
                return Decision(None, "nothing_left")
        return Decision(device.fallback_bits(), "past_cap")

    def _memoize(self, device: MetricEncoder, several: Iterable[int]) -> bool:
        """Memoize several values, given as bits; return False, and memoize none, if not all fit.

        Entries are sorted by digest, so that their order in the file does not reveal their values.
        """
        entries = self._state.entries(device.line)
        memoized = {entry.digest for entry in entries}
        digests = {device.digest(bits): None for bits in several}
        new = sorted(digest for digest in digests if digest not in memoized)
        params = device.metric.params
        cost = params.epsilon_infinity
        if new and not self._fits(device.metric, device.line, entries, len(new), cost):
            return False
        for digest in new:
            text = json.dumps(params.to_dict())
            self._state.add_entry(Entry(device.line, digest, text, cost))
        return True

    def _fits(
        self, metric: Metric, name: str, entries: list[Entry], number: int, cost: float
    ) -> bool:
        line = self._state.line(name)
        if line is None:
            return False  # the state was wiped after the promise was stored
        used = line.past_values + len(entries)
        if used + number > min(metric.max_permanent_responses, self._level.max_values):
            return False
        others = sum(
            committed(other, self._state.entries(other.name))
            for other in self._state.lines()
            if other.name != name
        )
        extra = [Entry(name, b"", "", cost)] * number
        return others + committed(line, entries + extra) <= self.budget * ROUNDING


def committed(line: Line, entries: Iterable[Entry]) -> float:
    """Return the maximum epsilon, in nats, of past and future reports from a line's responses."""
    by_values = line.past_cost + sum(entry.cost for entry in entries)
    promise = Promise.from_json(line.agreed)
    by_reports = (
        math.inf if math.isinf(promise.max_reports) else promise.max_reports * promise.epsilon_one
    )
    return min(by_values, by_reports)


def spent(line: Line, entries: Iterable[Entry]) -> float:
    """Return the epsilon of a line's reports so far, in nats: the sum of its values' epsilon_n."""
    return line.past_spent + sum(
        RapporParams.from_dict(json.loads(entry.params)).epsilon_n(entry.reports)
        for entry in entries
    )


def past(line: Line, entries: list[Entry]) -> Line:
    """Return a line whose `past` sums include its entries, so that these can be deleted."""
    return line._replace(
        past_values=line.past_values + len(entries),
        past_cost=line.past_cost + sum(entry.cost for entry in entries),
        past_spent=spent(line, entries),
        past_reports=line.past_reports + sum(entry.reports for entry in entries),
    )


def check_ledger(database: sqlite3.Connection) -> None:
    """Decode all ledger rows as a check. Raises the errors of the parsers."""
    query = "SELECT line, digest, params, cost, reports FROM entries"
    entries = [Entry(*row) for row in database.execute(query)]
    for row in database.execute("SELECT * FROM lines"):
        line = Line(*row)
        check_line(line, [entry for entry in entries if entry.line == line.name])
    for (text,) in database.execute("SELECT ledger FROM tombstones WHERE ledger LIKE '{%'"):
        json.loads(text)


def check_line(line: Line, entries: Iterable[Entry]) -> None:
    """Decode one ledger line and its memoized responses. Raises the errors of the parsers."""
    promise = Promise.from_json(line.agreed).to_fields()
    if promise.pop("period") not in ("", *PERIOD_DAYS):
        raise ValueError(f"line {line.name!r}")
    numbers = (*promise.values(), *line[2:])
    if any(type(number) not in (int, float) or not number >= 0 for number in numbers):
        raise ValueError(f"line {line.name!r}")
    line_entries = list(entries)
    if any(entry.reports < 0 or not entry.cost > 0 for entry in line_entries):
        raise ValueError(f"entries of {line.name!r}")
    committed(line, line_entries)
    spent(line, line_entries)
