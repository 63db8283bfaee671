"""Fleets too large to simulate device by device: counts by period, drawn from their distribution.

A device has one value for as long as it stays. Devices in one cohort that came and left together
are a class. Given how many devices in a class hold each value, the bits of its devices are
independent, so sums over devices are binomial: for the permanent bits once, when the class arrives,
and for the instantaneous bits in each period, given the permanent bits. Nothing is approximated.
The cost depends on values, cohorts, bits and periods, not on devices."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from decoder import Candidates, DecodeOptions, decode
from decoder.candidates.lists import metric_candidates
from decoder.typing import Floats
from metric_design.population import read_shares, zipf_shares
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.tasks import run_tasks
from simulations.outcome import Columns
from simulations.populations.draws import aggregate_of_metric, bits_set, plain_aggregate

COLUMNS: Columns = (
    ("weeks", "periods", "d"), ("reports", "reports", ",d"), ("devices", "devices", ",d"),
    ("repeats", "repeats", ".2f"), ("held", "held", ",d"), ("found", "found", ",d"),
    ("false", "false_found", ",d"), ("smallest found", "smallest", ".3%"),
)  # fmt: skip

Counts = NDArray[np.int64]
MAX_PERIODS = 104
MAX_DEVICES = 1 << 40  # Sums of their reports stay far below 2**63
_CLASSES, _COHORT = 0, 1  # First words of the random streams' keys
Advance = Callable[[int], None]


class FleetError(RapporError, ValueError):
    """A fleet that cannot be drawn."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """A population of devices, each with one value for as long as it stays.

    Raises FleetError if a number is out of range or the metric reports symbols.

    Attributes:
        params: The parameters of the metric.
        shares: The shares of the values among arriving devices, (V,), with sum 1.
        positions: The bits that each value sets in each cohort, (V, m, h); num_bits for none.
        devices: The number of devices in each period.
        periods: The number of periods T.
        turnover: The probability that a device leaves after a period and a new one replaces it.
        reports_each: The number of reports per device and period.
    """

    params: RapporParams
    shares: Floats
    positions: NDArray[np.integer]
    devices: int
    periods: int = 1
    turnover: float = 0.0
    reports_each: int = 1

    def __post_init__(self) -> None:
        for name, most in (
            ("devices", MAX_DEVICES), ("periods", MAX_PERIODS), ("reports_each", 1000)
        ):  # fmt: skip
            if not 1 <= getattr(self, name) <= most:
                raise FleetError(f"{name} = {getattr(self, name)} is not from 1 to {most}")
        if not 0 <= self.turnover <= 1:
            raise FleetError(f"turnover = {self.turnover:g} is not from 0 to 1")
        if self.params.scheme.symbols:
            raise FleetError("reports of symbols are not drawn as a fleet; only those of bits are")
        if self.positions.shape[:2] != (len(self.shares), self.params.num_cohorts):
            raise FleetError("the positions do not match the values in each cohort")


@dataclass(frozen=True, eq=False)
class FleetCounts:
    """Counts by period: reports (T, m), bits (T, m, k), and holders of each value (T, V)."""

    reports: Counts
    bit_counts: Counts
    holders: Counts


def draw_classes(fleet: Fleet, seed: int) -> Counts:
    """Draw how many devices came in period a and left before b, per cohort: (T, T + 1, m)."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_CLASSES,)))
    periods, cohorts = fleet.periods, fleet.params.num_cohorts
    sizes = np.zeros((periods, periods + 1, cohorts), dtype=np.int64)
    equal = np.full(cohorts, 1 / cohorts)
    staying = np.zeros((0, cohorts), dtype=np.int64)  # By period of arrival
    for now in range(periods):
        missing = fleet.devices - int(staying.sum())
        staying = np.vstack([staying, rng.multinomial(missing, equal)[None]])
        leaving = staying if now + 1 == periods else rng.binomial(staying, fleet.turnover)
        sizes[: now + 1, now + 1] = leaving
        staying = staying - leaving
    return sizes


def no_counts(params: RapporParams, periods: int, num_values: int) -> FleetCounts:
    """Return all-zero counts."""
    shape = (periods, params.num_cohorts)
    return FleetCounts(
        np.zeros(shape, dtype=np.int64),
        np.zeros((*shape, params.num_bits), dtype=np.int64),
        np.zeros((periods, num_values), dtype=np.int64),
    )


@dataclass(frozen=True, eq=False)
class CohortTask:
    """The draw of one cohort; its number and the seed determine the random stream."""

    params: RapporParams
    shares: Floats
    positions: NDArray[np.integer]  # of this cohort, (V, 1, h)
    reports_each: int
    sizes: Counts  # of the classes in this cohort, (T, T + 1)
    cohort: int
    seed: int


def draw_cohort(task: CohortTask) -> tuple[Counts, Counts, Counts]:
    """Draw one cohort: the held values, each class's permanent bits, and each period's reports.

    Returns:
        Reports (T,), bit counts (T, k) and devices that hold each value (T, V).
    """
    rng = np.random.default_rng(np.random.SeedSequence(task.seed, spawn_key=(_COHORT, task.cohort)))
    p1, q1, p2, q2 = task.params.mechanism.rates
    periods, bits = len(task.sizes), task.params.num_bits
    devices = np.zeros(periods, dtype=np.int64)
    permanent = np.zeros((periods, bits), dtype=np.int64)
    every_holder = np.zeros((periods, len(task.shares)), dtype=np.int64)
    for came, went in np.argwhere(task.sizes):
        size = task.sizes[came, went]
        holders = rng.multinomial(size, task.shares)
        truth = bits_set(holders[None], task.positions, bits)[0]
        set_bits = rng.binomial(truth, p1) + rng.binomial(size - truth, q1)
        devices[came:went] += size
        permanent[came:went] += set_bits
        every_holder[came:went] += holders
    each = task.reports_each
    clear = devices[:, None] - permanent
    bit_counts = rng.binomial(each * permanent, p2) + rng.binomial(each * clear, q2)
    return each * devices, bit_counts, every_holder


def repetition(sizes: Counts, periods: int, reports_each: int = 1) -> float:
    """Return rho = sum r^2 / sum r over devices with r reports each in the first periods."""
    came, went = np.indices(sizes.shape[:2])
    reports = reports_each * np.clip(np.minimum(went, periods) - came, 0, None)
    number = sizes.sum(axis=2)
    return float((number * reports.astype(float) ** 2).sum() / (number * reports).sum())


@dataclass(frozen=True)
class FleetMetric:
    """The parameters of the fleet's metric, and the metric that declares them, if any."""

    params: RapporParams
    metric: Metric | None = None

    def aggregate(
        self, reports: Counts, bit_counts: Counts, first: date | None, last: date | None
    ) -> Aggregate:
        """Return the aggregate that a collector would serve, from counts (m,) and (m, k)."""
        if self.metric is None:
            plain = plain_aggregate("simulated", self.params, reports, bit_counts)
            return replace(plain, first_day=first, last_day=last)
        return aggregate_of_metric(self.metric, reports, bit_counts, first, last)


def declared_metric(file: Path | None, name: str | None) -> FleetMetric:
    """Return a file's metric, or a string metric: 128 bits, 64 cohorts, epsilons 4.4 and 1.1.

    Raises FleetError if the name is not in the file."""
    if file is None or name is None:
        return FleetMetric(
            RapporParams.rappor(
                num_bits=128, num_hashes=2, num_cohorts=64, prob_f=0.5, prob_p=0.5, prob_q=0.75
            )
        )
    metrics = load_metrics(file).metrics
    if name not in metrics:
        raise FleetError(f"{file}: no metric {name!a}; it has {', '.join(metrics)}")
    return FleetMetric(metrics[name].params, metrics[name])


def listed_values(
    declared: FleetMetric, file: Path | None, exponent: float, number: int, absent: int
) -> tuple[Candidates, Floats]:
    """Return a fleet's candidates, and the shares, (V,), of the first V candidates, which are held.

    Args:
        declared: The metric, whose own values are used if its definition lists any.
        file: The file of shares, largest first; without it, they decrease as 1 / rank^exponent.
        exponent: The exponent of shares without a file.
        number: The number of held strings.
        absent: The number of listed strings that no device holds.
    """
    params = declared.params
    if params.scheme.hashed:
        shares = read_shares(file) if file else zipf_shares(exponent, number)
        names = [f"value-{i:06}" for i in range(len(shares) + absent)]
        return Candidates.from_strings(names), shares / shares.sum()
    empty = no_counts(params, 1, 1)
    whole = declared.aggregate(empty.reports[0], empty.bit_counts[0], None, None)
    named = metric_candidates(whole)
    shares = read_shares(file)[: len(named)] if file else zipf_shares(exponent, len(named))
    return named, shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Drawn:
    """The drawn counts of a fleet, and the sizes of its classes from `draw_classes`."""

    fleet: Fleet
    sizes: Counts
    counts: FleetCounts

    def aggregate(self, first: int, last: int, declared: FleetMetric, start: date) -> Aggregate:
        """Return the aggregate of weeks `first` to `last` (exclusive), as a collector serves it."""
        weeks = slice(first, last)
        reports, bits = (
            counts[weeks].sum(axis=0) for counts in (self.counts.reports, self.counts.bit_counts)
        )
        days = start + timedelta(weeks=first), start + timedelta(weeks=last, days=-1)
        return declared.aggregate(reports, bits, *days)

    def week_files(self, declared: FleetMetric, start: date) -> dict[str, str]:
        """Return the aggregate of each week as JSON text, by file name."""
        return {
            f"{start + timedelta(weeks=week)}.json": self.aggregate(
                week, week + 1, declared, start
            ).to_json()
            for week in range(self.fleet.periods)
        }


@dataclass(frozen=True, slots=True)
class Row:
    """The decoding of the first `periods` periods together, compared with the truth."""

    periods: int
    reports: int
    devices: int  # Devices that reported in it
    repeats: float  # The repetition, sum r^2 / sum r
    held: int  # Held values
    found: int  # Detected held values
    false_found: int  # Detected values that no device held
    smallest: float | None  # The smallest true share detected, or None


def draw_fleet(
    fleet: Fleet,
    seed: int,
    advance: Advance = lambda _: None,
    executor: Executor | None = None,
) -> Drawn:
    """Draw the counts of a fleet, one task per cohort; `advance(1)` is called after each cohort."""
    sizes = draw_classes(fleet, seed)
    counts = no_counts(fleet.params, fleet.periods, len(fleet.shares))
    tasks = (
        CohortTask(fleet.params, fleet.shares, fleet.positions[:, [cohort]], fleet.reports_each,
                   sizes[:, :, cohort], cohort, seed)
        for cohort in range(fleet.params.num_cohorts)
    )  # fmt: skip
    for task, (reports, bit_counts, holders) in run_tasks(draw_cohort, tasks, executor):
        counts.reports[:, task.cohort] = reports
        counts.bit_counts[:, task.cohort] = bit_counts
        counts.holders[:] += holders
        advance(1)
    return Drawn(fleet, sizes, counts)


def horizons(periods: int) -> list[int]:
    """Return the numbers of first periods to decode together: 1, 2, 4, ..., and `periods`."""
    doubled = (1 << power for power in range(periods.bit_length()))
    return sorted({*(number for number in doubled if number <= periods), periods})


def decode_rows(
    drawn: Drawn, candidates: Candidates, declared: FleetMetric, options: DecodeOptions, start: date
) -> Iterator[Row]:
    """Decode each of `horizons` and yield its row; the fleet's values are the first candidates."""
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
    holders = drawn.counts.holders[:periods].sum(axis=0)
    shares = np.zeros(len(candidates))
    shares[: len(holders)] = holders / holders.sum()
    detected = np.asarray(table.detected, dtype=bool)
    true = shares[detected & (shares > 0)]
    return Row(
        periods=periods,
        reports=aggregate.num_reports,
        devices=int(drawn.sizes[:periods].sum()),
        repeats=repeats,
        held=int((holders > 0).sum()),
        found=len(true),
        false_found=int((detected & (shares == 0)).sum()),
        smallest=float(true.min()) if len(true) else None,
    )
