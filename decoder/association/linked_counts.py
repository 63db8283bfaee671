"""Prepare the aggregate of an association for decoding its joint table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from decoder.association.associations import decode_counts, with_likelihood
from decoder.association.linked import UNLISTED, LinkedReports, Side
from decoder.association.table import JointTable
from decoder.candidates.lists import Candidates
from decoder.errors import DecodeError
from decoder.model.noise import BitNoise, RandomString
from decoder.model.repetition import linked_repetition
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.metrics.metric import Metric

MAX_VALUES = 4_000  # of a side: the table has at most as many cells


def decode_linked(
    aggregate: AssociationAggregate,
    lists: tuple[Candidates | None, Candidates | None] = (None, None),
    options: DecodeOptions | None = None,
    reports: LinkedReports | None = None,
) -> JointTable:
    """The joint table of two linked metrics from their co-occurrence counters.

    Args:
        aggregate: of an association, with linked reports.
        lists: the candidates of each metric that has no list of values; one more value stands for
            what they do not hold.
        options: level, alpha, repeats and without_cohorts count.
        reports: the linked reports themselves, for the table of most likelihood besides.

    Raises:
        DecodeError: a list that is missing or needless, no reports, or more than 4,000 cells.
        ImproperError: two values that have the same bits in every cohort.
    """
    options = options or DecodeOptions()
    one = aggregate.association
    first, second = (
        linked_side(metric, values, one.num_cohorts)
        for metric, values in zip(one.metrics, lists, strict=True)
    )
    counts = linked_counts(aggregate)
    for cohort in options.without_cohorts:
        if not 0 <= cohort < one.num_cohorts:
            raise DecodeError(f"cohort {cohort} is not one of 0 to {one.num_cohorts - 1}")
        counts[cohort] = 0
    repetition = linked_repetition(aggregate, options.repeats)
    table = decode_counts(counts, first, second, options, repetition)
    if reports is not None:
        used = _without(reports, options.without_cohorts)
        table = with_likelihood(table, used, first, second)
        if len(used) != table.num_reports:
            partial = f"EM read {len(used):,} linked reports of the {table.num_reports:,} counted"
            table = replace(table, warnings=(*table.warnings, partial))
    warnings = table.warnings
    if repetition > 1:
        warnings += (
            f"intervals and test allow for {repetition:g} reports of a device in this window; give "
            "--repeats where it is less",
        )
    return replace(
        table,
        metric=one.name,
        first_day=aggregate.first_day,
        last_day=aggregate.last_day,
        definition=one.to_dict(),
        warnings=warnings,
    )


def _without(reports: LinkedReports, cohorts: Sequence[int]) -> LinkedReports:
    kept = ~np.isin(reports.cohorts, cohorts)
    return LinkedReports(reports.cohorts[kept], reports.first[kept], reports.second[kept])


def linked_counts(aggregate: AssociationAggregate) -> Floats:
    """The co-occurrences C_c[a, b] of an aggregate, (m, k1 + 1, k2 + 1), as
    `linked.co_occurrences` counts them in reports."""
    k1, k2 = aggregate.association.shape
    found = np.zeros((len(aggregate.reports_per_cohort), k1 + 1, k2 + 1))
    found[:, 0, 0] = aggregate.reports_per_cohort
    found[:, 1:, 0] = aggregate.bit_counts[0]
    found[:, 0, 1:] = aggregate.bit_counts[1]
    found[:, 1:, 1:] = np.reshape(aggregate.pair_counts, (-1, k1, k2))
    return found


def linked_side(metric: Metric, candidates: Candidates | None, num_cohorts: int) -> Side:
    """Make a metric one side of a joint table; a metric with one cohort is the same in every
    shared cohort.

    Raises DecodeError for a list that is missing, needless or too long.
    """
    listed = metric.num_values is not None
    if listed == (candidates is not None):
        why = "has a list of its own" if listed else "needs a list of candidates"
        raise DecodeError(f"metric {metric.name!r} {why}")
    if candidates is not None and len(candidates) > MAX_VALUES:
        raise DecodeError(f"metric {metric.name!r}: {MAX_VALUES:,} candidates at most")
    values: list[object] = (
        list(metric.rules.all_values(metric))
        if candidates is None
        else [value.decode() for value in candidates.values]
    )
    k, own = metric.params.num_bits, metric.params.num_cohorts
    designs = np.zeros((own, k, len(values)))
    for cohort in range(own):
        for place, value in enumerate(values):
            bits = metric.value_bits(value, cohort)
            designs[cohort, :, place] = [bits >> bit & 1 for bit in range(k)]
    if own == 1:
        designs = np.repeat(designs, num_cohorts, axis=0)
    names = tuple(_label(value) for value in values)
    side = Side(metric.name, names, designs, BitNoise.of(metric.params.mechanism))
    if candidates is None:
        return side
    if UNLISTED in names:
        raise DecodeError(f"metric {metric.name!r}: {UNLISTED!r} is the name of what is not listed")
    return side.with_unlisted(RandomString(k, metric.params.num_hashes).mean)


def _label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
