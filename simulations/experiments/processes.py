"""The paper's experiment on processes (arXiv:1407.6981, section 6), with repeated reports.

It has 186,792 reports from 10,133 machines, more than 18 per machine, all in the machine's cohort.
The true variance of estimates depends on how reports repeat. Three ways are drawn, and each is
decoded under four assumptions about repeats. The paper lists the ten most frequent names (2.5 to
4.5 %, one of 2.6 % marked); the other names, held or not, are this project's choice."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

import numpy as np
from numpy.typing import NDArray

from decoder import Candidates, DecodeOptions, Decoding, decode
from decoder.inference.multiple_testing import Correction
from decoder.typing import Floats
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.outcome import Columns
from simulations.populations.draws import Holders, draw_repeated

COLUMNS: Columns = (
    ("machines report", "way", "s"), ("rho", "rho", ".2f"),
    ("reports are taken as", "handling", "s"), ("rho used", "used", ".2f"),
    ("stated error", "stated", ".3%"), ("real", "real", ".3%"), ("+-", "real_error", ".3%"),
    ("covered", "coverage", ".1%"), ("found of 10", "found", ".1f"),
    ("marked, found", "marked", ".0%"), ("estimate", "estimate", ".2%"),
    ("false", "false", ".2f"),
)  # fmt: skip

Counts = NDArray[np.int64]
Advance = Callable[[int], None]

DEVICES, REPORTS = 10_133, 186_792
TOP = (0.045, 0.043, 0.040, 0.038, 0.035, 0.032, 0.030, 0.028, 0.026, 0.025)
MARKED = 8  # Index in TOP
TAIL, ABSENT = 240, 250  # Rarer names, from .75 % down; names that no machine runs
PARAMS = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=8, prob_f=0.5, prob_p=0.5, prob_q=0.75
)
HANDLINGS = ("each a separate device", "nothing declared", "bound declared", "known")
_FLAT = 50  # In the tail's weights 1 / (i + _FLAT)


@dataclass(frozen=True)
class DecodedRun:
    """One decoding: the stated and real mean squared errors of the ten names, and detections."""

    estimate: float  # The estimate for the marked name
    stated: float  # The mean square of the standard errors
    real: float  # The mean squared deviation from the truth
    covered: int  # The number of the ten names that intervals cover
    found: int  # The number of the ten names that are detected
    marked: bool  # Whether the marked name is detected
    false: int  # Detected names that no machine runs
    used: float  # The decoder's rho


@dataclass(frozen=True)
class Row:
    """The result for one of `WAYS` to repeat reports and one of `HANDLINGS`, over runs.

    Attributes:
        rho: sum r^2 / sum r of the machines.
        used: The mean rho of the decoder.
        stated: The root mean square of the ten names' standard errors.
        real: The root mean square of their deviations from the population's shares.
        real_error: The standard error of `real`, as if the ten erred independently.
        coverage: The coverage of the ten names' 95 % intervals.
        estimate: The mean estimate of the marked name.
        marked: The share of runs that detect it.
        found: The mean number of detections among the ten.
        false: The mean number of detected names that no machine runs.
    """

    way: str
    handling: str
    runs: int
    rho: float
    used: float
    stated: float
    real: float
    real_error: float
    coverage: float
    estimate: float
    marked: float
    found: float
    false: float


def population() -> tuple[list[str], Floats]:
    """Return the names on the list and their shares of the reports, 0 for the last `ABSENT`."""
    tail = 1 / (np.arange(TAIL) + _FLAT)
    tail *= (1 - sum(TOP)) / tail.sum()
    names = [f"process-{i + 1:03}.exe" for i in range(len(TOP) + TAIL + ABSENT)]
    return names, np.concatenate([TOP, tail, np.zeros(ABSENT)])


def _reports_of(devices: int) -> Counts:
    """Return the numbers of reports per machine, as even as the paper's totals allow."""
    total = round(devices * REPORTS / DEVICES)
    return total // devices + (np.arange(devices) < total % devices).astype(np.int64)


def _running(reports: int, devices: int, shares: Floats, rng: np.random.Generator) -> Counts:
    """Draw distinct processes for machines, (devices, reports), each by its share.

    By systematic sampling (Madow 1949), a process runs on reports * share of the machines."""
    order = rng.permutation(len(shares))
    ends = np.cumsum(reports * shares[order])
    at = rng.random((devices, 1)) + np.arange(reports)
    return np.asarray(order[np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1)])


def fleet_of(way: str, devices: int, shares: Floats, rng: np.random.Generator) -> Holders:
    """Draw a fleet that repeats its reports in one of `WAYS`."""
    number = _reports_of(devices)
    device, value = [], []
    for each in np.unique(number).tolist():
        mine = np.flatnonzero(number == each)
        value.append(WAYS[way](each, len(mine), shares, rng).ravel())
        device.append(np.repeat(mine, each))
    names = np.concatenate(value)
    return Holders.of(devices, np.concatenate(device), names, np.ones_like(names))


def each_once(each: int, machines: int, shares: Floats, rng: np.random.Generator) -> Counts:
    """Return reports of machines that report every running process once, (machines, each)."""
    return _running(each, machines, shares, rng)


def at_random(each: int, machines: int, shares: Floats, rng: np.random.Generator) -> Counts:
    """Return reports that each name a random process of their machine, so that values repeat."""
    running = _running(each, machines, shares, rng)
    return np.take_along_axis(running, rng.integers(each, size=running.shape), axis=1)


def always_one(each: int, machines: int, shares: Floats, rng: np.random.Generator) -> Counts:
    """Return reports of machines that have one process and report it every time."""
    return np.repeat(rng.choice(len(shares), size=(machines, 1), p=shares), each, axis=1)


WAYS = {
    "each process once": each_once,
    "one of them at random": at_random,
    "always the same one": always_one,
}


def declared(bound: int) -> Metric:
    """Return the metric, which allows `bound` reports per machine in the window."""
    return Metric(
        name="process",
        kind="string",
        description="A process that runs on the machine",
        owner="simulation@example.org",
        expires=date(2099, 12, 31),
        params=PARAMS,
        max_memoized_values=bound + 1,
        fallback="other",
        max_reports_per_period=bound,
    )


def processes(
    runs: int,
    devices: int,
    rng: np.random.Generator,
    correction: Correction = "bh",
    advance: Advance = lambda _: None,
) -> list[Row]:
    """Draw `runs` fleets for each of `WAYS`, and decode each by all of `HANDLINGS`."""
    names, shares = population()
    listed = Candidates.from_strings(names)
    rows = list[Row]()
    for way in WAYS:
        readings: dict[str, list[DecodedRun]] = {handling: [] for handling in HANDLINGS}
        rhos = []
        for _ in range(runs):
            holders = fleet_of(way, devices, shares, rng)
            rhos.append(holders.repetition)
            for handling, decoding in _decodings(holders, listed, rng, correction):
                readings[handling].append(_reading(decoding, shares))
            advance(1)
        rho = float(np.mean(rhos))
        rows += [_row(way, handling, rho, results) for handling, results in readings.items()]
    return rows


def _decodings(
    holders: Holders, listed: Candidates, rng: np.random.Generator, correction: Correction
) -> Iterator[tuple[str, Decoding]]:
    bound = int(np.bincount(holders.device, holders.reports).max())
    options = partial(DecodeOptions, correction=correction)
    aggregate = draw_repeated(holders, listed.positions(PARAMS), PARAMS, rng, declared(bound))
    bare = replace(aggregate, definition={}, params_id="")
    yield HANDLINGS[0], decode(bare, listed, options(repeats=1.0))
    yield HANDLINGS[1], decode(bare, listed, options())
    yield HANDLINGS[2], decode(aggregate, listed, options())
    yield HANDLINGS[3], decode(aggregate, listed, options(repeats=holders.repetition))


def _reading(decoding: Decoding, shares: Floats) -> DecodedRun:
    table, top = decoding.candidates, slice(len(TOP))
    inside = (table.low[top] <= shares[top]) & (shares[top] <= table.high[top])
    return DecodedRun(
        estimate=float(table.estimate[MARKED]),
        stated=float((table.std_error[top] ** 2).mean()),
        real=float(((table.estimate[top] - shares[top]) ** 2).mean()),
        covered=int(inside.sum()),
        found=int(table.detected[top].sum()),
        marked=bool(table.detected[MARKED]),
        false=int(table.detected[shares == 0].sum()),
        used=decoding.summary.repetition,
    )


def _row(way: str, handling: str, rho: float, results: list[DecodedRun]) -> Row:
    def mean(name: str) -> float:
        return float(np.mean([getattr(result, name) for result in results]))

    real, number = mean("real") ** 0.5, len(results) * len(TOP)
    return Row(
        way=way,
        handling=handling,
        runs=len(results),
        rho=rho,
        used=mean("used"),
        stated=mean("stated") ** 0.5,
        real=real,
        real_error=real / float(np.sqrt(2 * number)),
        coverage=mean("covered") / len(TOP),
        estimate=mean("estimate"),
        marked=mean("marked"),
        found=mean("found"),
        false=mean("false"),
    )
