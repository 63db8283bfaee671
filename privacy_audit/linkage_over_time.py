"""An attack that gathers the single-day reports of each device from batch bodies alone.

The adversary of `batch_linkage`, over many days: it has every report of a cohort, one a device and
period, no address, the time of arrival or none, and sorts them into as many tracks as there are
devices. A track
that holds more reports knows its permanent bits better, so the days help each other: the
assignment of each day is solved anew, given all other days, until nothing changes (hard expectation
maximisation, the assignment by Kuhn and Munkres), from several starts, of which the likeliest is
kept. Better attacks may exist: the figures are bounds from below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from metric_design.review import Finding
from privacy_audit.arrivals import Arrivals, Phases
from privacy_audit.location_attacks import draw_permanent, draw_shown
from privacy_audit.trackability import reports_in
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams
from rappor_core.risk import public_groups

DAYS = (2, 30, 90)
GATHERED = 0.9  # of a device's reports in one track
MOST_PASSES = 10
STARTS = 2
MOST_CROWD = 100  # devices that share what is public: in a larger crowd next to none are gathered
WORRYING = 0.05  # of devices, after the last of DAYS
ENOUGH_DEVICES = 200  # that are drawn for a figure
ENOUGH_FOR_A_FILE = 100  # the same, of `rappor metrics check`: a few seconds a metric

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Gathered:
    """How many devices' reports were gathered. reports: of a device. gathered: share of devices
    of which a track holds nine tenths."""

    reports: int
    gathered: float


def gathered_over_time(
    params: RapporParams,
    reports: Sequence[int],
    devices: int,
    groups: int,
    rng: np.random.Generator,
    enough: int = ENOUGH_DEVICES,
    arrivals: Arrivals | None = None,
) -> Iterator[Gathered]:
    """Attack devices with a value of its own each, after each given number of reports.

    Args:
        params: of the metric.
        reports: of a device, each number for a figure.
        devices: of the population, in `groups` that what is public tells apart (cohorts).
        groups: 1 or more.
        rng: of devices, reports and starts.
        enough: devices to draw, in whole groups.
        arrivals: the attacker sees when reports arrive; None: bodies alone.
    """
    for number in reports:
        shares, drawn = list[float](), 0
        while drawn < enough:
            size = int(rng.binomial(devices - 1, 1 / groups)) + 1 if groups > 1 else devices
            with threadpool_limits(1):
                shares.append(_gathered(params, number, size, rng, arrivals))
            drawn += size if groups > 1 else enough
        yield Gathered(number, float(np.mean(shares)))


def gathering_findings(
    file: MetricsFile, population: int, rng: np.random.Generator
) -> Iterator[Finding]:
    """Yield, for each metric, of how many devices the reports can be gathered after 2, 30 and 90
    days.

    population: devices that report, of which a cohort, with level and turn, has its share.
    """
    for metric in file.declared:
        reports = [reports_over(metric, days) for days in DAYS]
        if metric.max_reports == 1 or reports[-1] < 2:
            continue
        groups = public_groups(metric)
        crowd = population / groups
        if crowd > MOST_CROWD:
            continue  # a group that large is searched by no pairing; fewer are gathered
        found = list(
            gathered_over_time(metric.params, reports, population, groups, rng, ENOUGH_FOR_A_FILE)
        )
        figures = ", ".join(
            f"{one.gathered:.0%} after {days} days" for days, one in zip(DAYS, found, strict=True)
        )
        level: Literal["warning", "note"] = "note" if found[-1].gathered <= WORRYING else "warning"
        message = (
            f"an observer of bodies alone, without address or time, gathers nine tenths of the "
            f"reports of {figures} of devices, about {crowd:,.0f} of which share cohort, level and "
            "turn; use fewer cohorts, fewer bits, a longer period or max_reports"
        )
        yield Finding(level, metric.base_name, message)


def reports_over(metric: Metric, days: int) -> int:
    """Reports of a device in so many days, one a period; 1 or more."""
    return reports_in(metric, max(1, round(days / PERIOD_DAYS[metric.period])))


def _gathered(
    params: RapporParams,
    reports: int,
    size: int,
    rng: np.random.Generator,
    arrivals: Arrivals | None,
) -> float:
    """Share of the devices of one group whose reports are gathered."""
    if size == 1:
        return 1.0
    values = rng.integers(params.num_bits, size=(params.num_hashes, size))
    permanent = draw_permanent(values, params, rng)
    series = np.stack([draw_shown(permanent, 1, params, rng) for _ in range(reports)])
    times = None if arrivals is None else arrivals.draw(reports, size, rng)
    tracks = _likeliest(_Tracks(params, series, arrivals, times), rng)
    held = np.zeros((size, size))  # of each device's reports, by track
    for own in tracks:
        held[own, np.arange(size)] += 1
    return float((held.max(axis=0) >= GATHERED * reports).mean())


class _Tracks:
    """Reports of all devices of a group, sorted into tracks.

    series: (reports, devices, k) bits.  times: (reports, devices) of arrival, if they are seen.
    """

    def __init__(
        self,
        params: RapporParams,
        series: Integers,
        arrivals: Arrivals | None,
        times: Phases | None,
    ) -> None:
        self.params, self.series, self.arrivals, self.times = params, series, arrivals, times

    def sort(self, order: Integers) -> tuple[float, Integers]:
        """Sort the days in this order; log likelihood of the last pass, and tracks (reports,
        devices)."""
        days, size, _ = self.series.shape
        tracks = np.tile(np.arange(size), (days, 1))
        self.counts = np.zeros_like(self.series[0])
        self.clocks = np.zeros(size, dtype=np.complex128)
        self._put(order[0], tracks[order[0]], 1)
        score = total = -np.inf
        for seen, day in enumerate(order[1:], 1):  # each day given those before it
            tracks[day], _ = self._assign(day, seen)
            self._put(day, tracks[day], 1)
        for _ in range(MOST_PASSES):
            before, total = tracks.copy(), 0.0
            for day in order:
                self._put(day, tracks[day], -1)
                tracks[day], fit = self._assign(day, days - 1)
                self._put(day, tracks[day], 1)
                total += fit
            if total <= score or (before == tracks).all():
                break
            score = total
        return max(score, total), tracks

    def _put(self, day: int, where: Integers, sign: int) -> None:
        """Add the reports of a day to their tracks, or take them out."""
        self.counts[where] += sign * self.series[day]
        if self.times is not None:
            self.clocks[where] += sign * self.times[day]

    def _assign(self, day: int, seen: int) -> tuple[Integers, float]:
        """Track of each report of a day, and the log likelihood."""
        chances, reports = _predicted(self.params, self.counts, seen), self.series[day]
        fit = reports @ np.log(chances).T
        if not self.params.scheme.symbols:
            fit += (1 - reports) @ np.log1p(-chances).T
        if self.arrivals is not None and self.times is not None:
            fit += self.arrivals.fit(self.clocks, seen, self.times[day])
        rows, columns = linear_sum_assignment(fit, maximize=True)
        return columns, float(fit[rows, columns].sum())


def _likeliest(tracks: _Tracks, rng: np.random.Generator) -> Integers:
    """The track of each report, (reports, devices), of the start that fits best."""
    found = (tracks.sort(rng.permutation(len(tracks.series))) for _ in range(STARTS))
    return max(found, key=lambda one: one[0])[1]


def _predicted(params: RapporParams, counts: Integers, seen: int) -> Floats:
    """Probability that the next report of a track shows each bit, or symbol: (tracks, k)."""
    m = params.mechanism
    p1, q1, p2, q2 = (
        min(max(x / PROBABILITY_SCALE, 1e-9), 1 - 1e-9) for x in (m.p1, m.q1, m.p2, m.q2)
    )
    if params.scheme.symbols:
        logs = counts * np.log(p2 / q2)
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        kept = weights / weights.sum(axis=1, keepdims=True)
    else:
        ones = 1 - (1 - 1 / params.num_bits) ** params.num_hashes  # P(B = 1), of random values
        prior = p1 * ones + q1 * (1 - ones)
        odds = (
            np.log(prior / (1 - prior))
            + counts * np.log(p2 / q2)
            + (seen - counts) * np.log((1 - p2) / (1 - q2))
        )
        kept = 1 / (1 + np.exp(-np.clip(odds, -60, 60)))
    return np.asarray(kept * p2 + (1 - kept) * q2)
