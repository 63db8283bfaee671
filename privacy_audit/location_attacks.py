"""Two attacks on simulated devices of one cohort: detect a change, and re-link a device.

Each device has a permanent response; who links its reports over some periods sees it through the
noise, and recognizes it later, or sees that it changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from privacy_audit.devices import (
    Floats,
    Integers,
    draw_permanent,
    draw_shown,
    log_evidence,
    log_shown,
    state_chances,
)
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.risk import groups_together, linked_by_groups, place_groups

CROWD = 1_500
_MAX_GROUPS = 1 << 40  # of a crowd: more tell no more apart
_MAX_BITS = 128  # more bits only make the attacks stronger, and slower to run
_DIGITS = 8  # of a score: what says the same must tie, whatever the order of its sums


@dataclass(frozen=True)
class AttackResult:
    """The success of both attacks. reports: in each of two series. change_auc: .5 is a guess.
    relinked: of 1/crowd by chance.

    Of `crowd` devices of one cohort, by an adversary who knows the cohort and the parameters.
    """

    reports: int
    crowd: int
    change_auc: float
    relinked: float


def attack(
    params: RapporParams, reports: int, crowd: int, rng: np.random.Generator, groups: int = 1
) -> AttackResult:
    """Draw two series of every device, of the same value and of another one, and attack both.

    groups: into which the crowd falls by what its reports show for certain: level, turn, cohort.
    """
    permanent = _two_places(params, crowd, rng)
    before = draw_shown(permanent[0], reports, params, rng)
    after = draw_shown(permanent[0], reports, params, rng)
    moved = draw_shown(permanent[1], reports, params, rng)
    score = _scores(params, reports, before, after)
    joint = log_evidence(params, before + moved, 2 * reports)
    apart = log_evidence(params, before, reports) + log_evidence(params, moved, reports)
    other = np.round(joint - apart, _DIGITS)  # of each device's own two series
    same = np.diag(score).copy()
    others = np.sort(other)
    below = sum(np.searchsorted(others, same, side).sum() for side in ("left", "right"))
    auc = below / 2 / crowd**2  # of pairs in which the same place scores higher; ties half
    return AttackResult(reports, crowd, float(auc), relinked(score, groups, rng))


def relinked(
    score: Floats, groups: int, rng: np.random.Generator, places: Integers | None = None
) -> float:
    """Share of devices whose later reports score best for their earlier ones; ties are drawn.

    score: (n, n); changed where groups tell devices apart.  places: the column of each row's own
        device; None: pairs on the diagonal.
    """
    if groups > 1:
        group = rng.integers(groups, size=len(score))
        score[group[:, None] != group] = -np.inf
    best = score >= score.max(axis=1, keepdims=True)
    right = np.diag(best) if places is None else best[np.arange(len(best)), places]
    return float((right / best.sum(axis=1)).mean()) if len(best) else 0.0


def _two_places(
    params: RapporParams, crowd: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """B' of two unlike places of each device: places with the same bits have the same response."""
    values = rng.integers(params.num_bits, size=(2, params.num_hashes, crowd))
    if params.scheme.own_bits:  # every place has its own bit
        values[1] = (values[0] + rng.integers(1, params.num_bits, size=crowd)) % params.num_bits
    first, second = (draw_permanent(bits, params, rng) for bits in values)
    ordered = np.sort(values, axis=1)
    alike = (ordered[0] == ordered[1]).all(axis=0)
    second[alike] = first[alike]
    return first, second


def _scores(params: RapporParams, reports: int, first: Integers, second: Integers) -> Floats:
    """Log likelihood ratio of every pair (n, n): one permanent response, or two."""
    if params.scheme.symbols:
        return np.round(_log_ratios(params, reports, first, second), _DIGITS)
    counts = np.arange(reports + 1)[:, None]
    table = _log_ratios(params, reports, counts, counts)
    total = np.zeros((len(first), len(second)))
    for a, b in zip(first.T, second.T, strict=True):
        total += table[:, b][a]
    return np.round(total, _DIGITS)


def _log_ratios(params: RapporParams, reports: int, first: Integers, second: Integers) -> Floats:
    """Return the same of one bit (n, 1), or of all that one symbol shows (n, g)."""
    logs = [log_shown(params, counts, reports)[:, 0] for counts in (first, second)]
    a, b = (np.exp(log - log.max(axis=1, keepdims=True)) for log in logs)
    prior = state_chances(params)[0]
    alone = [np.log(np.maximum(law @ prior, 1e-300)) for law in (a, b)]
    joint = (a * prior) @ b.T
    return np.asarray(np.log(np.maximum(joint, 1e-300)) - alone[0][:, None] - alone[1])


def reports_in(metric: Metric, periods: int) -> int:
    """At most so many reports of one slot has a device in some periods (1 or more) in a row."""
    rules = (
        metric.details if metric.rules.takes_fixes and metric.location is None else metric.location
    )
    most = periods if rules is None else rules.most_reports_in(periods)
    return min(most, metric.max_reports or most)


def attacks_on(
    metric: Metric, periods: tuple[int, ...], crowd: int, rng: np.random.Generator
) -> list[AttackResult]:
    """Attack devices of one cohort, which report for some periods before and as many after."""
    params, groups = _attackable(metric.params), place_groups(metric)
    with threadpool_limits(1):
        return [
            attack(params, reports_in(metric, period), crowd, rng, groups) for period in periods
        ]


def _attackable(params: RapporParams) -> RapporParams:
    if params.scheme.own_bits and params.num_bits > _MAX_BITS:
        return params.replace(num_bits=_MAX_BITS)
    return params


@dataclass(frozen=True)
class FileAttack:
    """How many devices an observer re-links over all metrics of a file.

    by_groups: share of devices re-linked by what is public alone: cohorts, levels, turns.
    relinked: by that and the permanent bits of all slots.  groups: into which devices fall.
    """

    periods: int
    groups: int
    by_groups: float
    relinked: float


def attack_file(
    metrics: Sequence[Metric],
    periods: int,
    population: int,
    rng: np.random.Generator,
    crowd: int = CROWD,
) -> FileAttack:
    """Re-link devices by all slots of location metrics, and by the cohorts of all metrics.

    metrics: one of each declared name.  periods: before, and as many after.
    population: devices that report. At most `crowd` of them are drawn, in so many groups that each
        has as many to hide among as in the population, or `crowd` if that is less.
    """
    groups = groups_together(metrics)
    size = max(min(crowd, population), 2)
    shrunk = max(1, min(round(size * groups / population), _MAX_GROUPS))
    score = np.zeros((size, size))
    with threadpool_limits(1):
        for metric in metrics:
            if metric.location is not None and metric.max_reports != 1:
                score += _metric_scores(metric, periods, size, rng)
        share = relinked(score, shrunk, rng)
    return FileAttack(periods, groups, linked_by_groups(groups, population), share)


def _metric_scores(metric: Metric, periods: int, crowd: int, rng: np.random.Generator) -> Floats:
    """Log likelihood ratio of every pair of devices, by the reports of all slots: (crowd, crowd).

    Row: whose reports of before; column: of after. The slots of a metric share the permanent
    response of a place, so the scores of slots are summed as if apart: a bound from below.
    """
    location, params = metric.location, _attackable(metric.params)
    assert location is not None  # noqa: S101 (of location metrics alone)
    slots = len(location.slots) if location.num_turns == 1 else 1  # else it answers in one of them
    places = slots if params.scheme.symbols else max(1, min(slots, metric.max_memoized_values))
    values = rng.integers(params.num_bits, size=(places, params.num_hashes, crowd))
    permanent = [draw_permanent(bits, params, rng) for bits in values]
    reports, total = reports_in(metric, periods), np.zeros((crowd, crowd))
    for slot in range(slots):
        bits = permanent[slot % places]
        before, after = (draw_shown(bits, reports, params, rng) for _ in range(2))
        total += _scores(params, reports, before, after)
    return total
