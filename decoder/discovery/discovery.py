"""`discover`: from an aggregate of coded prefixes to the frequent strings, without a list."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.decoded_window import DecodedWindow, window_fields
from decoder.discovery.bucket_shares import GroupShares
from decoder.discovery.search import (
    CompletedString,
    CountedStrings,
    count,
    decide_by_level,
    search,
    text_of,
)
from decoder.errors import DecodeError
from decoder.inference.intervals import selected_interval
from decoder.model.counts import debias, repetition
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import one_thread
from decoder.options import DEFAULT_CROWD, Levels
from decoder.progress import Progress, silent
from rappor_core.aggregate import Aggregate
from rappor_core.codes.prefix_groups import PrefixGroups
from rappor_core.hashing import normalize
from rappor_core.metrics.metric import Metric

FOUND_AT = (12.0, 14.0)  # standard errors of all reports by which half, nearly all are detected
NEARLY_ALL = 0.95  # of estimates that pass the crowd


@dataclass(frozen=True)
class DiscoverOptions(Levels):
    """Options of a discovery. alpha: the chance that any string of the list is wrong.  crowd: no
    string with fewer estimated reports is named. Raises DecodeError with a bad value."""

    crowd: int = DEFAULT_CROWD

    def __post_init__(self) -> None:
        """Check each choice alone."""
        super().__post_init__()
        if type(self.crowd) is not int or self.crowd < 1:
            raise DecodeError(f"crowd = {self.crowd!r} is not a whole number of 1 or more")


@dataclass(frozen=True)
class FoundString:
    """A string that was found. Shares are fractions of the reports.

    string: text that devices chose: not to be trusted, nor published before a person has read it.
    whole: False where its code is longer than what is hashed: any string that begins so.
    low, high: interval that allows for the choice.  p_value: of the test that nobody holds it.
    declared: `fallback` or `no_data` where the metric itself sends it.  code: the bits of its code
    that are hashed, rest: bytes that begin one more character, in hexadecimal.
    """

    string: str
    whole: bool
    estimate: float
    std_error: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    declared: str = ""
    code: str = ""
    rest: str = ""


@dataclass(frozen=True)
class Discovery(DecodedWindow):
    """The strings found, largest share first, and how far they can be trusted.

    num_tested: strings at which the search ended.  num_below_crowd: detected, but held by
    too few to be named.  half_found, most_found: shares of which half and nearly all are named.
    half_by_noise: of which half are detected, whatever the crowd.
    """

    options: DiscoverOptions
    num_tested: int
    num_below_crowd: int
    half_found: float
    most_found: float
    half_by_noise: float
    found: tuple[FoundString, ...] = field(default=())


def discover(
    aggregate: Aggregate, options: DiscoverOptions | None = None, progress: Progress = silent
) -> Discovery:
    """Find frequent strings in the reports of a metric of kind `discover`, always the same ones.
    Raises DecodeError for another kind, and for a group of cohorts without reports.

    Args:
        aggregate: with its definition, which holds the code.
        options: alpha, level, crowd.
        progress: called for each level of the search.
    """
    options = options or DiscoverOptions()
    if not aggregate.definition:
        raise DecodeError(f"metric {aggregate.metric!r}: the aggregate lacks its definition")
    metric = Metric.from_dict(aggregate.definition)
    groups = declared_groups(metric)
    noise = BitNoise.of(aggregate.params.mechanism)
    shares = group_shares(aggregate, groups, noise)
    repeats = repetition(aggregate, options.repeats)
    with one_thread():
        finished = search(groups, shares[:-1], progress)
        counted = count(groups, shares, finished, noise, repeats) if finished else None
    strings, below = _named(metric, finished, counted, options, aggregate.num_reports)
    named = named_shares(noise, groups, options, aggregate.num_reports, repeats)
    return Discovery(
        **window_fields(aggregate),
        options=options,
        num_tested=len(finished),
        num_below_crowd=below,
        half_found=named.half,
        most_found=named.most,
        half_by_noise=named.half_by_noise,
        found=strings,
    )


class NamedShares(NamedTuple):
    """Shares of strings of which half, and nearly all, are named; and half detected."""

    half: float
    most: float
    half_by_noise: float


def named_shares(
    noise: BitNoise,
    groups: PrefixGroups,
    options: DiscoverOptions,
    num_reports: float,
    repeats: float = 1.0,
) -> NamedShares:
    """Predict which strings are named: distinguishable from chance, and held by a crowd.

    Args:
        noise: of a report's bits.
        groups: of the metric's prefixes.
        options: crowd.
        num_reports: of the window.
        repeats: rho of the reports.
    """
    unit = math.sqrt(repeats * noise.p_star * (1 - noise.p_star) / num_reports)
    by_noise, most_by_noise = (min(1.0, number * unit / noise.gap) for number in FOUND_AT)
    crowd = min(1.0, options.crowd / num_reports)
    crowd_noise = noise.mechanism_variance(np.array([crowd]), repeats)
    variance = float(crowd_noise[0]) + repeats * crowd * (1 - crowd)
    # of a string that the last group alone counts, as of most that are found late
    error = math.sqrt(variance * groups.num_groups / num_reports)
    most_of_crowd = min(1.0, crowd + float(ndtri(NEARLY_ALL)) * error)
    return NamedShares(max(by_noise, crowd), max(most_by_noise, most_of_crowd), by_noise)


def declared_groups(metric: Metric) -> PrefixGroups:
    """Return the groups of prefixes of a `discover` metric. Raises DecodeError for another kind."""
    if not isinstance(metric.details, PrefixGroups):
        raise DecodeError(
            f"metric {metric.name!r} is not declared to find strings; use rappor decode with a "
            "list of candidates, or collect a metric of kind 'discover'"
        )
    return metric.details


def group_shares(
    aggregate: Aggregate, groups: PrefixGroups, noise: BitNoise
) -> tuple[GroupShares, ...]:
    """Unbiased bucket shares of each group. Raises DecodeError for one without reports."""
    reports = np.array(aggregate.reports_per_cohort, dtype=np.float64)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)
    cohorts = np.arange(len(reports))
    numbers = cohorts * groups.num_groups // len(reports)
    by_group = []
    for group in range(groups.num_groups):
        members = cohorts[(numbers == group) & (reports > 0)]
        if not len(members):
            raise DecodeError(
                f"metric {aggregate.metric!r}: none of the cohorts of group {group + 1} of "
                f"{groups.num_groups} has reports; choose a longer window"
            )
        shares = debias(counts[members], reports[members], noise)
        by_group.append(GroupShares(members, reports[members], shares, groups.prefix_bits(group)))
    return tuple(by_group)


def _named(
    metric: Metric,
    finished: list[CompletedString],
    counted: CountedStrings | None,
    options: DiscoverOptions,
    num_reports: int,
) -> tuple[tuple[FoundString, ...], int]:
    """Return the strings that are detected and held by a crowd; and how many only the first."""
    if counted is None:
        return (), 0
    p_values = counted.p_values
    levels = np.array([string.level for string in finished])
    decision = decide_by_level(p_values, levels, metric.details.num_levels, options.alpha)
    accepted = np.flatnonzero(decision.detected)
    crowd = counted.shares * num_reports >= options.crowd
    named = accepted[crowd[accepted]]
    # Given that each estimate passed the test, and the crowd: the lower end is no further below
    # than the test reaches, or a plain interval does.
    shares, errors = counted.shares[named], counted.std_errors[named]
    by_test = -ndtri(decision.bounds[named]) * counted.null_errors[named]
    cutoffs = np.maximum(by_test, options.crowd / num_reports)
    lows, highs = selected_interval(shares, errors, cutoffs, options.level)
    margins = np.maximum(by_test, -ndtri((1 - options.level) / 2) * errors)
    lows = np.maximum(lows, np.clip(shares - margins, 0, 1))
    highs = np.maximum(highs, shares)
    groups: PrefixGroups = metric.details
    declared = {
        groups.prefix(normalize(value), groups.num_levels): key
        for key in ("no_data", "fallback")
        if (value := getattr(metric, key)) is not None
    }
    digits = -(-metric.details.code_bits // 4)
    texts = {i: text_of(finished[i].data, whole=finished[i].whole) or "" for i in named.tolist()}
    rows = [
        FoundString(
            string=texts[i],
            whole=finished[i].whole,
            estimate=float(counted.shares[i]),
            std_error=float(counted.std_errors[i]),
            low=float(low),
            high=float(high),
            p_value=float(p_values[i]),
            p_adjusted=float(decision.adjusted[i]),
            declared=declared.get(finished[i].bits, ""),
            code=f"{finished[i].bits:0{digits}x}",
            rest=finished[i].data[len(texts[i].encode()) :].hex(),
        )
        for i, low, high in zip(named.tolist(), lows, highs, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: -row.estimate)), len(accepted) - len(named)
