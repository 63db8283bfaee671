"""An attack that sorts batches by device, based on bodies, arrival times and addresses.

The observer has every report of a cohort, one per device and period, and sorts them into one track
per device. A track with more reports has a better estimate of its permanent bits. So the assignment
of each day is solved again, given all other days, until nothing changes (hard expectation
maximization, with the Kuhn-Munkres assignment). The most likely result of several starts counts.
Better attacks may exist, so the figures are lower bounds. A relay hides the address, but not the
time. If relay and collector collude, they see both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from privacy_audit.devices import (
    Floats,
    Integers,
    draw_permanent,
    draw_shown,
    log_shown,
    state_chances,
)
from privacy_audit.location_attacks import reports_in
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.risk import public_groups

DAYS = (2, 30, 90)
GATHERED = 0.9  # the fraction of a device's reports that one track must contain
MAX_PASSES = 10
STARTS = 2
MAX_CROWD = 100  # devices with equal public attributes; larger crowds are almost untraceable
ENOUGH_DEVICES = 100  # the number simulated per figure, in a few seconds per metric
DAY_SECONDS = 86_400.0
MEAN_DELAY = 600.0  # as in `client_sdk.delivery.options`
# 87 % of 2,230 people kept an address for more than a month (Mishra et al., "Don't count me out",
# WWW 2020, doi:10.1145/3366423.3380161)
ADDRESS_CHANGES_A_DAY = -math.log(0.87) / 30

Phases = NDArray[np.complex128]


@dataclass(frozen=True)
class Arrivals:
    """The arrival times of reports, on a circle of `length` seconds.

    Each device has its own time of use, uniform over the day, with normal deviations from day to
    day. Its reports leave after an exponential delay.
    """

    mean_delay: float = MEAN_DELAY  # the mean time in seconds from use to sending
    habit: float = 1_800.0  # the standard deviation in seconds of a device's time of use
    length: float = DAY_SECONDS  # shorter for part of a crowd, to keep the same density

    def draw(self, days: int, devices: int, rng: np.random.Generator) -> Phases:
        """Draw times as points of the unit circle, shape (days, devices)."""
        usual = rng.uniform(0, self.length, devices)
        used = usual + rng.normal(0, self.habit, (days, devices))
        sent = used + rng.exponential(self.mean_delay, (days, devices))
        return np.asarray(np.exp(2j * np.pi * sent / self.length))

    def fit(self, tracks: Phases, days: int, arrived: Phases) -> Floats:
        """Return the log likelihood that each report's time belongs to each track.

        The result has shape (reports, tracks), up to a constant. Times follow a von Mises law
        around the track's mean time, whose uncertainty is part of the variance.

        Args:
            tracks: The sums of the time points of each track's reports.
            days: The number of reports in each track, 1 or more.
            arrived: The times of the reports to assign.
        """
        variance = (self.habit**2 + self.mean_delay**2) * (1 + 1 / days)
        sharpness = (self.length / (2 * np.pi)) ** 2 / max(variance, 1e-9)
        turn = np.angle(arrived[:, None] * tracks.conj()[None, :])
        return np.asarray(sharpness * (np.cos(turn) - 1))


def joined_by_time(devices: int, mean_delay: float = MEAN_DELAY) -> float:
    """Return the fraction of devices whose batches for two metrics can be linked by time.

    Both metrics are recorded at the same moment. The attack picks the nearest batch of the second
    metric. The difference of two delays has Laplace's law, and other devices' batches are uniform
    over the day, so P(none is nearer) = 1 / (1 + 2 * other batches in the mean delay).

    Args:
        devices: The number of devices that send both metrics in a day, 1 or more.
        mean_delay: The mean delay of each batch in seconds.
    """
    return 1 / (1 + 2 * (devices - 1) * mean_delay / DAY_SECONDS)


def followed_by_address(
    days: Sequence[int], rng: np.random.Generator, devices: int = 10_000
) -> list[float]:
    """Return the fraction of devices that sent 90 % of their daily reports from one address.

    A device has one address at a time, which changes at random (`ADDRESS_CHANGES_A_DAY`). There is
    one fraction for each number of days in `days`.
    """
    changed = rng.random((max(days), devices)) < ADDRESS_CHANGES_A_DAY
    changed[0] = False
    address = changed.cumsum(axis=0)
    shares = []
    for number in days:
        reports = np.zeros((int(address.max()) + 1, devices))
        for today in address[:number]:
            reports[today, np.arange(devices)] += 1
        shares.append(float((reports.max(axis=0) >= GATHERED * number).mean()))
    return shares


def gathered(
    params: RapporParams,
    reports: int,
    devices: int,
    groups: int,
    rng: np.random.Generator,
    enough: int = ENOUGH_DEVICES,
    arrivals: Arrivals | None = None,
) -> float:
    """Return the fraction of devices that have 90 % of their reports in one track.

    Args:
        params: The parameters of the metric; each device has a different value.
        reports: The number of reports of a device.
        devices: The number of devices in the population, which public attributes divide into
            `groups`.
        groups: The number of groups, 1 or more.
        rng: The generator of devices, reports and starts.
        enough: The number of devices to draw, in whole groups.
        arrivals: The arrival times that the observer sees; None for bodies only.
    """
    shares, drawn = list[float](), 0
    while drawn < enough:
        size = int(rng.binomial(devices - 1, 1 / groups)) + 1 if groups > 1 else devices
        with threadpool_limits(1):
            shares.append(_gathered(params, reports, size, rng, arrivals))
        drawn += size if groups > 1 else enough
    return float(np.mean(shares))


def over_days(
    metric: Metric, devices: int, rng: np.random.Generator, arrivals: Arrivals | None
) -> list[float]:
    """Return `gathered` for the reports of each number of days in `DAYS`."""
    groups = public_groups(metric)
    return [
        gathered(metric.params, reports_over(metric, days), devices, groups, rng, arrivals=arrivals)
        for days in DAYS
    ]


def reports_over(metric: Metric, days: int) -> int:
    """Return the maximum number of a device's reports in `days` days, at least one period."""
    return reports_in(metric, max(1, round(days / PERIOD_DAYS[metric.period])))


def _gathered(
    params: RapporParams,
    reports: int,
    size: int,
    rng: np.random.Generator,
    arrivals: Arrivals | None,
) -> float:
    """Return the fraction of one group's devices that can be tracked."""
    if size == 1:
        return 1.0
    values = rng.integers(params.num_bits, size=(params.num_hashes, size))
    permanent = draw_permanent(values, params, rng)
    series = np.stack([draw_shown(permanent, 1, params, rng) for _ in range(reports)])
    times = None if arrivals is None else arrivals.draw(reports, size, rng)
    tracks = _Tracks(params, series, arrivals, times)
    sorted_days = (tracks.sort(rng.permutation(reports)) for _ in range(STARTS))
    _, likeliest = max(sorted_days, key=lambda pair: pair[0])
    counts = np.zeros((size, size))  # the number of each device's reports, by track
    for tracks_of_day in likeliest:
        counts[tracks_of_day, np.arange(size)] += 1
    return float((counts.max(axis=0) >= GATHERED * reports).mean())


class _Tracks:
    """The reports of all devices of a group, sorted into tracks.

    `series` are bits (reports, devices, k). `times` are (reports, devices), or None if unseen.
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
        """Assign reports to tracks by day; return log likelihood and tracks (days, devices)."""
        days, size, _ = self.series.shape
        tracks = np.tile(np.arange(size), (days, 1))
        self.counts = np.zeros_like(self.series[0])
        self.clocks = np.zeros(size, dtype=np.complex128)
        self._put(order[0], tracks[order[0]], 1)
        score = total = -np.inf
        for number, day in enumerate(order[1:], 1):  # each day, given the days before it
            tracks[day], _ = self._assign(day, number)
            self._put(day, tracks[day], 1)
        for _ in range(MAX_PASSES):
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
        self.counts[where] += sign * self.series[day]
        if self.times is not None:
            self.clocks[where] += sign * self.times[day]

    def _assign(self, day: int, number: int) -> tuple[Integers, float]:
        """Return the best track of each report of a day, given `number` other days, and the fit."""
        chances, reports = _predicted(self.params, self.counts, number), self.series[day]
        fit = reports @ np.log(chances).T
        if not self.params.scheme.symbols:
            fit += (1 - reports) @ np.log1p(-chances).T
        if self.arrivals is not None and self.times is not None:
            fit += self.arrivals.fit(self.clocks, number, self.times[day])
        rows, columns = linear_sum_assignment(fit, maximize=True)
        return columns, float(fit[rows, columns].sum())


def _predicted(params: RapporParams, counts: Integers, number: int) -> Floats:
    """Return the probability that a track's next report shows each bit or symbol, (tracks, k)."""
    logs = log_shown(params, counts, number) + np.log(np.maximum(state_chances(params), 1e-9))
    chances = np.exp(logs - logs.max(axis=-1, keepdims=True))
    chances /= chances.sum(axis=-1, keepdims=True)
    ones = chances[:, 0] if params.scheme.symbols else chances[..., 1]
    _, _, p2, q2 = params.mechanism.rates
    return np.asarray(np.clip(ones * p2 + (1 - ones) * q2, 1e-9, 1 - 1e-9))
