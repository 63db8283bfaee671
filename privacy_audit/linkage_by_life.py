"""An attack on linked reports: find a device by what is known of everybody's life or presence.

Among the devices of a cohort, the adversary has every report of one, in order, and knows of each of
them (a) in which slots and periods there was data, (b) when its last known cell changed, or (c) the
whole life. It names the likeliest. Of two symbols the likelihood is exact: a forward recursion over
the hidden symbol of each period, summed over the permanent answers, the unknown rate of change
mixed. Of fresh reports it is exact, too, where the cells of several turns are drawn apart. With (b)
an answer between two changes is `other` as often as such answers of all devices are. Of filters,
and of more symbols, (c) is exact, (a) takes all periods with data for one cell, and (b) each time
between changes: lower bounds. The dates of reports are seen, too. A string is reported when the app
records one, so its reports show in which periods that was. An answer about places waits until the
app runs, `accept_days` at most: in the world `seldom` (a) and (c) match the date of its arrival.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from privacy_audit.lives import CELLS, Lives, World, draw_lives
from privacy_audit.location_attacks import relinked
from privacy_audit.memoised_scores import (
    DIGITS,
    KNOWN,
    Dates,
    Knowledge,
    capped,
    chance_of_other,
    dated_scores,
    memoised_reports,
    memoised_scores,
    same_days,
    stands_for_other,
)
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.sequence_risk import first_guess, sequence_risk

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
KINDS = "location", "string", "category", "number"

WATCHED = 12, 45  # periods
CROWD = 1_000  # devices of a cohort
COHORTS, TARGETS = 4, 250  # drawn cohorts, and devices of each that are looked for


@dataclass(frozen=True)
class FoundByLife:
    """How often the attack finds a device at first guess among `crowd`, by each kind of
    knowledge.

    periods: that were watched.  came: share of the due answers that the collector got.
    by_presence, by_changes, by_life: shares of the devices looked for; where dates of reports show
    the app's use, of those that reported at all.  bound: that no share exceeds, whatever is known,
    but for chance; 1 where there is none.
    """

    periods: int
    crowd: int
    came: float
    by_presence: float
    by_changes: float
    by_life: float
    bound: float


def find_by_life(
    metric: Metric,
    world: World,
    rng: np.random.Generator,
    *,
    periods: Sequence[int] = WATCHED,
    crowd: int = CROWD,
    cohorts: int = COHORTS,
    targets: int = TARGETS,
) -> list[FoundByLife]:
    """Attack devices of drawn cohorts after each of some numbers of periods.

    Args:
        metric: any with one report a period, in each slot or when it is a slot's turn.
        world: of the lives.
        rng: of lives, hashes and reports.
        periods: each 1 or more.
        crowd: devices of a cohort, 2 or more.
        cohorts: drawn, 1 or more.
        targets: devices of each that are looked for.
    """
    found = np.zeros((len(periods), 1 + len(KNOWN)))
    listed = metric.params.scheme.own_bits and _values_are_scored(metric)
    own = metric.params.num_bits - 1 if listed else CELLS
    slots = 1 if metric.location is None else len(metric.location.slots)
    drawn = max(periods) + _patience(metric)
    with threadpool_limits(1):
        for _ in range(cohorts):
            lives = draw_lives(world, crowd, slots, drawn, rng, min(own, CELLS))
            found += _found(metric, lives, periods, min(targets, crowd), rng) / cohorts
    return [
        FoundByLife(number, crowd, *map(float, [*row, _bound(metric, world, number, crowd)]))
        for number, row in zip(periods, found, strict=True)
    ]


def _patience(metric: Metric) -> int:
    """For so many periods after its own an answer waits for the app to run, 1 or more."""
    return max(1, (metric.accept_days + 1) // PERIOD_DAYS[metric.period])


def _bound(metric: Metric, world: World, periods: int, crowd: int) -> float:
    """What no first guess exceeds after so many periods from the start of a block; 1: nothing.

    A right guess has a chance of at most sum_o max_i P(o | i) / n over what may be seen, so each
    period in which an answer may arrive, or that it never does, adds at most the bound of one.
    """
    risk = sequence_risk(metric)
    if not risk.bounded:
        return 1.0
    reports = len(_first_periods(metric, periods))
    dates = 1 + _patience(metric) if world == "seldom" else 1
    sent = min(metric.epsilon_one * reports, risk.epsilon)
    return float(min(1.0, first_guess(sent, crowd) * dates**reports))


def _first_periods(metric: Metric, periods: int) -> Integers:
    """Where the times begin in each of which a device sends one fresh report."""
    return np.arange(0, periods, _span(metric))[: metric.max_reports or periods]


def _span(metric: Metric) -> int:
    """In so many periods a device sends one fresh report."""
    return 1 if metric.location is None else metric.location.window or 1


def can_be_watched(metric: Metric) -> bool:
    """Whether a device may report more than once and this attack can simulate its reports."""
    if metric.max_reports == 1:
        return False
    return dates_are_reported(metric) or _values_are_scored(metric)


def _values_are_scored(metric: Metric) -> bool:
    """Whether reports are attacked by what they say; else by their dates alone."""
    params = metric.params
    if metric.kind not in KINDS or params.scheme.single_bit:
        return False
    return metric.location is not None or params.mechanism.has_permanent_round


def _found(
    metric: Metric, lives: Lives, periods: Sequence[int], targets: int, rng: np.random.Generator
) -> Floats:
    """Share of answers that came, and shares found, in one cohort: (periods, 1 + knowledge)."""
    location, params = metric.location, metric.params
    dates, rows = _dates_of(metric, lives), list[list[float]]()
    if dates is not None and not _values_are_scored(metric):
        days = [[same_days(dates, targets, number)] * len(KNOWN) for number in periods]
        return np.array([_by_dates(dates, *of, rng) for of in zip(periods, days, strict=True)])
    hold = 0 if location is None else location.hold
    block = location.window if location is not None and location.turn == "fresh" else 0
    answers, values = lives.held(hold, block), len(lives.shares) + 1
    if params.scheme.own_bits:
        params = params.replace(num_bits=values)  # bits that nobody sets tell of no life
        hashed = np.arange(values)[None]
    else:
        hashed = rng.integers(params.num_bits, size=(params.num_hashes, values))
    if not params.mechanism.has_permanent_round:
        stream = _fresh_reports(metric, params, lives, answers, hashed, max(periods), targets, rng)
        for number in periods:
            due = stream.period < number
            scores = [_fresh_scores(params, stream, lives, answers, hashed, one, number)
                      for one in KNOWN]  # fmt: skip
            found = [relinked(score, 1, rng) for score in scores]
            rows.append([float(stream.came[due].mean()) if due.any() else 1.0, *found])
        return np.array(rows)
    own = hashed[0][answers] if params.scheme.symbols else answers % values
    own = capped(own, metric.max_memoized_values, stands_for_other(params, hashed))
    shown = memoised_reports(params, own[:targets], hashed, rng)
    for number in periods:
        if dates is None:
            scores = [memoised_scores(params, hold, shown, lives, own, hashed, one, number)
                      for one in KNOWN]  # fmt: skip
            rows.append([1.0, *(relinked(score, 1, rng) for score in scores)])
            continue
        scores = [dated_scores(params, shown, lives, own, hashed, dates, one, number)
                  for one in KNOWN]  # fmt: skip
        rows.append(_by_dates(dates, number, scores, rng))
    return np.array(rows)


def _by_dates(
    dates: Dates, periods: int, scores: Sequence[Floats], rng: np.random.Generator
) -> list[float]:
    """Share of due answers that came, and of devices that reported, those found by each score."""
    reported = np.nonzero(dates.came[: len(scores[0]), :periods].any(axis=1))[0]
    came = float(dates.came[:, :periods].sum() / dates.due[:, :periods].sum())
    return [came, *(relinked(score[reported], 1, rng, reported) for score in scores)]


def dates_are_reported(metric: Metric) -> bool:
    """Whether a device reports in the periods alone in which the app records something."""
    return metric.location is None and metric.no_data is None and not metric.rules.collected


def _dates_of(metric: Metric, lives: Lives) -> Dates | None:
    """What the dates of memoised reports show of the app's use; None: nothing."""
    used = lives.used
    if dates_are_reported(metric):
        used = used & (used.cumsum(axis=1) <= (metric.max_reports or used.shape[1]))
        return Dates(used, used, used)
    if not lives.seldom:
        return None
    came = lives.next_use - np.arange(used.shape[1]) <= _patience(metric)
    if metric.location is None:  # a value is reported at once
        came |= used
    return Dates(used, np.ones_like(came), came)


@dataclass(frozen=True)
class _Fresh:
    """slot, period: of each report, (targets, R).  bits: (targets, R, k), of 0 and 1.
    arrived: the period in which it leaves.  came: whether it was taken then."""

    slot: Integers
    period: Integers
    bits: Integers
    arrived: Integers
    came: Bools


def _fresh_reports(
    metric: Metric,
    params: RapporParams,
    lives: Lives,
    answers: Integers,
    hashed: Integers,
    periods: int,
    targets: int,
    rng: np.random.Generator,
) -> _Fresh:
    """Draw turns, which depend on no life, and the reports of the first devices."""
    location, slots = metric.location, answers.shape[1]
    starts = _first_periods(metric, periods)
    turn = rng.integers(_span(metric) * slots, size=(targets, len(starts)))
    if location is not None and location.turn == "fixed":
        turn = np.repeat(turn[:, :1], len(starts), axis=1)
    slot, period = turn % slots, starts + turn // slots
    there = np.minimum(period, periods - 1)
    device = np.arange(targets)[:, None]
    values = answers[device, slot, there]
    mechanism = params.mechanism
    chance = np.full((*values.shape, params.num_bits), mechanism.p_star)
    for positions in hashed:
        np.put_along_axis(chance, positions[values][..., None], mechanism.q_star, axis=2)
    bits = (rng.random(chance.shape) < chance).astype(np.int64)
    arrived = lives.next_use[device, there]
    return _Fresh(slot, period, bits, arrived, arrived - there <= _patience(metric))


def _fresh_scores(
    params: RapporParams,
    stream: _Fresh,
    lives: Lives,
    answers: Integers,
    hashed: Integers,
    known: Knowledge,
    periods: int,
) -> Floats:
    """Log likelihood of each stream by each device: (targets, n)."""
    q, p = params.mechanism.q_star, params.mechanism.p_star
    log = stream.bits * (math.log(q) - math.log(p)) + (1 - stream.bits) * (
        math.log1p(-q) - math.log1p(-p)
    )
    weights = np.zeros((*log.shape[:2], hashed.shape[1]))
    for number, positions in enumerate(hashed):  # bits in common count once
        new = ~(hashed[:number] == positions).any(axis=0) if number else np.ones(1, dtype=bool)
        weights += np.where(new, log[..., positions], 0.0)
    likelihood = np.exp(weights)  # of each value, the last is `other`: (targets, R, cells + 1)
    crowd, other = likelihood[..., :-1] @ lives.shares, likelihood[..., -1]
    absent = chance_of_other(lives, answers, known)
    score = np.zeros((len(log), len(answers)))
    for number in range(log.shape[1]):
        watched = (stream.period[:, number] < periods) & stream.came[:, number]
        slot, at = stream.slot[watched, number], stream.period[watched, number]
        if known == "life":
            told = np.take_along_axis(likelihood[watched, number], answers[:, slot, at].T, axis=1)
        else:
            part = absent[:, slot, at].T
            told = part * other[watched, number, None] + (1 - part) * crowd[watched, number, None]
        score[watched] += np.log(told)
        if known != "changes":  # who knows when the app ran
            then = stream.arrived[watched, number, None] == lives.next_use[:, at].T
            score[watched] += np.where(then, 0.0, -np.inf)
    return np.round(score, DIGITS)
