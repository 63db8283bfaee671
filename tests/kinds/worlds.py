"""A small world for each kind of metric: what a fleet with the device's own encoder reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from client_sdk.testing import FixedRandomness
from rappor_core.aggregate import Aggregate
from rappor_core.calendar import date_of, day_of, last_day, period_number
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Report
from simulations.experiments.demo import readings
from simulations.populations.draws import aggregate_of_metric
from simulations.populations.fleet import encode_fleet
from tests.flow_support import flow_text
from tests.metric_texts import declaration

DEVICES = 1_500
EVIL = "<script>alert(1)</script>"
MEMO = {"epsilon_infinity": 6.0, "epsilon_one": 4.0, "max_memoized_values": 3}
FLOORS = {"min_reports": 10, "min_reports_per_cohort": 1}
DECLARED = {
    "string": declaration(
        "word", "string", description=EVIL, num_bits=32, num_hashes=1, num_cohorts=4,
        fallback="other", **MEMO, **FLOORS,
    ),
    "category": declaration(
        "theme", "category", description=EVIL, categories=["light", EVIL, "other"],
        fallback="light", **MEMO, **FLOORS,
    ),
    "boolean": declaration("crashed", "boolean", description=EVIL, **MEMO, **FLOORS).replace(
        "max_memoized_values = 3", "max_memoized_values = 2"
    ),
    "number": declaration(
        "startup", "number", description=EVIL, unit="s", of_period="median", none="apart",
        edges=[1, 2, 4, 8], mode="memo", epsilon_infinity=6.0, epsilon_one=4.0, **FLOORS,
    ),
    "pair": declaration(
        "theme_crashed", "pair", description=EVIL, of=["theme", "crashed"],
        values={"theme": ["dark", EVIL, "other"], "crashed": [False, True]},
        fallback="other | false", mechanism="l-osue", **MEMO, **FLOORS,
    ),
    "discover": declaration(
        "site", "discover", description=EVIL, num_bits=64, num_cohorts=50, bits_per_level=12,
        max_reports=1, max_memoized_values=2, fallback="other.example", epsilon_infinity=6.0,
        **FLOORS,
    ),
    "location": declaration(
        "places", "location", description=EVIL, grid="square", box=[0, 0, 4, 4], rows=4, columns=4,
        levels=[0], slots=["night 22-6"], period="week", mode="memo", num_bits=16, num_cohorts=4,
        mechanism="l-osue", **MEMO, **FLOORS,
    ),
    "flow": flow_text(
        "commute", description=f'"{EVIL}"', epsilon="4.0", box="[0, 0, 1, 2]", rows="1",
        columns="2", bands_km="[60]",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """A metric, its text, and the reports of a fleet in two periods."""

    kind: str
    text: str

    @cached_property
    def file(self) -> MetricsFile:
        return parse_metrics(self.text)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Those that the declaration makes: of a location one for each slot and level."""
        return self.file.metrics

    @cached_property
    def days(self) -> tuple[date, date]:
        """The last days of two periods that follow each other."""
        period = next(iter(self.metrics.values())).period
        number = period_number(period, day_of(date(2026, 11, 2)))
        return date_of(last_day(period, number)), date_of(last_day(period, number + 1))

    @cached_property
    def reports(self) -> tuple[tuple[Report, ...], ...]:
        """One report of each device and metric, by period."""
        return tuple(
            tuple(
                encode_fleet(
                    readings(self.metrics, DEVICES, np.random.default_rng(seed)),
                    self.metrics, day, FixedRandomness(seed),
                )
            )
            for seed, day in enumerate(self.days)
        )  # fmt: skip

    @cached_property
    def counts(self) -> tuple[tuple[Aggregate, ...], ...]:
        """What a collector counts of them, by period."""
        return tuple(
            tuple(_counted(metric, reports, day) for metric in self.metrics.values())
            for reports, day in zip(self.reports, self.days, strict=True)
        )


def _counted(metric: Metric, reports: tuple[Report, ...], day: date) -> Aggregate:
    params = metric.params
    own = [one for one in reports if one.metric == metric.name]
    cohorts = np.array([one.cohort for one in own])
    rows = np.frombuffer(b"".join(one.bits for one in own), np.uint8).reshape(len(own), -1)
    bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : params.num_bits]
    counts = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)
    np.add.at(counts, cohorts, bits)
    total = np.bincount(cohorts, minlength=params.num_cohorts)
    return aggregate_of_metric(metric, total, counts, day, day)


@cache
def world_of(kind: str) -> World:
    """The world of a kind, drawn once."""
    return World(kind, DECLARED[kind])


def write_worlds(counts: Path, lists: Path) -> None:
    """Write an aggregate file for each metric of every kind, and of one whose list is missing."""
    counts.mkdir()
    lists.mkdir()
    every = [one for kind in DECLARED for one in world_of(kind).counts[0]]
    word = every[0]
    every.append(Aggregate("lost", word.params, word.reports_per_cohort, word.bit_counts))
    for number, aggregate in enumerate(every):
        (counts / f"{number}.json").write_text(aggregate.to_json())
