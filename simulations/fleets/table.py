"""A fleet of a declared metric, drawn, and its first 1, 2, 4, ... periods decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from decoder import Candidates, DecodeOptions, decode
from decoder.candidates.lists import metric_candidates
from decoder.typing import Floats
from metric_design.population import read_shares, zipf_shares
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.fleets.draws import (
    Counts,
    Fleet,
    FleetCounts,
    FleetError,
    draw_classes,
    draw_cohort,
    no_counts,
    repetition,
)
from simulations.populations.draws import aggregate_of_metric, plain_aggregate

Advance = Callable[[int], None]


@dataclass(frozen=True)
class FleetMetric:
    """The parameters of the fleet's metric, and the metric that declares them, if one does."""

    params: RapporParams
    metric: Metric | None = None

    def aggregate(
        self, reports: Counts, bit_counts: Counts, first: date | None, last: date | None
    ) -> Aggregate:
        """The aggregate that a collector would serve. reports: (m,). bit_counts: (m, k)."""
        if self.metric is None:
            return plain_aggregate("simulated", self.params, reports, bit_counts, first, last)
        return aggregate_of_metric(self.metric, reports, bit_counts, first, last)


def declared_metric(file: Path | None, name: str | None) -> FleetMetric:
    """The metric of a file, or strings in 128 bits and 64 cohorts at epsilons 4.4 and 1.1.

    Raises FleetError for a name that the file does not have.
    """
    if file is None or name is None:
        return FleetMetric(
            RapporParams.rappor(
                num_bits=128, num_hashes=2, num_cohorts=64, prob_f=0.5, prob_p=0.5, prob_q=0.75
            )
        )
    known = load_metrics(file).metrics
    if name not in known:
        raise FleetError(f"{file}: no metric {name!a}; it has {', '.join(known)}")
    return FleetMetric(known[name].params, known[name])


def listed_values(
    declared: FleetMetric, file: Path | None, exponent: float, number: int, absent: int
) -> tuple[Candidates, Floats]:
    """The candidates of a fleet, and the shares of the first V of them, which are held, (V,).

    Args:
        declared: metric, whose own values are taken where its definition has some.
        file: of shares, largest first; else they fall as 1 / rank^exponent.
        exponent: of shares that no file gives.
        number: of strings that are held.
        absent: further strings on the list, which nobody holds.
    """
    params = declared.params
    if params.scheme.hashed:
        shares = read_shares(file) if file else zipf_shares(exponent, number)
        names = [f"value-{i:06}" for i in range(len(shares) + absent)]
        return Candidates.from_strings(names), shares / shares.sum()
    empty = no_counts(params, 1, 1)
    own = metric_candidates(declared.aggregate(empty.reports[0], empty.bit_counts[0], None, None))
    shares = read_shares(file)[: len(own)] if file else zipf_shares(exponent, len(own))
    return own, shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Drawn:
    """The drawn counts of a fleet, and the classes of devices behind them."""

    fleet: Fleet
    sizes: Counts
    counts: FleetCounts

    def aggregate(self, first: int, last: int, declared: FleetMetric, start: date) -> Aggregate:
        """The aggregate of weeks `first` up to but without `last`, as a collector would serve
        it."""
        weeks = slice(first, last)
        reports, bits = (
            counts[weeks].sum(axis=0) for counts in (self.counts.reports, self.counts.bit_counts)
        )
        days = start + timedelta(weeks=first), start + timedelta(weeks=last, days=-1)
        return declared.aggregate(reports, bits, *days)

    def week_files(self, declared: FleetMetric, start: date) -> dict[str, str]:
        """The aggregate of each week as a JSON text, by the name of its file."""
        return {
            f"{start + timedelta(weeks=week)}.json": self.aggregate(
                week, week + 1, declared, start
            ).to_json()
            for week in range(self.fleet.periods)
        }


@dataclass(frozen=True, slots=True)
class Row:
    """A window of the first `periods`.

    devices: that reported in it.  repeats: sum r^2 / sum r.  held: values that somebody held.
    found, false_found: values of the list that were detected, held and not.  smallest: the least
    true share among them, or None.
    """

    periods: int
    reports: int
    devices: int
    repeats: float
    held: int
    found: int
    false_found: int
    smallest: float | None


def draw_fleet(fleet: Fleet, seed: int, advance: Advance = lambda _: None) -> Drawn:
    """Draw the counts of a fleet. advance: called with 1 after each cohort."""
    sizes = draw_classes(fleet, seed)
    counts = no_counts(fleet.params, fleet.periods, len(fleet.shares))
    for cohort in range(fleet.params.num_cohorts):
        draw_cohort(fleet, sizes[:, :, cohort], cohort, seed, counts)
        advance(1)
    return Drawn(fleet, sizes, counts)


def horizons(periods: int) -> list[int]:
    """The numbers of periods to decode: 1, 2, 4, ... and all of them."""
    doubled = (1 << power for power in range(periods.bit_length()))
    return sorted({*(number for number in doubled if number <= periods), periods})


def decode_rows(
    drawn: Drawn, candidates: Candidates, declared: FleetMetric, options: DecodeOptions, start: date
) -> Iterator[Row]:
    """A row for each horizon. The first V candidates are the fleet's values, in their order."""
    for periods in horizons(drawn.fleet.periods):
        yield _row(drawn, periods, candidates, declared, options, start)


def _row(
    drawn: Drawn,
    periods: int,
    candidates: Candidates,
    declared: FleetMetric,
    options: DecodeOptions,
    start: date,
) -> Row:
    fleet = drawn.fleet
    repeats = repetition(drawn.sizes, periods, fleet.reports_each)
    aggregate = drawn.aggregate(0, periods, declared, start)
    table = decode(aggregate, candidates, replace(options, repeats=repeats)).candidates
    held = drawn.counts.holders[:periods].sum(axis=0)
    shares = np.zeros(len(candidates))
    shares[: len(held)] = held / held.sum()
    detected = np.asarray(table.detected, dtype=bool)
    true = shares[detected & (shares > 0)]
    return Row(
        periods=periods,
        reports=aggregate.num_reports,
        devices=int(drawn.sizes[:periods].sum()),
        repeats=repeats,
        held=int((held > 0).sum()),
        found=len(true),
        false_found=int((detected & (shares == 0)).sum()),
        smallest=float(true.min()) if len(true) else None,
    )
