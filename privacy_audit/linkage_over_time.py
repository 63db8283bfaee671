"""An attack that gathers the single-day reports of each device from batch bodies alone.

The adversary of `batch_linkage`, over many days: it has every report of a cohort, one a device and
period, no address and no time, and sorts them into as many tracks as there are devices. A track
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
from privacy_audit.location_attacks import draw_permanent, draw_shown
from privacy_audit.trackability import reports_in
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics.file import MetricsFile
from rappor_core.metrics.groups import public_groups
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

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
) -> Iterator[Gathered]:
    """Attack devices with a value of its own each, after each given number of reports.

    Args:
        params: of the metric.
        reports: of a device, each number for a figure.
        devices: of the population, in `groups` that what is public tells apart (cohorts).
        groups: 1 or more.
        rng: of devices, reports and starts.
        enough: devices to draw, in whole groups.
    """
    for number in reports:
        shares, drawn = list[float](), 0
        while drawn < enough:
            size = int(rng.binomial(devices - 1, 1 / groups)) + 1 if groups > 1 else devices
            with threadpool_limits(1):
                shares.append(_gathered(params, number, size, rng))
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
        reports = [_reports_in(metric, days) for days in DAYS]
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


def _reports_in(metric: Metric, days: int) -> int:
    """Of a device in so many days, one a period; 1 or more."""
    return reports_in(metric, max(1, round(days / PERIOD_DAYS[metric.period])))


def _gathered(params: RapporParams, reports: int, size: int, rng: np.random.Generator) -> float:
    """Share of the devices of one group whose reports are gathered."""
    if size == 1:
        return 1.0
    values = rng.integers(params.num_bits, size=(params.num_hashes, size))
    permanent = draw_permanent(values, params, rng)
    series = np.stack([draw_shown(permanent, 1, params, rng) for _ in range(reports)])
    tracks = _likeliest(params, series, rng)
    held = np.zeros((size, size))  # of each device's reports, by track
    for own in tracks:
        held[own, np.arange(size)] += 1
    return float((held.max(axis=0) >= GATHERED * reports).mean())


def _likeliest(params: RapporParams, series: Integers, rng: np.random.Generator) -> Integers:
    """The track of each report, (reports, devices), of the start that fits best."""
    best, found = -np.inf, np.zeros(series.shape[:2], dtype=np.int64)
    for _ in range(STARTS):
        order = rng.permutation(len(series))
        score, tracks = _sorted_into_tracks(params, series[order])
        if score > best:
            best = score
            found[order] = tracks
    return found


def _sorted_into_tracks(params: RapporParams, series: Integers) -> tuple[float, Integers]:
    """Log likelihood of the last pass, and tracks (reports, devices)."""
    days, size, _ = series.shape
    tracks = np.tile(np.arange(size), (days, 1))
    counts, seen, score = series[0].copy(), 1, -np.inf
    for day in range(1, days):  # each day given those before it
        tracks[day], _ = _assign(params, counts, seen, series[day])
        counts[tracks[day]] += series[day]
        seen += 1
    for _ in range(MOST_PASSES):
        before, total = tracks.copy(), 0.0
        for day in range(days):
            counts[tracks[day]] -= series[day]
            tracks[day], fit = _assign(params, counts, days - 1, series[day])
            counts[tracks[day]] += series[day]
            total += fit
        if total <= score or (before == tracks).all():
            break
        score = total
    return max(score, total), tracks


def _assign(
    params: RapporParams, counts: Integers, seen: int, reports: Integers
) -> tuple[Integers, float]:
    """Track of each report, and the log likelihood; counts: bits shown in each track so far."""
    chances = _predicted(params, counts, seen)
    if params.scheme.symbols:
        fit = reports @ np.log(chances).T
    else:
        fit = reports @ np.log(chances).T + (1 - reports) @ np.log1p(-chances).T
    rows, columns = linear_sum_assignment(fit, maximize=True)
    return columns, float(fit[rows, columns].sum())


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
