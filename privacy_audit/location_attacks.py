"""Two attacks on simulated devices in one cohort, which detect a change or re-link a device.

Each device has a permanent response. An observer who links a device's reports over some periods
sees this response through the noise. Later, the observer recognizes it, or sees that it changed.
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
_MAX_GROUPS = 1 << 40  # in a crowd; more groups would not distinguish more devices
_MAX_BITS = 128  # more bits only make the attacks stronger, and slower to run
_DIGITS = 8  # decimals of a score, so that equal evidence ties regardless of summation order


@dataclass(frozen=True)
class AttackResult:
    """The success of both attacks on `crowd` devices in one cohort.

    The adversary knows the cohort and the parameters.
    """

    reports: int  # the number of reports in each of two series
    crowd: int
    change_auc: float  # the area under the ROC curve for changes; .5 by chance
    relinked: float  # the fraction of re-linked devices; 1/crowd by chance


def attack(
    params: RapporParams, reports: int, crowd: int, rng: np.random.Generator, groups: int = 1
) -> AttackResult:
    """Draw report series of devices whose value stays or changes; run both attacks on these.

    `groups` is the number of groups into which public attributes divide the crowd: level, scheduled
    period, cohort.
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
    auc = below / 2 / crowd**2  # counts pairs with a higher score for the same place, ties half
    return AttackResult(reports, crowd, float(auc), relinked(score, groups, rng))


def relinked(
    score: Floats, groups: int, rng: np.random.Generator, places: Integers | None = None
) -> float:
    """Return the fraction of devices whose later reports fit their own earlier reports best.

    Ties are broken at random. `score` is (n, n), and is changed if groups distinguish devices.
    `places` are the columns of each row's own device; None for the diagonal.
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
    """Draw each device's B' for two different places, both (crowd, k).

    Places with the same bits have the same response.
    """
    values = rng.integers(params.num_bits, size=(2, params.num_hashes, crowd))
    if params.scheme.own_bits:  # every place has its own bit
        values[1] = (values[0] + rng.integers(1, params.num_bits, size=crowd)) % params.num_bits
    first, second = (draw_permanent(bits, params, rng) for bits in values)
    ordered = np.sort(values, axis=1)
    alike = (ordered[0] == ordered[1]).all(axis=0)
    second[alike] = first[alike]
    return first, second


def _scores(params: RapporParams, reports: int, first: Integers, second: Integers) -> Floats:
    """Return, for each pair of series (n, n), the log odds of one response against two."""
    if params.scheme.symbols:
        return np.round(_log_ratios(params, reports, first, second), _DIGITS)
    counts = np.arange(reports + 1)[:, None]
    table = _log_ratios(params, reports, counts, counts)
    total = np.zeros((len(first), len(second)))
    for a, b in zip(first.T, second.T, strict=True):
        total += table[:, b][a]
    return np.round(total, _DIGITS)


def _log_ratios(params: RapporParams, reports: int, first: Integers, second: Integers) -> Floats:
    logs = [log_shown(params, counts, reports)[:, 0] for counts in (first, second)]
    a, b = (np.exp(log - log.max(axis=1, keepdims=True)) for log in logs)
    prior = state_chances(params)[0]
    alone = [np.log(np.maximum(law @ prior, 1e-300)) for law in (a, b)]
    joint = (a * prior) @ b.T
    return np.asarray(np.log(np.maximum(joint, 1e-300)) - alone[0][:, None] - alone[1])


def reports_in(metric: Metric, periods: int) -> int:
    """Return the maximum number of reports of one slot in consecutive periods (1 or more)."""
    rules = (
        metric.details if metric.rules.takes_fixes and metric.location is None else metric.location
    )
    most = periods if rules is None else rules.most_reports_in(periods)
    return min(most, metric.max_reports or most)


def attacks_on(
    metric: Metric, periods: tuple[int, ...], crowd: int, rng: np.random.Generator
) -> list[AttackResult]:
    """Run both attacks on a cohort, for each number of periods before and after."""
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
    """The fraction of devices that an observer re-links, using all metrics in a file."""

    periods: int
    groups: int  # the number of groups of devices
    by_groups: float  # by public attributes alone: cohorts, levels, scheduled periods
    relinked: float  # by these and the permanent bits of all slots


def attack_file(
    metrics: Sequence[Metric],
    periods: int,
    population: int,
    rng: np.random.Generator,
    crowd: int = CROWD,
) -> FileAttack:
    """Simulate re-linking devices by all slots of location metrics and all metrics' cohorts.

    Args:
        metrics: One metric of each declared name.
        periods: The number of periods in the earlier reports, and in the later reports.
        population: The number of devices that report.
        rng: The generator of all draws.
        crowd: The maximum number of simulated devices. They are divided so that each group has the
            same size as in the population, but at most `crowd`.
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
    """Return the log likelihood ratio of every pair of devices from all slots: (crowd, crowd).

    Rows are earlier reports, columns are later reports. The slots of a metric share the permanent
    response of a place, but their scores are summed as if independent: a lower bound.
    """
    location, params = metric.location, _attackable(metric.params)
    assert location is not None  # noqa: S101 (called for location metrics only)
    slots = len(location.slots) if location.num_turns == 1 else 1  # else it answers in one slot
    places = slots if params.scheme.symbols else max(1, min(slots, metric.max_memoized_values))
    values = rng.integers(params.num_bits, size=(places, params.num_hashes, crowd))
    permanent = [draw_permanent(bits, params, rng) for bits in values]
    reports, total = reports_in(metric, periods), np.zeros((crowd, crowd))
    for slot in range(slots):
        bits = permanent[slot % places]
        before, after = (draw_shown(bits, reports, params, rng) for _ in range(2))
        total += _scores(params, reports, before, after)
    return total
