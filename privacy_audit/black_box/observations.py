"""The reports of many trials as arrays, and the features that attacks use."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy_audit.black_box.program_client import SeenReport, Value
from privacy_audit.black_box.scenarios import Scenario
from privacy_audit.devices import Floats, Integers, ln
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.params import RapporParams

Bits = NDArray[np.uint8]

MIDDLE = 0.5  # the attackers' guess of a device's own threshold within its stratum
LIKELIHOOD, AVERAGE = 0, 1  # columns of `features`: the two attacks without training


@dataclass(frozen=True)
class Observations:
    """The watched reports of n trials of one scenario."""

    reports: Bits  # (n, t, k); rows of zeros if fewer than t arrived
    number: Integers  # (n,): the number of all reports, watched or not
    masks: Bits  # (3, n, k): the bits of the scenario's three values in the trial's cohort
    cohorts: Integers  # (n,): the cohort of the last report, -1 if none arrived
    world: Integers  # (n,): 0 or 1
    moved: int  # the number of trials with more than one cohort


def observe(
    file: MetricsFile, scenario: Scenario, world: Integers, lives: list[list[SeenReport]]
) -> Observations:
    """Convert the last reports of n trials into arrays; `lives` are the reports of each trial."""
    metric = file.metrics[scenario.metric]
    n, t, k = len(lives), scenario.watched, metric.params.num_bits
    width = metric.params.report_bytes
    raw = np.zeros((n, t, width), dtype=np.uint8)
    masks = np.zeros((3, n, width), dtype=np.uint8)
    cohorts = np.full(n, -1, dtype=np.int64)
    cached: dict[tuple[str, int, Value], Bits] = {}
    moved = 0
    for row, reports in enumerate(lives):
        last = reports[-t:]
        for column, report in enumerate(last):
            raw[row, column] = np.frombuffer(report.bits, dtype=np.uint8)
        if not last:
            continue
        name, cohort = last[-1].metric, last[-1].cohort
        cohorts[row] = cohort
        moved += any(report.cohort != cohort for report in reports)
        for which, value in enumerate(scenario.values):
            key = name, cohort, value
            if key not in cached:
                own = file.metrics[name]
                whole = own.params.scheme.jittered_bits(own, value, cohort, MIDDLE)
                bits = whole.to_bytes(own.params.report_bytes, "little")
                cached[key] = np.frombuffer(bits, dtype=np.uint8)
            masks[which, row] = cached[key]
    unpacked = [np.unpackbits(x, axis=-1, bitorder="little", count=k) for x in (raw, masks)]
    number = np.array([len(reports) for reports in lives], dtype=np.int64)
    return Observations(unpacked[0], number, unpacked[1], cohorts, world, moved)


def features(params: RapporParams, trials: Observations) -> NDArray[np.float32]:
    """Return each device's features for attacks, (n, features); first `LIKELIHOOD`, `AVERAGE`.

    The other features are for the classifier. They include signs of a client that does not behave
    as declared (missing reports, bare values, equal reports, a first or last report that differs).
    """
    reports, t = trials.reports, trials.reports.shape[1]
    counts = shown_counts(trials.reports)
    means = [
        _sum_over(mask, counts) / (t * np.maximum(mask.sum(axis=1, dtype=np.int64), 1))
        for mask in trials.masks
    ]
    columns: list[NDArray[Any]] = [
        log_likelihood_ratio(params, t, counts, trials.masks),
        (_sum_over(trials.masks[0], counts) - _sum_over(trials.masks[1], counts)) / t,
    ]
    for which, mean in enumerate(means):
        bare = (reports == trials.masks[which][:, None, :]).all(axis=2)
        columns += [mean, mean**2, bare.sum(axis=1)]
    for column in (0, t - 1):
        ones = trials.reports[:, column]
        columns.append(_sum_over(trials.masks[0], ones) - _sum_over(trials.masks[1], ones))
    again = (reports[:, 1:] == reports[:, :-1]).all(axis=2).sum(axis=1)
    columns += [counts.mean(axis=1), again, trials.number, trials.number**2]
    table = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    return np.round(table, 6).astype(np.float32)


def shown_counts(reports: Bits) -> Integers:
    """Count how often each bit was set over a series: (n, t, k) reports to (n, k)."""
    small = np.uint8 if reports.shape[1] < 256 else np.int64
    return np.asarray(reports.sum(axis=1, dtype=small))


def _sum_over(mask: Bits, table: NDArray[Any]) -> Floats:
    """Return, for each row, the sum of `table` where `mask` is 1, (n,); both are (n, k)."""
    rows, places = np.nonzero(mask)
    return np.asarray(np.bincount(rows, table[rows, places], len(mask)), dtype=np.float64)


def log_likelihood_ratio(
    params: RapporParams, reports: int, counts: Integers, masks: Bits
) -> Floats:
    """Return the declared log likelihood ratio of the two values, given each trial's reports: (n,).

    `counts` are (n, k), how often each bit was shown. `masks` are (2 or more, n, k).
    """
    if params.scheme.symbols:
        return _symbol_likelihood(params, counts, masks[0]) - _symbol_likelihood(
            params, counts, masks[1]
        )
    table = bit_evidence(params, reports)
    evidence = np.zeros(len(counts))
    for sign, mask, other in ((1, masks[0], masks[1]), (-1, masks[1], masks[0])):
        rows, places = np.nonzero(mask > other)
        terms = table[counts[rows, places]]
        evidence += sign * np.bincount(rows, weights=terms, minlength=len(counts))
    return evidence


def bit_evidence(params: RapporParams, reports: int) -> Floats:
    """Return the log likelihood ratio of a set and a clear bit of B, for 0 to `reports` ones."""
    p1, q1, p2, q2 = params.mechanism.rates
    ones = np.arange(reports + 1)
    show = [ones * ln(p) + (reports - ones) * ln(1 - p) for p in (p2, q2)]
    by_bit = [np.logaddexp(ln(keep) + show[0], ln(1 - keep) + show[1]) for keep in (p1, q1)]
    return np.asarray(by_bit[0] - by_bit[1])


def _symbol_likelihood(params: RapporParams, counts: Integers, mask: Bits) -> Floats:
    """Return ln P(symbols | the value whose symbol is in `mask`), up to a common constant."""
    p1, q1, p2, q2 = params.mechanism.rates
    prior = np.where(mask == 1, ln(p1), ln(q1))
    total = counts.sum(axis=1, keepdims=True, dtype=np.int64)
    terms = prior + counts * ln(p2) + (total - counts) * ln(q2)
    return np.asarray(np.logaddexp.reduce(terms, axis=1))
