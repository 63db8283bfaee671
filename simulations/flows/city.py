"""A made-up city: who sleeps where and works where, and the counts that its devices give."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np

from decoder.flows.space import FlowSpace, cell_metres
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import table_metrics
from rappor_core.metrics.flow import METRES, Flow, flow_symbols, question_of
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import aggregate_of_metric, draw_cohorts

START, END = date(2026, 11, 1), date(2026, 11, 30)
BOX = [40.63, -74.11, 40.83, -73.85]  # of a real city, with people who are made up
WITHOUT_DATA, LEAVING, ENTERING = 0.03, 0.04, 0.03  # shares of people
REACH_KM, DEPARTURE = 4.0, 0.8  # mean way; of the logarithm of a flow from gravity
PER_COHORT = 1_000  # reports that a cohort has about


def city_metric(epsilon: float = 2.0, devices: int = 100_000, **changes: Any) -> Metric:
    """A metric of flows of the city: 10 by 10 cells in 5 by 5 zones, unless changed.

    Args:
        epsilon: of the one answer, for life.
        devices: that will answer, for the number of cohorts.
        changes: keys of the metric's table.

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
    """Shares of people (P,), row by row of the K + 2 sides, of sum 1.

    People and jobs of a cell are lognormal, flows fall with the distance and depart from that by
    a lognormal factor, `departure` its standard deviation in the logarithm; two fifths work in
    their cell besides.
    """
    kilometres = cell_metres(flow) / METRES
    people = np.exp(rng.normal(0, 0.8, len(flow.cells)))
    jobs = np.exp(rng.normal(0, 1.2, len(flow.cells)))
    odd = rng.normal(0, departure, kilometres.shape)
    inside = people[:, None] * jobs * np.exp(odd - kilometres / REACH_KM)
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
    asked: frozenset[str] | None = None,
) -> Aggregate:
    """The counts of devices that answer once: exact draws, cohort by cohort.

    Args:
        metric: of kind `flow`.
        matrix: (P,) shares of pairs.
        devices: number of them.
        rng: source of the draws.
        days: first and last day of the counts.
        asked: questions whose cohorts have devices, None for all.

    Returns:
        The aggregate that a collector would serve.
    """
    flow, params = metric.details, metric.params
    space = FlowSpace.of(flow)
    reports = draw_cohorts(devices, params.num_cohorts, rng)
    if asked is not None:
        kept = np.array([question_of(cohort) in asked for cohort in range(params.num_cohorts)])
        reports = np.asarray(rng.multinomial(devices, kept / kept.sum()))
    mechanism = params.mechanism
    chances = np.full((params.num_bits, params.num_bits), mechanism.p_star)
    np.fill_diagonal(chances, mechanism.q_star)
    chances /= chances.sum(axis=1, keepdims=True)
    counts = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)
    for cohort, number in enumerate(reports.tolist()):
        question = question_of(cohort)
        shares = space.sums(question) @ matrix
        own = np.bincount(flow_symbols(params, flow, question, cohort), shares, params.num_bits)
        counts[cohort] = rng.multinomial(number, np.clip(own, 0, None) @ chances)
    return aggregate_of_metric(metric, reports, counts, *days)
