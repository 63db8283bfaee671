"""The effect of fabricated reports on an estimate, and whether the decoder's warnings reveal them.

Fabricated ("forged") reports come from devices that send arbitrary bits. In the paper's exponential
population, some devices use them to make one value appear that no device holds. Five ways to forge
range from a lie within the protocol to the reports that shift the estimate most. Each is compared
with the decoder's `forged` (the smallest fraction of all reports that, if forged, explains an
estimate), its warnings, and the collector's check of weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collector.domain.registry import weight_range
from decoder import Candidates, DecodeOptions, Decoding, decode
from decoder.estimation.estimate import by_cavity
from decoder.model.counts import observe
from decoder.numerics.bit_tensor import one_thread
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from simulations.experiments.paper import EXPONENTIAL_PARAMS as PARAMS
from simulations.experiments.paper import exponential_population
from simulations.outcome import Columns
from simulations.populations.draws import draw_listed

COLUMNS: Columns = (
    ("way to forge", "way", "s"), ("forged", "fraction", ".1%"), ("estimate", "shift", ".2%"),
    ("+-", "error", ".2%"), ("a report", "lever", ".2f"), ("found", "found", ".0%"),
    ("lower bound", "explained", ".2%"), ("bound holds", "kept", ".0%"),
    ("held, found", "true_found", ".1f"), ("warned", "warned", ".0%"),
    ("of", "warned_of", "s"), ("refused", "refused", ".0%"),
)  # fmt: skip

Counts = NDArray[np.int64]

REPORTS = 1_000_000
TARGET = 150  # Index of a listed value that no device holds
FRACTIONS = (0.001, 0.003, 0.01, 0.03, 0.1)
NONE = "nothing forged"
LIE, BARE, HIDDEN, BEST, ONE = (
    "false value, honest noise",
    "bare bits of the value",
    "its bits, the others noisy",
    "best bits that are accepted",
    "its bits, in one cohort",
)
WAYS = (LIE, BARE, HIDDEN, BEST, ONE)
WARNINGS = {
    "impossible": "No values give such counts",
    "fit": "No fit converged",
    "left out": "left out (cohort",
    "cohorts": "do not follow the others",
    "sizes": "not equally large",
    "variance": "times more than the model says",
    "unlisted": "not on the list weigh",
    "sum": "sum to",
    "repeats": "that are not declared",
}  # By name: words that occur only in this decoder warning


@dataclass(frozen=True)
class Run:
    """The outcome of one decoding with forged reports; "the value" is the one at `TARGET`."""

    shift: float  # The estimate of the value
    found: bool  # Whether the value is detected
    explained: float  # `forged` of the value; NaN if not detected
    true_found: int  # Detected held values
    warned: frozenset[str]  # Names in `WARNINGS`
    refused: float  # The fraction of forged reports that the collector rejects


@dataclass(frozen=True)
class Row:
    """The result for one of `WAYS` to forge one fraction of the reports, over runs.

    Attributes:
        shift: The mean estimate of the value that no device holds.
        error: The standard error of `shift`.
        lever: The shift per forged report.
        found: The share of runs that detect the value.
        explained: The median of `forged` over these runs; NaN if there are none.
        kept: The fraction of these runs in which `forged` is at most the forged fraction, as
            promised to first order.
        true_found: The mean number of detections among the hundred held values.
        warned: The share of runs with a warning that honest reports rarely cause.
        warnings: The share of runs with each warning, by name.
        refused: The share of forged reports that the collector's check of weights rejects.
    """

    way: str
    fraction: float
    runs: int
    shift: float
    error: float
    lever: float
    found: float
    explained: float
    kept: float
    true_found: float
    warned: float
    warnings: dict[str, float]
    refused: float


def held_shares() -> Floats:
    """Return the true shares of the candidates, (200,), held candidates first."""
    return exponential_population()[1]


def poisoning(
    runs: int,
    reports: int,
    rng: np.random.Generator,
    fractions: Sequence[float] = FRACTIONS,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Row]:
    """Draw and decode `runs` times for each of `WAYS` and fraction of forged reports."""
    listed = Candidates.from_strings(f"v{i}" for i in range(len(held_shares())))
    cases = [(NONE, 0.0), *((way, fraction) for way in WAYS for fraction in fractions)]
    rows = []
    for way, fraction in cases:
        results = [_run(way, fraction, reports, listed, rng) for _ in range(runs)]
        rows.append(_row(way, fraction, results))
        advance(1)
    return rows


def lever(bits_set: int = 1) -> float:
    """Return the number of honest holders that one forged report represents.

    The number is (1 - p*) / (q* - p*) with the value's bits set (`bits_set` = 1), and -p* / (q* -
    p*) with them clear (0)."""
    return (bits_set - PARAMS.p_star) / (PARAMS.q_star - PARAMS.p_star)


def _run(
    way: str, fraction: float, reports: int, listed: Candidates, rng: np.random.Generator
) -> Run:
    forged = round(fraction * reports)
    positions = listed.positions(PARAMS)
    honest, _ = draw_listed(positions, held_shares(), reports - forged, PARAMS, rng)
    aggregate, refused = honest, 0.0
    if forged:
        best = best_bits(honest, listed) if way == BEST else None
        added, refused = forgeries(way, forged, positions[TARGET], best, rng)
        aggregate = joined(honest, *added)
    decoding = decode(aggregate, listed, DecodeOptions(correction="bonferroni"))
    return _seen(decoding, refused)


def forgeries(
    way: str,
    number: int,
    bits: NDArray[np.integer[Any]],
    best: Counts | None,
    rng: np.random.Generator,
) -> tuple[tuple[Counts, Counts], float]:
    """Draw forged reports: numbers by cohort (m,), bit counts (m, k), and the rejected share.

    `bits` are the value's bits by cohort, (m, h); `best` has 0 or 1 for each bit, (m, k), for way
    `BEST`."""
    m, k = PARAMS.num_cohorts, PARAMS.num_bits
    each = rng.multinomial(number, np.full(m, 1 / m))
    if way == ONE:
        each = np.where(np.arange(m) == 0, number, 0)
    noisy = way in (LIE, HIDDEN, ONE)
    chance = np.full((m, k + 1), PARAMS.p_star if noisy else 0.0)
    np.put_along_axis(chance, bits.astype(np.int64), PARAMS.q_star if way == LIE else 1.0, axis=1)
    chance = chance[:, :k] if best is None else best.astype(float)
    counts = rng.binomial(each[:, None], chance)
    return (each, counts), _refused(chance, each, rng)


def _refused(chance: Floats, each: Counts, rng: np.random.Generator) -> float:
    allowed = weight_range(PARAMS)
    cohorts = rng.choice(len(each), size=2_000, p=each / each.sum())
    weights = (rng.random((2_000, chance.shape[1])) < chance[cohorts]).sum(axis=1)
    return float(((weights < allowed.lowest) | (weights > allowed.highest)).mean())


def joined(honest: Aggregate, reports: Counts, counts: Counts) -> Aggregate:
    """Return the sum of honest and forged counts, as a collector would add them up."""
    total = np.array(honest.reports_per_cohort) + reports
    bits = np.array(honest.bit_counts) + counts
    return replace(
        honest,
        reports_per_cohort=tuple(total.tolist()),
        bit_counts=tuple(map(tuple, bits.tolist())),
    )


def best_bits(honest: Aggregate, listed: Candidates) -> Counts:
    """Return the bits (m, k) that raise the value's estimate most and pass the check of weights.

    The forger is assumed to know the honest counts, the list and the decoder."""
    with one_thread():
        observed = observe(honest, listed.positions(PARAMS), 1.0)
        fit = by_cavity(observed, 0.95)
    if fit.directions is None:
        return np.zeros(observed.bit_shares.shape, dtype=np.int64)
    directions = fit.directions(np.array([TARGET])).reshape(observed.bit_shares.shape)
    allowed = weight_range(PARAMS)
    number = np.clip((directions > 0).sum(axis=1), allowed.lowest, allowed.highest)
    rank = np.argsort(np.argsort(-directions, axis=1, kind="stable"), axis=1, kind="stable")
    return np.asarray(rank < number[:, None], dtype=np.int64)


def _seen(decoding: Decoding, refused: float) -> Run:
    table = decoding.candidates
    warnings = " ".join(decoding.warnings)
    return Run(
        shift=float(table.estimate[TARGET]),
        found=bool(table.detected[TARGET]),
        explained=float(table.forged[TARGET]),
        true_found=int(table.detected[held_shares() > 0].sum()),
        warned=frozenset(name for name, words in WARNINGS.items() if words in warnings),
        refused=refused,
    )


def _row(way: str, fraction: float, runs: list[Run]) -> Row:
    shifts = np.array([run.shift for run in runs])
    explained = np.array([run.explained for run in runs if run.found])
    has_explained = len(explained) > 0
    error = float(shifts.std(ddof=1)) / len(runs) ** 0.5 if len(runs) > 1 else float("nan")
    return Row(
        way=way,
        fraction=fraction,
        runs=len(runs),
        shift=float(shifts.mean()),
        error=error,
        lever=float(shifts.mean()) / fraction if fraction else float("nan"),
        found=len(explained) / len(runs),
        explained=float(np.median(explained)) if has_explained else float("nan"),
        kept=float((explained <= fraction).mean()) if has_explained else float("nan"),
        true_found=float(np.mean([run.true_found for run in runs])),
        warned=float(np.mean([bool(run.warned) for run in runs])),
        warnings={w: float(np.mean([w in run.warned for run in runs])) for w in WARNINGS},
        refused=float(np.mean([run.refused for run in runs])),
    )
