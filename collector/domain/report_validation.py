"""The validation of a batch's reports and the sum of the accepted reports, without a database."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from collector.domain.registry import RegisteredSeries, Registry
from collector.store.counters import Place
from collector.store.raw import RawRow
from rappor_core.calendar import date_of, day_of
from rappor_core.wire.report import GroupedBatch, ReportGroup

RESULTS_ALL_ACCEPTED = b""


class Reason(StrEnum):
    """The reasons to reject a report. Their order is stored, so add new reasons only at the end."""

    UNKNOWN_METRIC = "unknown_metric"
    WRONG_PARAMS_ID = "wrong_params_id"
    WRONG_LENGTH = "wrong_length"
    COHORT_OUT_OF_RANGE = "cohort_out_of_range"
    DAY_CLOSED = "day_closed"
    DAY_IN_FUTURE = "day_in_future"
    METRIC_EXPIRED = "metric_expired"
    METRIC_RETIRED = "metric_retired"
    SPARE_BITS_SET = "spare_bits_set"
    IMPLAUSIBLE_WEIGHT = "implausible_weight"
    METRIC_PAUSED = "metric_paused"


REASONS = tuple(Reason)

# The details to show if the exact details are no longer known (a batch sent again).
GENERAL_DETAIL = {
    Reason.UNKNOWN_METRIC: "no such metric was declared here",
    Reason.WRONG_PARAMS_ID: "the metric has no version with this params_id",
    Reason.WRONG_LENGTH: "the bits do not have the length that the metric's num_bits needs",
    Reason.COHORT_OUT_OF_RANGE: "the cohort is not below the metric's num_cohorts",
    Reason.DAY_CLOSED: "the day accepts no more reports",
    Reason.DAY_IN_FUTURE: "the day has not come yet; check the clock of the device",
    Reason.METRIC_EXPIRED: "the day is after the metric's last day",
    Reason.METRIC_RETIRED: "this version of the metric is no longer collected",
    Reason.SPARE_BITS_SET: "bits beyond the metric's num_bits are set",
    Reason.METRIC_PAUSED: "the metric is paused; devices record nothing of it for a day",
    Reason.IMPLAUSIBLE_WEIGHT: "no honest report has so many, or so few, bits set",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The rejection of a report, with a machine-readable reason and a detail for people."""

    reason: Reason
    detail: str


_STORED_REFUSALS = (None, *(Refusal(reason, GENERAL_DETAIL[reason]) for reason in REASONS))


@dataclass(frozen=True, slots=True)
class Day:
    """The days, since 1970-01-01, against which a report's day is checked."""

    today: int  # the day that decides which days are closed
    latest: int  # the latest valid day, with an allowance for fast clocks


Cells = defaultdict[int, list[bytes]]  # the bits of the reports by cohort


@dataclass(slots=True)
class Tally:
    """The accepted reports of a group of batches, to be counted and, if declared, stored raw."""

    additions: defaultdict[Place, Cells] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    raw: list[RawRow] = field(default_factory=list)


@dataclass(slots=True)
class Verdict:
    """The result of validating a batch."""

    expires: int  # see `BatchRow.expires`
    results: list[Refusal | None] = field(default_factory=list)  # by report; None if accepted
    accepted: int = 0
    implausible: int = 0  # reports with an impossible weight, rejected or only counted


class ReportJudge:
    """A validator for reports; `refuse_implausible` also rejects impossible weights."""

    def __init__(
        self,
        *,
        refuse_implausible: bool,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._refuse_implausible = refuse_implausible
        self._random_bytes = random_bytes

    def judge(self, batch: GroupedBatch, registry: Registry, day: Day, tally: Tally) -> Verdict:
        """Validate each report in a batch, and add the accepted reports to the tally."""
        verdict = Verdict(expires=day.today)
        for group in batch.groups:
            entry = registry.find(group.metric, group.params_id)
            refusal = _refuse_group(group, entry, registry, day)
            if refusal is not None or entry is None:
                verdict.results += [refusal] * len(group.rows)
            else:
                verdict.results += self._judge_rows(group, entry, tally, verdict)
        return verdict

    def _judge_rows(
        self, group: ReportGroup, entry: RegisteredSeries, tally: Tally, verdict: Verdict
    ) -> list[Refusal | None]:
        results: list[Refusal | None] = [None] * len(group.rows)
        params = entry.metric.params
        num_cohorts = params.num_cohorts
        padding = 8 - (8 * params.report_bytes - params.num_bits)  # the bits above them must be 0
        lowest, highest = entry.weights.lowest, entry.weights.highest
        place = entry.series_id, day_of(group.day)
        cells = tally.additions[place]
        for index, (cohort, bits) in enumerate(group.rows):
            if (
                cohort < num_cohorts
                and lowest <= int.from_bytes(bits, "little").bit_count() <= highest
                and not bits[-1] >> padding
            ) or not (refusal := self._refuse_row(cohort, bits, entry, verdict)):
                cells[cohort].append(bits)
            else:
                results[index] = refusal
        accepted = results.count(None)
        if accepted:
            verdict.accepted += accepted
            verdict.expires = max(verdict.expires, place[1] + entry.metric.accept_days)
        if entry.metric.keep_raw_days:
            tally.raw += [
                (*place, cohort, self._random_bytes(8), bits)
                for (cohort, bits), refusal in zip(group.rows, results, strict=True)
                if not refusal
            ]
        return results

    def _refuse_row(
        self, cohort: int, bits: bytes, entry: RegisteredSeries, verdict: Verdict
    ) -> Refusal | None:
        """Return why a report is rejected; None if only its weight is implausible, and allowed."""
        params, weights = entry.metric.params, entry.weights
        if cohort >= params.num_cohorts:
            detail = f"cohort {cohort} is not below num_cohorts = {params.num_cohorts}"
            return Refusal(Reason.COHORT_OUT_OF_RANGE, detail)
        weight = int.from_bytes(bits, "little")
        if weight >> params.num_bits:
            detail = f"bits beyond num_bits = {params.num_bits} are set"
            return Refusal(Reason.SPARE_BITS_SET, detail)
        verdict.implausible += 1
        if not (weights.certain or self._refuse_implausible):
            return None
        detail = (
            f"{weight.bit_count()} bits set; an honest report has {weights.lowest} to "
            f"{weights.highest}"
        )
        return Refusal(Reason.IMPLAUSIBLE_WEIGHT, detail)


def _refuse_group(
    group: ReportGroup, entry: RegisteredSeries | None, registry: Registry, day: Day
) -> Refusal | None:
    """Return why all reports in a group are rejected, or None."""
    if entry is None:
        if not registry.knows(group.metric):
            return Refusal(Reason.UNKNOWN_METRIC, f"no metric {group.metric!a} was declared here")
        detail = f"metric {group.metric!a} has no version with params_id {group.params_id}"
        return Refusal(Reason.WRONG_PARAMS_ID, detail)
    if entry.retired:
        detail = f"version {group.params_id} of metric {group.metric!a} is no longer collected"
        return Refusal(Reason.METRIC_RETIRED, detail)
    if entry.paused:
        detail = f"metric {group.metric!a} is paused; devices record nothing of it for a day"
        return Refusal(Reason.METRIC_PAUSED, detail)
    if day_of(group.day) > day.latest:
        detail = f"day {group.day} has not come yet; check the clock of the device"
        return Refusal(Reason.DAY_IN_FUTURE, detail)
    if group.day > entry.metric.expires:
        detail = f"metric {group.metric!a} is collected until {entry.metric.expires}"
        return Refusal(Reason.METRIC_EXPIRED, detail)
    if group.num_bytes != entry.metric.params.report_bytes:
        detail = (
            f"{group.num_bytes} bytes of bits; num_bits = {entry.metric.params.num_bits} "
            f"needs {entry.metric.params.report_bytes}"
        )
        return Refusal(Reason.WRONG_LENGTH, detail)
    closed = max(entry.closed_through, closed_by_time(entry, day.today))
    if day_of(group.day) <= closed:
        detail = f"day {group.day} is closed; days from {date_of(closed + 1)} are open"
        return Refusal(Reason.DAY_CLOSED, detail)
    return None


def closed_by_time(entry: RegisteredSeries, today: int) -> int:
    """Return the last day for which this version accepts no more reports.

    A day accepts reports until day + accept_days. If a different version accepts reports for a
    longer time, the day closes later.
    """
    return today - entry.metric.accept_days - 1


def encode_results(results: Sequence[Refusal | None]) -> bytes:
    """Encode results for storage: one byte per report, or nothing if all were accepted."""
    if results.count(None) == len(results):
        return RESULTS_ALL_ACCEPTED
    return bytes(0 if refusal is None else 1 + REASONS.index(refusal.reason) for refusal in results)


def decode_results(stored: bytes, num_reports: int) -> list[Refusal | None]:
    """Decode the output of `encode_results`: None if accepted, or a refusal without details."""
    if stored == RESULTS_ALL_ACCEPTED:
        return [None] * num_reports
    return [_STORED_REFUSALS[code] for code in stored]
