"""Flows from fixes on devices over the collector to an aggregate of symbols by cohort."""

import json
import random
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import numpy as np

from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.flow import QUESTIONS, Flow, flow_symbols, question_of
from rappor_core.params import RapporParams
from tests.collector.support import TODAY, served_after_a_day
from tests.flow_support import flow_text
from tests.places_support import fix

DEVICES = 600
HOMES = [(0.5, 0.5), (0.5, 1.5), (3.5, 3.5)]
SHARES = [0.5, 0.3, 0.2]
WORK = (1.5, 0.5)


def test_flow_reports_are_counted_by_cohort_and_symbol(tmp_path: Path) -> None:
    """Seeds are fixed; each question finds the share of its own class within five errors."""
    file = parse_metrics(flow_text(epsilon="6.0", num_symbols="16", num_cohorts="10"))
    metric, rng, reports = file.metrics["commute"], random.Random(7), []
    flow, params = metric.details, metric.params
    night = datetime.combine(TODAY, time(2), UTC)
    for _ in range(DEVICES):
        state = MemoryState(rng.randbytes(32))
        recorder = Recorder(file.metrics, state, randomness=rng.randbytes)
        places = LocationRecorder(file, state, recorder, lambda: 0.0)
        fix(places, "commute", *rng.choices(HOMES, SHARES)[0], night)
        fix(places, "commute", *WORK, night + timedelta(hours=8))
        places.roll(night + timedelta(days=1))
        reports += state.take_reports()
    aggregate = served_after_a_day(tmp_path, metric, reports)
    assert Aggregate.from_json(aggregate.to_json()) == aggregate
    assert aggregate.num_reports == DEVICES
    stored, out = f"sqlite:///{tmp_path}/collector.db", tmp_path / "flows"
    assert main(["flows", "commute", "--database", stored, "-o", str(out)]) == 0
    found = json.loads((out / "results.json").read_text())
    assert found["num_reports"] == DEVICES
    assert {(row["origin"], row["destination"]) for row in found["flows"] if row["detected"]} == {
        (flow.grid.place(*home, flow.grid.finest), flow.grid.place(*WORK, flow.grid.finest))
        for home in HOMES
    }
    assert [sum(row) for row in aggregate.bit_counts] == list(aggregate.reports_per_cohort)

    counts, asked = np.array(aggregate.bit_counts), np.array(aggregate.reports_per_cohort)
    home, work = (
        flow.cells.index(flow.grid.place(*place, flow.grid.finest)) for place in (HOMES[0], WORK)
    )
    p, lie = params.mechanism.p2 / 2**16, params.mechanism.q2 / 2**16
    for question in QUESTIONS:
        cohorts = [c for c in range(10) if question_of(c) == question]
        number = flow.class_of(question, home, work)
        symbols = [flow_symbols(params, flow, question, c)[number] for c in cohorts]
        shown = sum(counts[c, s] for c, s in zip(cohorts, symbols, strict=True))
        n = sum(asked[c] for c in cohorts)
        true = sum(_falls_on(params, flow, question, c, s, work)
                   for c, s in zip(cohorts, symbols, strict=True)) / len(cohorts)  # fmt: skip
        share = (shown / n - lie) / (p - lie)
        error = np.sqrt(p * (1 - p) / n) / (p - lie) + np.sqrt(true * (1 - true) / n) + 0.01
        assert abs(share - true) < 5 * error, question


def _falls_on(
    params: RapporParams, flow: Flow, question: str, cohort: int, symbol: int, work: int
) -> float:
    """Share of the devices whose class falls on a symbol in a cohort."""
    table = flow_symbols(params, flow, question, cohort)
    homes = [flow.cells.index(flow.grid.place(*place, flow.grid.finest)) for place in HOMES]
    return sum(
        share
        for home, share in zip(homes, SHARES, strict=True)
        if table[flow.class_of(question, home, work)] == symbol
    )
