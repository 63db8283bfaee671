"""The success rate of an attack that knows everyone's history, completely or only its times.

The observer has every memoized report of one device of a cohort, in order, and guesses the most
likely device. For each device it knows the times (when there was data, and when the last known
value changed), or the whole history. Slots and periods with the same value show the same permanent
answer, over which the likelihood sums. An observer who knows only the times treats each stretch
between two changes as an unknown value, which yields a lower bound. If a device reports only when
the app runs, the dates of its reports show when it ran. Fresh reports need no attack: what they
reveal has a bound (`bound_of_fresh`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from privacy_audit.devices import (
    CELLS,
    NONE,
    RATE,
    Floats,
    Integers,
    Lives,
    World,
    draw_lives,
    draw_permanent,
    log_evidence,
)
from privacy_audit.location_attacks import relinked
from rappor_core.calendar import PERIOD_DAYS
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.sequence_risk import first_guess, sequence_risk

Bools = NDArray[np.bool_]

WATCHED = 12, 45  # numbers of watched periods
CROWD = 1_000  # the number of devices in a cohort
COHORTS, TARGETS = 4, 250  # the number of simulated cohorts and of target devices in each
DIGITS = 8  # decimals of a score, so that equal evidence ties
_LEFT_OUT = np.iinfo(np.int64).min


@dataclass(frozen=True)
class FoundByLife:
    """The probability that the attack's first guess among `crowd` devices is right.

    If dates show the use of the app, only devices that reported at all count.
    """

    periods: int  # the number of watched periods
    crowd: int
    by_times: float  # identified by the times of data and changes, or of use if dates show it
    by_life: float  # the fraction identified by the whole history


def can_be_watched(metric: Metric) -> bool:
    """Return whether a device reports repeatedly, with memoized answers or only on days of use."""
    return metric.max_reports != 1 and (dates_are_reported(metric) or _values_are_scored(metric))


def dates_are_reported(metric: Metric) -> bool:
    """Return whether a device reports only in periods in which the app records something."""
    return metric.location is None and metric.no_data is None and not metric.rules.collected


def _values_are_scored(metric: Metric) -> bool:
    params = metric.params
    return (
        (metric.rules.takes_numbers or metric.rules.details is None)
        and not params.scheme.single_bit
        and params.mechanism.has_permanent_round
    )


def bound_of_fresh(metric: Metric, world: World, periods: int, crowd: int) -> float:
    """Bound the fraction of right first guesses for any prior knowledge; 1 if there is no bound.

    The bound holds after `periods` periods from the start of a block. A right guess has a
    probability of at most sum_o max_i P(o | i) / n over all possible observations o. So each period
    in which an answer may arrive, and the case of none, adds at most one bound.
    """
    risk = sequence_risk(metric)
    if not risk.bounded:
        return 1.0
    span = 1 if metric.location is None else metric.location.window or 1
    reports = min(math.ceil(periods / span), metric.max_reports or periods)
    dates = 1 + _patience(metric) if world == "rarely" else 1
    sent = min(metric.epsilon_one * reports, risk.epsilon)
    return float(min(1.0, first_guess(sent, crowd) * dates**reports))


def share_that_arrives(metric: Metric) -> float:
    """Return the fraction of due answers that arrive if apps run only when there is data.

    If rates of use are drawn from beta(1, b), it is k / (b + k) after k periods.
    """
    return _patience(metric) / (RATE[1] + _patience(metric))


def _patience(metric: Metric) -> int:
    """Return the number of periods, 1 or more, that an answer waits for the app to run."""
    return max(1, (metric.accept_days + 1) // PERIOD_DAYS[metric.period])


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
    """Attack devices in simulated cohorts after each of several numbers of periods.

    Args:
        metric: A metric that `can_be_watched`.
        world: The world of the histories.
        rng: The generator of histories, hashes and reports.
        periods: The numbers of periods, each 1 or more.
        crowd: The number of devices in a cohort, 2 or more.
        cohorts: The number of cohorts to draw, 1 or more.
        targets: The number of target devices in each cohort.
    """
    shares = np.zeros((len(periods), 2))
    listed = metric.params.scheme.own_bits and _values_are_scored(metric)
    cells = min(metric.params.num_bits - 1 if listed else CELLS, CELLS)
    slots = 1 if metric.location is None else len(metric.location.slots)
    drawn = max(periods) + _patience(metric)
    with threadpool_limits(1):
        for _ in range(cohorts):
            lives = draw_lives(world, crowd, slots, drawn, rng, cells)
            shares += _hit_shares(metric, lives, periods, min(targets, crowd), rng) / cohorts
    return [
        FoundByLife(number, crowd, *map(float, row))
        for number, row in zip(periods, shares, strict=True)
    ]


def _hit_shares(
    metric: Metric, lives: Lives, periods: Sequence[int], targets: int, rng: np.random.Generator
) -> Floats:
    """Return the fractions of a cohort identified by times and by histories: (periods, 2)."""
    dates, rows = _dates(metric, lives), list[list[float]]()
    reports: Integers | None = None
    if _values_are_scored(metric):
        params, hashed, bits, unknown = _memoized(metric, lives, rng)
        reports = memoized_reports(params, bits[:targets], hashed, rng)
        named = np.arange(params.num_bits)[None] if params.scheme.symbols else hashed
    for number in periods:
        times = np.zeros((targets, len(lives.values)))
        reported = np.arange(targets)
        if dates is not None:
            times = same_periods(dates[0][:, :number], targets)
            reported = np.nonzero(dates[1][:targets, :number].any(axis=1))[0]
        by_life = times.copy()
        if reports is not None:
            near = np.nonzero((times == 0).any(axis=0))[
                0
            ]  # few other devices were used on exactly the same days
            groups = bits[near][..., :number]
            if dates is not None:
                groups = np.where(dates[1][near, None, :number], groups, _LEFT_OUT)
            by_life[:, near] += by_groups(params, reports[:, :, :number], groups, named)
            if dates is None:
                times = by_groups(params, reports[:, :, :number], unknown[..., :number], named)
        rows.append([relinked(score[reported], 1, rng, reported) for score in (times, by_life)])
    return np.array(rows)


def unknown_values(lives: Lives, answers: Integers, other: int) -> Integers:
    """Return the answers as an observer knows them who knows only their times, (n, S, T).

    Each stretch between changes has its own number below 0; periods without answer, `other`.
    """
    changed = np.cumsum(lives.changes, axis=2)
    slots = changed.shape[1]
    unknown = -1 - (changed * slots + np.arange(slots)[None, :, None])
    return np.where(answers == NONE, other, unknown)


def _dates(metric: Metric, lives: Lives) -> tuple[Bools, Bools] | None:
    """Return, each (n, T), the periods of use that dates reveal and those whose reports arrive.

    Return None if the dates of reports reveal nothing.
    """
    used = lives.used
    if dates_are_reported(metric):
        used = used & (used.cumsum(axis=1) <= (metric.max_reports or used.shape[1]))
        return used, used
    if not lives.rarely:
        return None
    came: Bools = lives.next_use - np.arange(used.shape[1]) <= _patience(metric)
    return used, came if metric.location is not None else came | used  # a value is sent immediately


def same_periods(used: Bools, targets: int) -> Floats:
    """Return 0 for each device used in the same periods as a target, else -inf: (targets, n)."""
    table = used.astype(np.float64)
    first = table[:targets]
    return np.where((1 - first) @ table.T + first @ (1 - table).T > 0, -np.inf, 0.0)


def _memoized(
    metric: Metric, lives: Lives, rng: np.random.Generator
) -> tuple[RapporParams, Integers, Integers, Integers]:
    """Return the data for the attack on memoized reports.

    It is the parameters; the bits of each value, `other` last, (h, values); the answer that each
    device memoizes, (n, S, T); and the answers as far as times reveal them, (n, S, T).
    """
    params, values = metric.params, len(lives.shares) + 1
    if params.scheme.own_bits:
        params = params.replace(num_bits=values)  # unused bits reveal no history
        hashed = np.arange(values)[None]
    else:
        hashed = rng.integers(params.num_bits, size=(params.num_hashes, values))
    answers = lives.answers(0 if metric.location is None else metric.location.hold)
    other = int(hashed[0, -1]) if params.scheme.symbols else values - 1
    bits = hashed[0][answers] if params.scheme.symbols else answers % values
    unknown = unknown_values(lives, answers, other)
    return params, hashed, capped(bits, metric.max_memoized_values, other), unknown


def capped(bits: Integers, cap: int, other: int) -> Integers:
    """Replace each value beyond a device's cap with `other`, which also counts: (n, S, T)."""
    result = bits.copy()
    for device in result:
        memory = {other}
        for period in range(device.shape[1]):
            for slot in range(device.shape[0]):
                value = int(device[slot, period])
                if value in memory or len(memory) < cap:
                    memory.add(value)
                else:
                    device[slot, period] = other
    return result


def memoized_reports(
    params: RapporParams, bits: Integers, hashed: Integers, rng: np.random.Generator
) -> Integers:
    """Draw what devices show in each slot and period: (targets, S, T, k), of 0 and 1."""
    rows, k = bits.reshape(len(bits), -1), params.num_bits
    order = np.arange(k)[None] if params.scheme.symbols else hashed
    reports = np.zeros((*rows.shape, k), dtype=np.int64)
    _, _, p2, q2 = params.mechanism.rates
    for device, row in enumerate(rows):
        values, index = np.unique(row, return_inverse=True)
        permanent = draw_permanent(order[:, values], params, rng)[index]
        if params.scheme.symbols:
            honest = rng.random(len(row)) < p2
            away = rng.integers(1, k, size=len(row))
            symbol = permanent.argmax(axis=1)
            reports[device, np.arange(len(row)), np.where(honest, symbol, (symbol + away) % k)] = 1
        else:
            chance = np.where(permanent == 1, p2, q2)
            reports[device] = rng.random(chance.shape) < chance
    return reports.reshape(*bits.shape, k)


def by_groups(params: RapporParams, reports: Integers, groups: Integers, named: Integers) -> Floats:
    """Return the log likelihood of each stream for each device, (targets, n).

    Slots and periods of one group show one permanent answer, independent of all others. `groups`
    (n, S, T) are indices into `named`. Each negative number is a separate unknown value, and
    `_LEFT_OUT` belongs to no group.
    """
    targets, k = len(reports), params.num_bits
    flat = reports.reshape(targets, -1, k).transpose(0, 2, 1).reshape(targets * k, -1)
    flat = flat.astype(np.float64)
    score = np.zeros((targets, len(groups)))
    for device, row in enumerate(groups.reshape(len(groups), -1)):
        labels, index, sizes = np.unique(row, return_inverse=True, return_counts=True)
        counts = (flat @ np.eye(len(labels))[index]).reshape(targets, k, len(labels))
        score[:, device] = sum(
            log_evidence(params, counts[..., i], int(size), named[:, label] if label >= 0 else None)
            for i, (label, size) in enumerate(zip(labels, sizes, strict=True))
            if label != _LEFT_OUT
        )
    return np.round(score, DIGITS)
