"""`discover`: frequent strings from an aggregate of coded prefixes, without a candidate list."""

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

FOUND_AT = (12.0, 14.0)  # standard errors at which half and nearly all strings are detected
NEARLY_ALL = 0.95  # the probability that the estimate of a string at `most_found` exceeds the crowd


@dataclass(frozen=True)
class DiscoverOptions(Levels):
    """The options for a discovery. Raises DecodeError if a value is invalid.

    alpha is the probability that any string in the result is wrong."""

    crowd: int = DEFAULT_CROWD  # The minimum estimated number of reports for a named string

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.crowd) is not int or self.crowd < 1:
            raise DecodeError(f"crowd = {self.crowd!r} is not a whole number of 1 or more")


@dataclass(frozen=True)
class FoundString:
    """A detected string. Shares are fractions of the reports."""

    string: str  # Text chosen by devices; a person must read it before it is trusted or published
    whole: bool  # False for a prefix of a string whose code exceeds the hashed bits
    estimate: float
    std_error: float
    low: float  # Lower end of an interval that is corrected for selection
    high: float
    p_value: float  # For the hypothesis that no one has the string
    p_adjusted: float
    declared: str = ""  # `fallback` or `no_data` if the metric itself sends the string
    code: str = ""  # The hashed bits of its code, in hexadecimal
    rest: str = ""  # The bytes of an incomplete last character, in hexadecimal


@dataclass(frozen=True)
class Discovery(DecodedWindow):
    """The detected strings, largest share first, and how far they can be trusted."""

    options: DiscoverOptions
    num_tested: int  # The number of strings that the search tested
    num_below_crowd: int  # The number of detected strings with too few reports to be named
    half_found: float  # The share at which half of the strings are named
    most_found: float  # The share at which nearly all strings are named
    half_by_noise: float  # The share at which half of the strings are detected, named or not
    found: tuple[FoundString, ...] = field(default=())


def discover(
    aggregate: Aggregate, options: DiscoverOptions | None = None, progress: Progress = silent
) -> Discovery:
    """Find frequent strings in the reports of a metric of kind `discover`; deterministic.

    Args:
        aggregate: The aggregate with its definition, which contains the code.
        options: The level, alpha and minimum crowd.
        progress: A callback, called for each level of the search.

    Raises:
        DecodeError: The metric is of a different kind, or a group of cohorts has no reports.
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
    """The shares at which half the strings, or nearly all, are named, and half are detected."""

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
    """Predict the shares at which strings are named: detectable and reported by enough devices.

    Args:
        noise: The noise of a report's bits.
        groups: The metric's groups of prefixes.
        options: The options with the minimum crowd.
        num_reports: The number of reports in the window.
        repeats: The repetition rho of the reports.
    """
    unit = math.sqrt(repeats * noise.p_star * (1 - noise.p_star) / num_reports)
    by_noise, most_by_noise = (min(1.0, number * unit / noise.gap) for number in FOUND_AT)
    crowd = min(1.0, options.crowd / num_reports)
    crowd_noise = noise.mechanism_variance(np.array([crowd]), repeats)
    variance = float(crowd_noise[0]) + repeats * crowd * (1 - crowd)
    # the error of a string that only the last group counts, as for most strings found late
    error = math.sqrt(variance * groups.num_groups / num_reports)
    most_of_crowd = min(1.0, crowd + float(ndtri(NEARLY_ALL)) * error)
    return NamedShares(max(by_noise, crowd), max(most_by_noise, most_of_crowd), by_noise)


def declared_groups(metric: Metric) -> PrefixGroups:
    """Return the prefix groups of a `discover` metric. Raises DecodeError if the kind differs."""
    if not isinstance(metric.details, PrefixGroups):
        raise DecodeError(
            f"metric {metric.name!r} is not declared to find strings; use rappor decode with a "
            "list of candidates, or collect a metric of kind 'discover'"
        )
    return metric.details


def group_shares(
    aggregate: Aggregate, groups: PrefixGroups, noise: BitNoise
) -> tuple[GroupShares, ...]:
    """Compute each group's unbiased bucket shares. Raises DecodeError if a group has no reports."""
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
    """Return the detected strings with enough reports, and the number detected with too few."""
    if counted is None:
        return (), 0
    p_values = counted.p_values
    levels = np.array([string.level for string in finished])
    decision = decide_by_level(p_values, levels, metric.details.num_levels, options.alpha)
    accepted = np.flatnonzero(decision.detected)
    crowd = counted.shares * num_reports >= options.crowd
    named = accepted[crowd[accepted]]
    # These intervals are conditional on passing the test and the crowd. A lower end is at most as
    # far from the estimate as the test's margin or a plain interval's end.
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
