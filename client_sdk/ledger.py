"""The ledger: what this device may still tell, decided before anything is told.

One line for each metric by base name, across params_ids, slots and levels. Each distinct permanent
response costs epsilon_infinity once, because it is what many reports of it would reveal in the end;
so a line counts distinct responses against `max_memoized_values` and adds up their costs. The
fallback is memoised before any other value, so that there is always something to send past the
cap: silence would tell that the value changed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from client_sdk.days import PERIOD_DAYS
from client_sdk.privacy_level import PrivacyLevel
from client_sdk.state import Entry, Line, State
from rappor_core.frozen import Frozen
from rappor_core.metrics import Metric
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from client_sdk.device import MetricDevice

ROUNDING = 1 + 1e-9  # epsilons are computed in doubles; an equal one must not look larger


class Promise(Frozen):
    """What a metric promised when this device first used it; epsilons in nats."""

    epsilon_infinity: float
    epsilon_one: float
    lifetime_epsilon: float
    max_memoized_values: float
    max_reports: float
    reports_per_day: float

    @classmethod
    def of(cls, metric: Metric) -> Promise:
        """The promise in a definition."""
        return cls(
            metric.params.epsilon_infinity,
            metric.params.epsilon_one,
            metric.lifetime_epsilon,
            metric.max_permanent_responses,
            math.inf if metric.max_reports is None else metric.max_reports,
            _reports_in_a_period(metric) / PERIOD_DAYS[metric.period],
        )

    def weaker_than(self, first: Promise) -> list[str]:
        """Names of what this one promises less of than `first`."""
        then = first.to_fields()
        return [name for name, now in self.to_fields().items() if now > then[name] * ROUNDING]

    def to_json(self) -> str:
        """For the state."""
        return json.dumps(self.to_fields())

    @classmethod
    def from_json(cls, text: str) -> Promise:
        """The inverse of `to_json`."""
        return cls(**json.loads(text))


class Decision(NamedTuple):
    """What to send for a value. bits: B to encode, or None to stay quiet; reason: why not B."""

    bits: int | None
    reason: str = ""


class Ledger:
    """Enforces the caps of one device. budget: nats over all metrics, or None."""

    def __init__(self, state: State, budget: float | None, level: PrivacyLevel) -> None:
        """The person's level tightens the app's bounds."""
        self._state = state
        self._budget = min(math.inf if budget is None else budget, level.max_epsilon)
        self._level = level

    def agree(self, metric: Metric, line_name: str) -> str:
        """Enter the promise of a metric, or compare it with the first one.

        "" when it may be used; otherwise why not: a device never takes a weaker promise for a
        metric than the one that it first had, whatever the app's new version declares.
        """
        promise = Promise.of(metric)
        with self._state.transaction(durable=True):
            line = self._state.line(line_name)
            if line is None:
                self._state.put_line(Line(line_name, promise.to_json()))
                return ""
        weaker = promise.weaker_than(Promise.from_json(line.agreed))
        return f"weaker_than_agreed:{weaker[0]}" if weaker else ""

    def admit(self, device: MetricDevice, bits: int) -> Decision:
        """Decide once for each distinct value of a metric: itself, its fallback, or nothing.

        Nothing only where not even what must be sent past the cap fits any more, which does not
        depend on the value.
        """
        with self._state.transaction(durable=True):
            reserved = device.reserved_bits()
            if not self._memoise(device, reserved):
                return Decision(None, "nothing_left")
            if self._memoise(device, [bits]):
                return Decision(bits)
        return Decision(device.fallback_bits(), "past_cap")

    def _memoise(self, device: MetricDevice, several: Iterable[int]) -> bool:
        """Memoise all of several values that are not yet; none, if not all of them fit."""
        entries = self._state.entries(device.line)
        known = {entry.digest for entry in entries}
        wanted = {device.digest(bits): None for bits in several}
        new = [digest for digest in wanted if digest not in known]
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
            return False  # the state was wiped since the promise was entered
        used = line.past_values + len(entries)
        if used + number > min(metric.max_permanent_responses, self._level.max_values):
            return False
        others = sum(
            committed(other, self._state.entries(other.name))
            for other in self._state.lines()
            if other.name != name
        )
        extra = [Entry(name, b"", "", cost)] * number
        return others + committed(line, entries + extra) <= self._budget * ROUNDING


def _reports_in_a_period(metric: Metric) -> float:
    """At most, by the declared name: of a location, one a slot, or one in a window."""
    if metric.location is None:
        return metric.max_reports_per_period
    slots, window = len(metric.location.slots), metric.location.window
    return slots if metric.location.mode == "memo" else 1 / max(window, 1)


def committed(line: Line, entries: Iterable[Entry]) -> float:
    """Nats that all reports ever made from what is memoised can cost, at most."""
    by_values = line.past_cost + sum(entry.cost for entry in entries)
    promise = Promise.from_json(line.agreed)
    by_reports = (
        math.inf if math.isinf(promise.max_reports) else promise.max_reports * promise.epsilon_one
    )
    return min(by_values, by_reports)


def spent(line: Line, entries: Iterable[Entry]) -> float:
    """Nats that the reports made so far have cost: epsilon_n of each memoised value, added up."""
    return line.past_spent + sum(map(entry_spent, entries))


def entry_spent(entry: Entry) -> float:
    """epsilon_n of one memoised value, for the reports made from it."""
    return RapporParams.from_dict(json.loads(entry.params)).epsilon_n(entry.reports)
