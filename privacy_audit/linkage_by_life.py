"""An attack on linked reports: find a device by what is known of everybody's life or presence.

Among the devices of a cohort, the adversary has every report of one, in order, and knows of each of
them (a) in which slots and periods there was data, (b) when its last known cell changed, or (c) the
whole life. It names the likeliest. Of two symbols the likelihood is exact: a forward recursion over
the hidden symbol of each period, summed over the permanent answers, the unknown rate of change
mixed. Of fresh reports it is exact, too, where the cells of several turns are drawn apart. With (b)
an answer between two changes is `other` as often as such answers of all devices are. Of filters,
and of more symbols, (c) is exact, (a) takes all periods with data for one cell, and (b) each time
between changes: lower bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from privacy_audit.lives import CELLS, NONE, Lives, World, draw_lives
from privacy_audit.location_attacks import relinked
from privacy_audit.memoised_scores import (
    DIGITS,
    KNOWN,
    Knowledge,
    capped,
    chance_of_other,
    memoised_reports,
    memoised_scores,
    stands_for_other,
)
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.sequence_risk import first_guess, sequence_risk

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
KINDS = "location", "string", "category", "number"

WATCHED = 12, 45  # periods
CROWD = 1_000  # devices of a cohort
COHORTS, TARGETS = 4, 250  # drawn cohorts, and devices of each that are looked for


@dataclass(frozen=True)
class FoundByLife:
    """How often the attack finds a device at first guess among `crowd`, by each kind of
    knowledge.

    periods: that were watched.  by_presence, by_changes, by_life: shares of the devices looked
    for.  bound: that no share exceeds, whatever is known, but for chance; 1 where there is none.
    """

    periods: int
    crowd: int
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
        metric: any with one report a period, in each slot or when it is a slot's turn; one that is
            no place has data in every period unless it declares `no_data`.
        world: of the lives.
        rng: of lives, hashes and reports.
        periods: each 1 or more.
        crowd: devices of a cohort, 2 or more.
        cohorts: drawn, 1 or more.
        targets: devices of each that are looked for.
    """
    found = np.zeros((len(periods), len(KNOWN)))
    with threadpool_limits(1):
        for _ in range(cohorts):
            lives = _lives_of(metric, world, crowd, max(periods), rng)
            found += _found(metric, lives, periods, min(targets, crowd), rng) / cohorts
    return [
        FoundByLife(
            number,
            crowd,
            float(row[0]),
            float(row[1]),
            float(row[2]),
            _bound(metric, number, crowd),
        )
        for number, row in zip(periods, found, strict=True)
    ]


def _bound(metric: Metric, periods: int, crowd: int) -> float:
    """What no first guess exceeds after so many periods from the start of a block; 1: nothing."""
    risk = sequence_risk(metric)
    if not risk.bounded:
        return 1.0
    sent = metric.epsilon_one * len(_first_periods(metric, periods))
    return first_guess(min(sent, risk.epsilon), crowd)


def _first_periods(metric: Metric, periods: int) -> Integers:
    """Where the times begin in each of which a device sends one fresh report."""
    return np.arange(0, periods, _span(metric))[: metric.max_reports or periods]


def _span(metric: Metric) -> int:
    """In so many periods a device sends one fresh report."""
    return 1 if metric.location is None else metric.location.window or 1


def can_be_watched(metric: Metric) -> bool:
    """Whether a device may report more than once and this attack can simulate its reports."""
    params = metric.params
    if metric.kind not in KINDS or params.scheme.single_bit or metric.max_reports == 1:
        return False
    return metric.location is not None or params.mechanism.has_permanent_round


def _lives_of(
    metric: Metric, world: World, crowd: int, periods: int, rng: np.random.Generator
) -> Lives:
    own = metric.params.num_bits - 1 if metric.params.scheme.own_bits else CELLS
    slots = 1 if metric.location is None else len(metric.location.slots)
    lives = draw_lives(world, crowd, slots, periods, rng, min(own, CELLS))
    if metric.location is None and metric.no_data is None:  # that there was a value is no secret
        everywhere = lives.held(periods)
        return Lives(np.where(everywhere == NONE, 0, everywhere), lives.shares)
    return lives


def _found(
    metric: Metric, lives: Lives, periods: Sequence[int], targets: int, rng: np.random.Generator
) -> Floats:
    """Shares found in one cohort, (periods, knowledge)."""
    location, params = metric.location, metric.params
    hold = 0 if location is None else location.hold
    block = location.window if location is not None and location.turn == "fresh" else 0
    answers, values = lives.held(hold, block), len(lives.shares) + 1
    if params.scheme.own_bits:
        params = params.replace(num_bits=values)  # bits that nobody sets tell of no life
        hashed = np.arange(values)[None]
    else:
        hashed = rng.integers(params.num_bits, size=(params.num_hashes, values))
    if not params.mechanism.has_permanent_round:
        stream = _fresh_reports(metric, params, answers, hashed, targets, rng)
        scores = [[_fresh_scores(params, stream, lives, answers, hashed, one, number)
                   for one in KNOWN] for number in periods]  # fmt: skip
    else:
        other = stands_for_other(params, hashed)
        own = hashed[0][answers] if params.scheme.symbols else answers % values
        own = capped(own, metric.max_memoized_values, other)
        shown = memoised_reports(params, own[:targets], hashed, rng)
        scores = [
            [memoised_scores(params, hold, shown, lives, own, hashed, one, number)
             for one in KNOWN] for number in periods
        ]  # fmt: skip
    return np.array([[relinked(score, 1, rng) for score in row] for row in scores])


@dataclass(frozen=True)
class _Fresh:
    """slot, period: of each report, (targets, R).  bits: (targets, R, k), of 0 and 1."""

    slot: Integers
    period: Integers
    bits: Integers


def _fresh_reports(
    metric: Metric,
    params: RapporParams,
    answers: Integers,
    hashed: Integers,
    targets: int,
    rng: np.random.Generator,
) -> _Fresh:
    """Draw turns, which depend on no life, and the reports of the first devices."""
    location = metric.location
    slots, periods = answers.shape[1:]
    starts = _first_periods(metric, periods)
    turn = rng.integers(_span(metric) * slots, size=(targets, len(starts)))
    if location is not None and location.turn == "fixed":
        turn = np.repeat(turn[:, :1], len(starts), axis=1)
    slot, period = turn % slots, starts + turn // slots
    there = np.minimum(period, periods - 1)
    values = answers[np.arange(targets)[:, None], slot, there]
    mechanism = params.mechanism
    chance = np.full((*values.shape, params.num_bits), mechanism.p_star)
    for positions in hashed:
        np.put_along_axis(chance, positions[values][..., None], mechanism.q_star, axis=2)
    return _Fresh(slot, period, (rng.random(chance.shape) < chance).astype(np.int64))


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
        watched = stream.period[:, number] < periods
        slot, at = stream.slot[watched, number], stream.period[watched, number]
        if known == "life":
            told = np.take_along_axis(likelihood[watched, number], answers[:, slot, at].T, axis=1)
        else:
            part = absent[:, slot, at].T
            told = part * other[watched, number, None] + (1 - part) * crowd[watched, number, None]
        score[watched] += np.log(told)
    return np.round(score, DIGITS)
