"""A synthetic city and its people's flows, to measure the coverage of flows' intervals.

Some worlds have flows that the gravity model describes, and others do not."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

import numpy as np

from decoder.flows.decoding import decode_flows
from decoder.flows.space import FlowSpace, cell_meters
from decoder.flows.tables import FlowDecoding
from decoder.inference.intervals import ShareTable
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import table_metrics
from rappor_core.metrics.flow import METERS, Flow, flow_symbols, question_of
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import aggregate_of_metric, draw_cohorts

START, END = date(2026, 11, 1), date(2026, 11, 30)
BOX = [40.63, -74.11, 40.83, -73.85]  # A real city with synthetic people
WITHOUT_DATA, LEAVING, ENTERING = 0.03, 0.04, 0.03  # Shares of people
REACH_KM, DEPARTURE = 4.0, 0.8  # Mean distance; deviation of a flow's logarithm from gravity
PER_COHORT = 1_000  # Approximate reports per cohort
SPIKES, SPIKE = 20, 0.03
TO_ONE_CELL = 0.7
LARGEST = 50  # Number of flows whose intervals are counted
QUANTITIES = (f"{LARGEST} largest", "detected flows", "zones", "detected zones", "night cells",
              "bands", "own cell and moved")  # fmt: skip


class FlowWorld(StrEnum):
    """The way in which people move between the cells of a city (`in_world`)."""

    AS_IS = "as is"
    SHUFFLED = "shuffled"
    SPIKES = "spikes"
    EVEN = "even"
    ONE_CELL = "one cell"


def city_metric(epsilon: float = 2.0, devices: int = 100_000, **changes: Any) -> Metric:
    """Return a flow metric for the city: 10 by 10 cells in 5 by 5 zones, unless changed.

    Args:
        epsilon: The lifetime epsilon of the single answer.
        devices: The number of devices that will answer, for the number of cohorts.
        changes: Changed keys of the metric's table.

    Returns:
        The metric `commute`.
    """
    cohorts = 10 * max(4, min(40, devices // (10 * PER_COHORT)))
    table: dict[str, Any] = {
        "kind": "flow",
        "description": "Usual night cell and usual work cell of one month, once",
        "owner": "simulation@example.org",
        "expires": date(2099, 12, 31),
        "grid": "square",
        "box": BOX,
        "rows": 5,
        "columns": 5,
        "levels": [0, 1],
        "from": "night 22-6",
        "to": "work 9-17 weekdays",
        "bands_km": [2, 4, 8, 16],
        "period": "month",
        "mode": "once",
        "epsilon": epsilon,
        "num_symbols": max(2, min(64, round(math.exp(epsilon) + 1))),
        "num_cohorts": cohorts,
        "no_data": "no_data",
    }
    (metric,) = table_metrics("commute", table | changes)
    return metric


def city_matrix(flow: Flow, rng: np.random.Generator, departure: float = DEPARTURE) -> Floats:
    """Return the shares of people (P,), row by row of the K + 2 sides, with sum 1.

    The people and jobs in a cell are lognormal. Flows decrease with distance, times a lognormal
    factor whose logarithm has the standard deviation `departure`. Two fifths also work in the cell
    where they live."""
    kilometers = cell_meters(flow) / METERS
    people = np.exp(rng.normal(0, 0.8, len(flow.cells)))
    jobs = np.exp(rng.normal(0, 1.2, len(flow.cells)))
    odd = rng.normal(0, departure, kilometers.shape)
    inside = people[:, None] * jobs * np.exp(odd - kilometers / REACH_KM)
    inside += np.diag(0.7 * inside.sum(axis=1))
    inside /= inside.sum()
    size = len(flow.cells)
    whole = np.zeros((size + 2, size + 2))
    whole[:size, :size] = (1 - WITHOUT_DATA - LEAVING - ENTERING) * inside
    whole[size, :size] = ENTERING * inside.sum(axis=0)
    whole[:size, size] = LEAVING * inside.sum(axis=1)
    whole[size + 1, size + 1] = WITHOUT_DATA
    return whole.ravel()


def draw_flows(
    metric: Metric,
    matrix: Floats,
    devices: int,
    rng: np.random.Generator,
    days: tuple[date, date] = (START, END),
    questions: frozenset[str] | None = None,
) -> Aggregate:
    """Return the counts of devices that answer once: exact draws, cohort by cohort.

    Args:
        metric: A metric of kind `flow`.
        matrix: The shares of pairs, (P,).
        devices: The number of devices.
        rng: The source of the draws.
        days: The first and last day of the counts.
        questions: The questions whose cohorts have devices, or None for all.

    Returns:
        The aggregate that a collector would serve.
    """
    flow, params = metric.details, metric.params
    space = FlowSpace.of(flow)
    reports = draw_cohorts(devices, params.num_cohorts, rng)
    if questions is not None:
        asks = np.array([question_of(cohort) in questions for cohort in range(params.num_cohorts)])
        reports = np.asarray(rng.multinomial(devices, asks / asks.sum()))
    mechanism = params.mechanism
    chances = np.full((params.num_bits, params.num_bits), mechanism.p_star)
    np.fill_diagonal(chances, mechanism.q_star)
    chances /= chances.sum(axis=1, keepdims=True)
    counts = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)
    for cohort, number in enumerate(reports.tolist()):
        question = question_of(cohort)
        shares = space.sums(question) @ matrix
        law = np.bincount(flow_symbols(params, flow, question, cohort), shares, params.num_bits)
        counts[cohort] = rng.multinomial(number, np.clip(law, 0, None) @ chances)
    return aggregate_of_metric(metric, reports, counts, *days)


@dataclass(frozen=True)
class FlowCoverage:
    """The coverage of 95 % intervals over draws of one matrix.

    Attributes:
        held: For each of `QUANTITIES`, the part of all intervals that contain the truth, its
            standard error over the draws, the part in the worst draw, and the mean number of
            intervals per draw; None without intervals.
        error: The mean total variation distance between `flow_share` and the matrix.
        detected: The number of detected flows in all draws.
        wrong: The number of these whose true share is below a quarter of the estimate.
        tau: The mean size of the departures.
    """

    draws: int
    held: dict[str, tuple[float, float, float, float] | None]
    error: float
    detected: int
    wrong: int
    tau: float


def flow_coverage(
    metric: Metric,
    matrix: Floats,
    devices: int,
    draws: int,
    rng: np.random.Generator,
    advance: Callable[[int], None],
) -> FlowCoverage:
    """Draw and decode, and count the intervals that contain the truth.

    Args:
        metric: A metric of kind `flow`.
        matrix: The shares of pairs, (P,), with sum 1.
        devices: The number of devices, which answer once.
        draws: The number of draws.
        rng: The source of the draws.
        advance: A callback, called with 1 after each draw.

    Returns:
        The counts over all draws.
    """
    flags_of: dict[str, list[Flags]] = {name: [] for name in QUANTITIES}
    results: list[FlowDecoding] = []
    for _ in range(draws):
        result = decode_flows(draw_flows(metric, matrix, devices, rng))
        for name, flags in _hits(result, matrix):
            flags_of[name].append(flags)
        results.append(result)
        advance(1)
    return FlowCoverage(
        draws,
        {name: _summary(flags) for name, flags in flags_of.items()},
        float(np.mean([off(row.flow_share, matrix) for row in results])),
        sum(row.num_detected for row in results),
        sum(int(is_wrong(row, matrix).sum()) for row in results),
        float(np.mean([row.tau for row in results])),
    )


def in_world(matrix: Floats, flow: Flow, world: FlowWorld, rng: np.random.Generator) -> Floats:
    """Change the flows between cells in a matrix to those of a world; other flows are unchanged.

    Args:
        matrix: The shares of pairs, (P,), with sum 1.
        flow: The flow of the metric.
        world: `as is`: unchanged; `shuffled`: each cell's destinations in a different order;
            `spikes`: 20 flows of 3 % of the people in cells, the remainder even; `even`: all flows
            equal; `one cell`: 70 % of each cell's people go to the same cell.
        rng: The source of the order, the flows or the cell.

    Returns:
        The changed shares, (P,), with sum 1.
    """
    whole, cells = matrix.reshape(flow.num_sides, -1).copy(), len(flow.cells)
    inside = whole[:cells, :cells]
    total = inside.sum()
    if world is FlowWorld.SHUFFLED:
        inside = rng.permuted(inside, axis=1)
    elif world is FlowWorld.EVEN:
        inside = np.full_like(inside, total / inside.size)
    elif world is FlowWorld.SPIKES:
        flows = np.full(inside.size, total * (1 - SPIKES * SPIKE) / inside.size)
        flows[rng.choice(inside.size, SPIKES, replace=False)] += SPIKE * total
        inside = flows.reshape(inside.shape)
    elif world is FlowWorld.ONE_CELL:
        center = np.zeros((1, cells))
        center[0, rng.integers(cells)] = 1
        inside = (1 - TO_ONE_CELL) * inside + TO_ONE_CELL * inside.sum(axis=1)[:, None] * center
    whole[:cells, :cells] = inside
    return np.asarray(whole.ravel())


def is_wrong(decoding: FlowDecoding, truth: Floats) -> Flags:
    """Return which detected flows truly have less than a quarter of the estimate, (detected,)."""
    detected = decoding.detected
    return np.asarray(truth[detected] < 0.25 * decoding.flows.estimate[detected])


def off(guess: Floats, truth: Floats) -> float:
    """Return the total variation distance of two share vectors, 0 if equal and 1 if disjoint."""
    return float(0.5 * np.abs(guess - truth).sum())


def _hits(fit: FlowDecoding, truth: Floats) -> Iterator[tuple[str, Flags]]:
    """Yield, for each quantity, which intervals in a decoding contain the truth."""
    space = FlowSpace.of(fit.flow)
    matrix = truth.reshape(space.num_sides, -1)
    cells = np.arange(space.num_cells)
    largest = np.argsort(-truth, kind="stable")[:LARGEST]
    flows, zones = _within(fit.flows, truth), _within(fit.zones, space.sums("zones") @ truth)
    same = truth[space.same == 1][: space.num_cells].sum()
    moved = truth[space.between_cells].sum() - same
    yield QUANTITIES[0], flows[largest]
    yield "detected flows", flows[fit.detected]
    yield "zones", zones
    yield "detected zones", zones[fit.zones_detected]
    yield "night cells", _within(fit.origins, matrix.sum(axis=1))[cells]
    yield "bands", _within(fit.bands, space.sums("distance") @ truth)
    yield "own cell and moved", np.append(_within(fit.own_cell, same), _within(fit.moved, moved))


def _within(table: ShareTable, truth: Any) -> Flags:
    return np.asarray((table.low <= truth) & (truth <= table.high))


def _summary(each: list[Flags]) -> tuple[float, float, float, float] | None:
    """Return the tuple of `FlowCoverage.held` from each draw's flags; None without intervals."""
    sizes = np.array([len(flags) for flags in each], dtype=float)
    if not sizes.sum():
        return None
    hits = np.array([float(flags.sum()) for flags in each])
    part = hits.sum() / sizes.sum()
    error = np.sqrt(np.sum((hits - part * sizes) ** 2)) / sizes.sum()
    worst = float(np.min(hits[sizes > 0] / sizes[sizes > 0]))
    return float(part), float(error), worst, float(sizes.mean())


FLOW_HEADINGS = ("world", "nats", "devices", "detected (wrong)", "off", "tau", "intervals of",
                 "a draw", "hold", "±", "worst draw")  # fmt: skip


def flow_lines(row: Mapping[str, Any]) -> list[list[str]]:
    """Return table lines under `FLOW_HEADINGS`, one per quantity; the first has the setting."""
    setting = [row["world"], f"{row['epsilon']:.3g}", f"{row['devices']:,}",
               f"{row['detected'] / row['draws']:.1f} ({row['wrong']})", f"{row['error']:.3f}",
               f"{row['tau']:.2g}"]  # fmt: skip
    lines = []
    for name, part in row["held"].items():
        numbers = ["-"] * 4
        if part is not None:
            numbers = [f"{part[3]:.0f}", f"{part[0]:.3f}", f"{part[1]:.3f}", f"{part[2]:.2f}"]
        lines.append([*setting, name, *numbers])
        setting = [""] * len(setting)
    return lines
