"""Warnings in plain words: what an analyst must know before trusting a decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from decoder.inference.diagnostics import Alike, balance_p_value
from decoder.inference.impossible_counts import Impossible
from decoder.results.tables import Diagnostics, Summary, join_group
from decoder.tables.format import percent, short
from decoder.typing import Floats, Indices

FEW_COHORTS = 32
MAX_CROWDED_ROWS = 256  # with more rows one fit explains the counts well enough
FEW_FOUND = 10  # values, among which a wrong one is a large part
MUCH_UNLISTED = 0.05  # share of one value that would explain tau alone
LARGE_EXCESS = 1.2
MOSTLY_OVER = 0.7  # of the rows' freedom, left by a fit of probable candidates
ALARM = 1e-3  # chance of a false alarm: about any cohort, their sizes, the sum of shares
UNBALANCED = 0.25  # relative distance from the mean
SUM_TOO_LARGE = 1.1
_GROUPS_SHOWN = 5


class AlikeValues(NamedTuple):
    """A list whose bits are too alike, with the names of the pair that shares most."""

    alike: Alike
    first: str
    second: str


@dataclass(frozen=True)
class Facts:
    """The figures from which warnings are made.

    reports: N_j of all cohorts but those left out as asked.  groups: candidates that set the same
    bits, as lists of values, larger than one.  bound: repetition that the definition allows, 1
    where it was declared.  hashed: values share bits (a Bloom filter) or symbols.
    rows: bits counted in the cohorts that have reports; of symbols one less in each, since they
    sum to its reports.  complete: no other value can be held; what the fit leaves over are small
    shares of the list itself.  not_text: entries of the list that are not UTF-8.
    declared: the analyst gave the repetition.
    impossible: what of the counts no values can give.  alike: what shows that the candidates' bits
    are not hashed at random.  by_false_share: of the found, those that a rule names because it
    bounds the share of the wrong among them; Bonferroni's would not.
    sum_error: standard error of the sum of the shares found, as if their errors were independent:
    of honest draws in seven settings, 400 to 1,500 each, 0 to 1.3 of 1,000 were alarmed.
    """

    summary: Summary
    diagnostics: Diagnostics
    reports: Floats
    groups: list[list[str]]
    bound: float
    hashed: bool
    rows: int
    complete: bool = False
    not_text: int = 0
    declared: bool = False
    impossible: Impossible | None = None
    alike: AlikeValues | None = None
    by_false_share: int = 0
    sum_error: float = 0.0


def plain_warnings(facts: Facts) -> tuple[str, ...]:
    """All warnings that apply to a decoding, most important first."""
    first = (
        _not_converged,
        _impossible,
        _alike,
        _sum,
        _unfitted,
        _cohorts,
        _excess,
        _unlisted,
        _not_text,
        _same,
        _small,
        _few,
        _crowded,
        _few_found,
    )
    checks = *first, _balance, _empty, _repeats
    found = [check(facts) for check in checks]
    return tuple(text for text in found if text is not None)


def why_nothing(summary: Summary) -> str:
    """A line on why a decoding detected no value."""
    return (
        f"No value was found: {summary.num_reports:,} reports cannot show shares below "
        f"{percent(summary.detectable_share)} among {summary.num_candidates:,} candidates. "
        "Collect more reports, shorten the list, or allow a larger epsilon."
    )


def left_out(cohorts: Sequence[int], summary: Summary) -> str:
    """The sentence that names the cohorts which were left out, and why."""
    named = ", ".join(map(str, cohorts[:10])) + ", ..." * (len(cohorts) > 10)
    one = len(cohorts) == 1
    return (
        f"{len(cohorts)} of {summary.num_cohorts} cohorts {'was' if one else 'were'} left out "
        f"(cohort {named}): no values give such counts, or they are far from what the other "
        "cohorts say. They were damaged, made up, or sent by a few devices many times over. "
        f"What is shown is told by the other cohorts' {summary.num_reports:,} reports, as with "
        f"--set without_cohorts={','.join(map(str, cohorts))}. Decode each day "
        "by itself (--each day) to see when they came, and revoke the key that sent them."
    )


def odd_cohorts(cohort_z: Floats) -> Indices:
    """Cohorts whose residual is too large for noise, at a false alarm rate of 1 in 1,000 for any
    of them."""
    limit = -float(ndtri(ALARM / max(len(cohort_z), 1)))
    return np.flatnonzero(np.nan_to_num(cohort_z) > limit)


def _small(facts: Facts) -> str | None:
    summary = facts.summary
    if summary.detectable_share < MUCH_UNLISTED:
        return None
    return (
        f"{summary.num_reports:,} reports cannot show shares below "
        f"{percent(summary.detectable_share)}: a smaller share is more often missed than found."
    )


def _sum(facts: Facts) -> str | None:
    total, by_chance = facts.summary.allocated_share, -float(ndtri(ALARM)) * facts.sum_error
    if total <= max(SUM_TOO_LARGE, 1 + by_chance):
        return None
    return (
        f"The shares found sum to {percent(total)}, more than all reports: the counts, the "
        "parameters or the candidates do not belong together."
    )


def _impossible(facts: Facts) -> str | None:
    found = facts.impossible
    if found is None:
        return None
    of, which, apart = "the reports", "", ""
    if found.cohorts:
        named = ",".join(map(str, found.cohorts[:10]))
        of = "the reports of these cohorts"
        which = f" in {len(found.cohorts)} of {facts.summary.num_cohorts} cohorts (cohort {named})"
        apart = f", without those cohorts (--set without_cohorts={named})"
    return (
        f"No values give such counts: a report has {found.mean:.3g} bits of a value on average"
        f"{which}, and {found.least:g} to {found.most:g} are possible. At least "
        f"{percent(found.forged)} of {of} were not made with these parameters: forged, damaged, or "
        "of other software. They can move any estimate by many times their number, also to nothing "
        f"found. Decode each day by itself (--each day){apart}, to see which are sound, and revoke "
        "the key by which the others came."
    )


def _alike(facts: Facts) -> str | None:
    found = facts.alike
    if found is None:
        return None
    alike = found.alike
    return (
        "The bits of the candidates are not those of random hashing: how many two of them share "
        f"varies {alike.ratio:.1f} times as much as it should ({short(found.first)} and "
        f"{short(found.second)} share {alike.shared:,}, of two strings {alike.expected:.3g} are "
        "expected). The map is of other parameters, or made in another way. Values that nobody "
        "lists are taken to be hashed at random, so that the rates of wrong values do not hold: "
        "in such simulations 11 to 41 % of what fdr found was wrong, and Bonferroni named a wrong "
        "value in every other list. Take the map that the devices used, or none "
        "(--hash) where these were hashed as usual."
    )


def _unfitted(facts: Facts) -> str | None:
    diagnostics = facts.diagnostics
    if diagnostics.full_fit or diagnostics.freedom > MOSTLY_OVER * facts.rows:
        return None
    return (
        "Only the most probable candidates took part in the fit, and they used up much of what "
        f"{facts.rows:,} numbers can tell: values that took no part may be too many to count as "
        "noise, and the intervals, widened for it, are approximate. Shorten the list, or use more "
        "cohorts or bits."
    )


def _cohorts(facts: Facts) -> str | None:
    odd = odd_cohorts(facts.diagnostics.cohort_z)
    if not len(odd):
        return None
    named = ",".join(str(cohort) for cohort in odd[:10])
    why = "their counts may be damaged or made up"
    if facts.summary.repetition > 1:
        why = f"a few devices may have sent many of their reports, or {why}"
    return (
        f"{len(odd)} of {facts.summary.num_cohorts} cohorts do not follow the others "
        f"(cohort {named}): {why}. "
        f"Decode again without them (--set without_cohorts={named}) to see what changes."
    )


def _excess(facts: Facts) -> str | None:
    excess = facts.diagnostics.excess
    if excess < LARGE_EXCESS:
        return None
    return (
        f"The data vary {excess:.1f} times more than the model says, and the intervals were "
        "widened for it. Check that the counts were made with these parameters."
    )


def _unlisted(facts: Facts) -> str | None:
    largest = float(np.sqrt(facts.diagnostics.unlisted_squared))
    certain = facts.diagnostics.unlisted_squared > 3 * facts.diagnostics.unlisted_error
    if facts.complete or largest < MUCH_UNLISTED or not certain:
        return None
    return (
        "Values that are not on the list weigh as much as one value with "
        f"{percent(largest)} of the reports: the list of candidates misses something large."
    )


def _not_text(facts: Facts) -> str | None:
    if not facts.not_text:
        return None
    return (
        f"Entries of the list of candidates that are not UTF-8 were left out ({facts.not_text:,}): "
        "save the list as UTF-8, or these values cannot be found."
    )


def _same(facts: Facts) -> str | None:
    if not facts.groups:
        return None
    named = "; ".join(join_group(list(map(short, group))) for group in facts.groups[:_GROUPS_SHOWN])
    return (
        f"{len(facts.groups):,} groups of candidates set the same bits in every cohort and cannot "
        f"be told apart; each is shown as one: {named}."
    )


def _few(facts: Facts) -> str | None:
    cohorts = facts.summary.num_cohorts
    if not facts.hashed or cohorts >= FEW_COHORTS:
        return None
    few = "a single cohort" if cohorts == 1 else f"{cohorts} cohorts (fewer than {FEW_COHORTS})"
    return (
        f"With {few} a string may share all its bits with a frequent one: "
        "treat values with few reports beside very frequent ones with care."
    )


def _crowded(facts: Facts) -> str | None:
    listed = facts.summary.num_groups
    if facts.complete or not facts.hashed or facts.rows > MAX_CROWDED_ROWS or listed <= facts.rows:
        return None  # of maps, whose lists are complete, `cells` says it
    beginning = (
        f"{listed:,} candidates are read from {facts.rows:,} numbers: different lists of values "
        "explain them about equally well"
    )
    end = "Shorten the list, or use more cohorts, bits or symbols."
    if not facts.summary.num_detected:
        return f"{beginning}. {end}"
    return (
        f"{beginning}, and intervals of 95 % of values that were found held the truth 88 to 93 "
        f"times in 100 in such simulations. {end}"
    )


def _few_found(facts: Facts) -> str | None:
    """Why intervals of few found values hold less often than their level."""
    found, named = facts.summary.num_detected, facts.by_false_share
    if not named or found > FEW_FOUND or facts.complete:
        return None
    return (
        f"{named} of the {found} values found would not be named by Bonferroni's rule: the rule "
        "used bounds the mean share of wrong ones, and among so few a wrong one weighs much. In "
        "simulations of lists with one to three values to be found .89 to .92 of the 95 % "
        "intervals of all found held the truth, .95 to .99 of those of values that somebody "
        "holds: no interval that excludes 0 holds for a wrong one. Look at local_fdr, or decide "
        "with --correction bonferroni (.93 to .95)."
    )


def _balance(facts: Facts) -> str | None:
    mean = float(facts.reports.mean())
    worst = float(np.abs(facts.reports / mean - 1).max())
    if worst < UNBALANCED or balance_p_value(facts.reports, facts.summary.repetition) > ALARM:
        return None
    why = "devices may not choose their cohort at random, or reports of some were lost"
    if facts.summary.repetition > 1:
        why = f"some devices may report much more often than others, or {why}"
    return (
        f"The cohorts are not equally large (from {facts.reports.min():,.0f} to "
        f"{facts.reports.max():,.0f} reports, {mean:,.0f} expected): {why}."
    )


def _empty(facts: Facts) -> str | None:
    total = facts.summary.num_cohorts
    empty, asked = int((facts.reports == 0).sum()), total - len(facts.reports)
    reasons = (empty, "have no reports and were left out"), (asked, "were left out as asked")
    told = [f"{count} of {total} cohorts {why}" for count, why in reasons if count]
    return "; ".join(told) + "." if told else None


def _repeats(facts: Facts) -> str | None:
    used = facts.summary.repetition
    if facts.bound <= 1:
        return _undeclared(used) if used > 1 and not facts.declared else None
    allowed = (
        f"The definition allows a device up to {facts.bound:g} reports in this window, "
        "which repeat its permanent noise"
    )
    if used < facts.bound:
        return f"{allowed}; the noise in the data shows a repetition of at most {used:.3g}."
    return (
        f"{allowed}: the intervals allow for all devices doing so. If you know the number of "
        "reports by device, give it (repeats) and they narrow."
    )


def _undeclared(used: float) -> str:
    return (
        f"Devices send repeated reports that nobody declared: the sizes of the cohorts and the "
        f"noise between them are those of a repetition of about {used:.3g}, not of values that "
        "the list misses. The intervals allow for it. Declare max_reports_per_period, or give the "
        "number of reports by device (repeats)."
    )


def _not_converged(facts: Facts) -> str | None:
    if facts.diagnostics.converged:
        return None
    return (
        f"No fit converged within {facts.diagnostics.iterations} rounds, neither of all candidates "
        "nor of the probable ones alone, also with smaller steps: no value is named, and the "
        "estimates are not to be used. Shorten the list, or use more cohorts, bits or symbols."
    )
