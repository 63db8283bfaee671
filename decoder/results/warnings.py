"""Plain-language warnings: what an analyst must know before trusting a decoding."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.candidates.lists import Candidates
from decoder.estimation.estimate import Estimate
from decoder.inference.diagnostics import (
    ALARM,
    alike_candidates,
    balance_p_value,
    impossible_counts,
    odd_cohorts,
)
from decoder.inference.multiple_testing import FALSE_SHARE, ListDecision
from decoder.model.counts import Observed, repetition
from decoder.options import DecodeOptions
from decoder.results.tables import Decoding, Diagnostics, Summary, join_group
from decoder.tables.format import percent, short
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate

FEW_COHORTS = 32  # with fewer, two strings may have the same bits in all cohorts
MAX_CROWDED_ROWS = 256  # with more rows, a single fit explains the counts well enough
FEW_FOUND = 10  # detected values, below which a wrong one is a large fraction
MUCH_EXPLAINED = 0.8  # the fraction of reports that detected values explain
MUCH_UNLISTED = 0.05  # the share of one value that would explain tau alone
LARGE_EXCESS = 1.2
MOSTLY_OVER = 0.7  # the fraction of the rows' freedom left by a fit of probable candidates
UNBALANCED = 0.25  # relative distance of a cohort's size from the mean
SUM_TOO_LARGE = 1.1  # a larger sum of detected shares contradicts the model
_GROUPS_SHOWN = 5


class StepResults(NamedTuple):
    """The inputs of a decoding, and the steps' results for distinguishable candidates, (G,)."""

    aggregate: Aggregate
    candidates: Candidates
    options: DecodeOptions
    group: Indices  # The first candidate that sets the same bits, (M,)
    observed: Observed
    estimate: Estimate
    decision: ListDecision
    intervals: tuple[Floats, Floats]  # The intervals of the detected values


def plain_warnings(steps: StepResults, decoding: Decoding) -> tuple[str, ...]:
    """Return all warnings that apply to a decoding, most important first."""
    of_all = (_of_the_fit, _of_the_counts, _of_the_size)
    return tuple(text for about in of_all for text in about(steps, decoding))


def why_nothing(summary: Summary) -> str:
    """Return a sentence on why a decoding detected no value."""
    return (
        f"No value was found: {summary.num_reports:,} reports cannot show shares below "
        f"{percent(summary.detectable_share)} among {summary.num_candidates:,} candidates. "
        "Collect more reports, shorten the list, or allow a larger epsilon."
    )


def left_out(cohorts: Sequence[int], summary: Summary) -> str:
    """Return a sentence that names the omitted cohorts and the reason."""
    named = ", ".join(map(str, cohorts[:10])) + ", ..." * (len(cohorts) > 10)
    single = len(cohorts) == 1
    return (
        f"{len(cohorts)} of {summary.num_cohorts} cohorts {'was' if single else 'were'} left out "
        f"(cohort {named}): no values give such counts, or they are far from what the other "
        "cohorts say. They were damaged, fabricated, or sent by a few devices many times over. "
        f"What is shown comes from the other cohorts' {summary.num_reports:,} reports, as with "
        f"--set without_cohorts={','.join(map(str, cohorts))}. Decode each day "
        "separately (--each day) to see when they came, and revoke the key that sent them."
    )


def _of_the_fit(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    """Yield warnings about the fit and its inputs."""
    diagnostics, rows = decoding.diagnostics, steps.observed.rows
    if not diagnostics.converged:
        yield (
            f"No fit converged within {diagnostics.iterations} rounds, neither of all candidates "
            "nor of the probable ones alone, also with smaller steps: no value is named, and the "
            "estimates are not to be used. Shorten the list, or use more cohorts, bits or symbols."
        )
    yield from (*_impossible(steps, decoding), *_alike(steps, decoding))
    # as if errors were independent; in simulations of honest reports (seven settings, 400 to 1,500
    # draws each), the rate of false alarms was 0 to 1.3 in 1,000
    estimate, detected = steps.estimate, steps.decision.detected
    by_chance = -float(ndtri(ALARM)) * float(np.linalg.norm(estimate.std_errors[detected]))
    total = decoding.summary.allocated_share
    if total > max(SUM_TOO_LARGE, 1 + by_chance):
        yield (
            f"The shares found sum to {100 * total:.3g} %, more than all reports: the counts, the "
            "parameters or the candidates do not belong together."
        )
    if not diagnostics.full_fit and diagnostics.freedom <= MOSTLY_OVER * rows:
        yield (
            "Only the most probable candidates took part in the fit, and they used up much of what "
            f"{rows:,} numbers can tell: values that took no part may be too many to count as "
            "noise, and the intervals, widened for it, are approximate. Shorten the list, or use "
            "more cohorts or bits."
        )


def _of_the_counts(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    """Yield warnings about counts or lists that deviate from the model."""
    diagnostics, summary = decoding.diagnostics, decoding.summary
    odd = odd_cohorts(diagnostics.cohort_z)
    if len(odd):
        named = ",".join(str(cohort) for cohort in odd[:10])
        why = "their counts may be damaged or fabricated"
        if summary.repetition > 1:
            why = f"a few devices may have sent many of their reports, or {why}"
        yield (
            f"{len(odd)} of {summary.num_cohorts} cohorts do not follow the others "
            f"(cohort {named}): {why}. "
            f"Decode again without them (--set without_cohorts={named}) to see what changes."
        )
    if diagnostics.excess >= LARGE_EXCESS:
        yield (
            f"The data vary {diagnostics.excess:.1f} times more than the model says, and the "
            "intervals were widened for it. Check that the counts were made with these parameters."
        )
    if not steps.candidates.complete and (missed := [*_missed(steps, diagnostics)]):
        yield " ".join(missed)
    if not_text := steps.candidates.notes.not_text:
        yield (
            f"Entries of the list of candidates that are not UTF-8 were left out ({not_text:,}): "
            "save the list as UTF-8, or these values cannot be found."
        )
    table = decoding.candidates
    groups: dict[int, list[str]] = {}
    for i in np.flatnonzero((np.bincount(table.group) > 1)[table.group]).tolist():
        groups.setdefault(table.group[i], []).append(table.values[i])
    if groups:
        some = list(groups.values())[:_GROUPS_SHOWN]
        named = "; ".join(join_group(list(map(short, group))) for group in some)
        yield (
            f"{len(groups):,} groups of candidates set the same bits in every cohort and cannot "
            f"be distinguished; each is shown as one: {named}."
        )


def _missed(steps: StepResults, diagnostics: Diagnostics) -> Iterator[str]:
    """Yield a warning if detected values leave many reports unexplained.

    These reports are neither noise nor, by the list's unbiased sum, other values of the list."""
    largest = float(np.sqrt(diagnostics.unlisted_squared))
    certain = diagnostics.unlisted_squared > 3 * diagnostics.unlisted_error
    estimate, found = steps.estimate, steps.decision.detected
    shares, errors = estimate.shares, estimate.std_errors
    margin = -float(ndtri((1 - steps.options.level) / 2))
    explained, listed = (
        float(shares[some].sum() + margin * np.linalg.norm(errors[some]))  # as if independent
        for some in (found, np.ones_like(found))
    )
    if found.any() and explained < MUCH_EXPLAINED and (certain or listed < MUCH_EXPLAINED):
        yield (
            f"These values explain only {percent(float(shares[found].sum()))} of reports: the list "
            "may miss frequent ones."
        )
    if largest >= MUCH_UNLISTED and certain:
        yield (
            "Values that are not on the list weigh as much as one value with "
            f"{percent(largest)} of the reports: the list of candidates misses something large."
        )


def _of_the_size(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    """Yield warnings about the limits of this number of reports, cohorts and candidates."""
    summary, cohorts_out = decoding.summary, list(steps.options.without_cohorts)
    reports = np.delete(np.array(steps.aggregate.reports_per_cohort, float), cohorts_out)
    if summary.detectable_share >= MUCH_UNLISTED:
        yield (
            f"{summary.num_reports:,} reports cannot show shares below "
            f"{percent(summary.detectable_share)}: a smaller share is more often missed than found."
        )
    cohorts, hashed = summary.num_cohorts, decoding.diagnostics.method != "direct"
    if hashed and cohorts < FEW_COHORTS:
        few = "a single cohort" if cohorts == 1 else f"{cohorts} cohorts (fewer than {FEW_COHORTS})"
        yield (
            f"With {few} a string may share all its bits with a frequent one: "
            "treat values with few reports alongside very frequent ones with care."
        )
    listed, complete, rows = summary.num_groups, steps.candidates.complete, steps.observed.rows
    # maps, whose lists are complete, have a separate warning (`cell_estimates`)
    crowded = rows <= MAX_CROWDED_ROWS and listed > rows
    if hashed and crowded and not complete:
        caveat = (
            ", and intervals of 95 % of values that were found held the truth 88 to 93 times in "
            "100 in such simulations"
        )
        yield (
            f"{listed:,} candidates are read from {rows:,} numbers: different lists of values "
            f"explain them about equally well{caveat if summary.num_detected else ''}. Shorten the "
            "list, or use more cohorts, bits or symbols."
        )
    yield from _few_found(steps, decoding)
    mean = float(reports.mean())
    worst = float(np.abs(reports / mean - 1).max())
    if worst >= UNBALANCED and balance_p_value(reports, summary.repetition) <= ALARM:
        why = "devices may not choose their cohort at random, or reports of some were lost"
        if summary.repetition > 1:
            why = f"some devices may report much more often than others, or {why}"
        yield (
            f"The cohorts are not equally large (from {reports.min():,.0f} to "
            f"{reports.max():,.0f} reports, {mean:,.0f} expected): {why}."
        )
    reasons = {"have no reports and were left out": int((reports == 0).sum()),
               "were left out as asked": cohorts - len(reports)}  # fmt: skip
    if parts := [f"{count} of {cohorts} cohorts {why}" for why, count in reasons.items() if count]:
        yield "; ".join(parts) + "."
    yield from _repeats(steps, decoding)


def _impossible(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    aggregate = steps.aggregate
    both = aggregate.reports_per_cohort, aggregate.bit_counts
    reports, counts = (np.array(counted, dtype=np.float64) for counted in both)
    repeats = decoding.summary.repetition
    proof = impossible_counts(aggregate.params, reports, counts, repeats)
    if proof is None:
        return
    of, which, apart = "the reports", "", ""
    if proof.cohorts:
        named = ",".join(map(str, proof.cohorts[:10]))
        of = "the reports of these cohorts"
        which = f" in {len(proof.cohorts)} of {len(reports)} cohorts (cohort {named})"
        apart = f", without those cohorts (--set without_cohorts={named})"
    yield (
        f"No values give such counts: a report has {proof.mean:.3g} bits of a value on average"
        f"{which}, and {proof.least:g} to {proof.most:g} are possible. At least "
        f"{percent(proof.forged)} of {of} were not made with these parameters: they are "
        "fabricated, damaged or of other software. They can move any estimate by many times their "
        f"number, also to nothing found. Decode days separately (--each day){apart} to see which "
        "are sound, and revoke the key by which the others came."
    )


def _alike(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    """Yield a warning if hashed candidates share more bits than random hashing explains."""
    observed = steps.observed
    if steps.candidates.complete or decoding.diagnostics.method == "direct":
        return
    alike = alike_candidates(observed.positions, observed.noise.random)
    if alike is None:
        return
    table = decoding.candidates
    leaders = np.flatnonzero(table.group == np.arange(len(table.group)))
    first, second = (short(table.values[leaders[i]]) for i in (alike.first, alike.second))
    yield (
        "The bits of the candidates are not those of random hashing: how many two of them share "
        f"varies {alike.ratio:.1f} times as much as it should ({first} and "
        f"{second} share {alike.shared:,}, of two strings {alike.expected:.3g} are "
        "expected). The map is of other parameters, or made in another way. Values that nobody "
        "lists are taken to be hashed at random, so that the rates of wrong values do not hold: "
        "in such simulations 11 to 41 % of what fdr found was wrong, and Bonferroni named a wrong "
        "value in every other list. Take the map that the devices used, or none "
        "(--set hash=NAME) where these were hashed as usual."
    )


def _few_found(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    """Yield a warning if there are few detected values, whose intervals are less reliable."""
    number, options = decoding.summary.num_detected, steps.options
    few = options.correction in FALSE_SHARE and number <= FEW_FOUND
    p = steps.estimate.p_values
    named = int((steps.decision.detected & (p * len(p) > options.alpha)).sum())
    if few and named and not steps.candidates.complete:
        yield (
            f"{named} of the {number} values found would not be named by Bonferroni's rule: the "
            "rule used bounds the mean share of wrong ones, and among so few a wrong one weighs "
            "much. In simulations of lists with one to three values to be found .89 to .92 of the "
            "95 % intervals of all found held the truth, .95 to .99 of those of values that "
            "are present: no interval that excludes 0 is right for a wrong one. Look at local_fdr, "
            "or decide with --correction bonferroni (.93 to .95)."
        )


def _repeats(steps: StepResults, decoding: Decoding) -> Iterator[str]:
    used, declared = decoding.summary.repetition, steps.options.repeats
    bound = 1.0 if declared is not None else repetition(steps.aggregate, None)
    allowed = (
        f"The definition allows a device up to {bound:g} reports in this window, "
        "which repeat its permanent noise"
    )
    if bound > 1 and used < bound:
        yield f"{allowed}; the noise in the data shows a repetition of at most {used:.3g}."
    elif bound > 1:
        yield (
            f"{allowed}: the intervals allow for all devices doing so. If you know the number of "
            "reports by device, give it (repeats) and they narrow."
        )
    elif used > 1 and declared is None:
        yield (
            "Devices send repeated reports that are not declared: the sizes of the cohorts and the "
            f"noise between them are those of a repetition of about {used:.3g}, not of values that "
            "the list misses. The intervals allow for it. Declare max_reports_per_period, or give "
            "the number of reports by device (repeats)."
        )
