"""Places from the device over a collector to a map: outside and no data are told apart."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from client_sdk import MemoryState, Recorder
from client_sdk.location.recorder import LocationRecorder
from collector.domain.batch_writer import Receipt, ReportWriter
from collector.domain.report_validation import ReportJudge
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.report import Report
from tests.collector.support import NOON, TODAY, make_bench
from tests.metric_texts import declaration

DEVICES = 1_000
OUTSIDE, MISSING = 0.3, 0.2
DECLARED = declaration(
    "places", "location", grid="square", box=[0, 0, 4, 4], rows=4, columns=4, levels=[0],
    mode="memo", num_cohorts=8, min_reports=10, min_reports_per_cohort=1, no_data="no_data",
    epsilon_infinity=8.0, epsilon_one=7.0,
)  # fmt: skip
ENCODINGS = {
    "bloom": 'num_bits = 16\nmechanism = "l-osue"\nmax_memoized_values = 3\n',
    "symbol": 'encoding = "symbol"\nnum_symbols = 16\n',
    "one_hot": 'encoding = "one_hot"\nmechanism = "l-osue"\nmax_memoized_values = 3\n',
}
CELLS = {"0-1-1": (1.5, 1.5), "0-2-3": (2.5, 3.5)}  # three quarters and a quarter of those inside


def day_of(rng: random.Random, device: LocationRecorder) -> str:
    """Fixes of a day, or none; what the device should answer."""
    morning = NOON.replace(hour=0, minute=5)
    device.roll(morning)
    draw = rng.random()
    if draw < MISSING:
        return "no_data"
    answer = rng.choices([*CELLS], (3, 1))[0] if draw > MISSING + OUTSIDE else "other"
    point = CELLS.get(answer, (50.0, 50.0))
    for hour in (2, 3):
        at = morning + timedelta(hours=hour)
        device.fix("places", *point, at)
    passing: datetime = morning + timedelta(hours=4)
    device.fix("places", 0.5, 0.5, passing)  # an hour at most
    return answer


def answers(declared: str) -> tuple[Counter[str], list[Report]]:
    """What devices hold, and the report of each."""
    file, rng = parse_metrics(declared), random.Random(11)
    held, reports = Counter[str](), []
    for _ in range(DEVICES):
        state = MemoryState(rng.randbytes(32))
        recorder = Recorder(file.metrics, state, randomness=rng.randbytes)
        device = LocationRecorder(file, state, recorder, lambda: 0.0)
        held[day_of(rng, device)] += 1
        device.roll(NOON.replace(hour=0) + timedelta(days=1, minutes=5))
        reports += state.take_reports()
    return held, reports


def collected(declared: str, reports: list[Report], folder: Path) -> Aggregate:
    """What a collector serves of the day, closed."""
    bench = make_bench(f"sqlite:///{folder}/collector.db")
    bench.collector.push_metrics(list(parse_metrics(declared).metrics.values()), "test")
    bench.writer = ReportWriter(
        bench.database, ReportJudge(refuse_implausible=True), bench.clock, timedelta(minutes=10)
    )
    bench.clock.pass_days(1)
    (receipt,) = bench.send(reports)
    assert isinstance(receipt, Receipt)
    assert receipt.accepted == len(reports)
    bench.collector.close_day(TODAY, "test")
    served = bench.collector.read_aggregate("test", "places/day/0", first=TODAY, last=TODAY)
    bench.database.close()
    return served


@pytest.mark.parametrize(
    "encoding",
    ["one_hot", *(pytest.param(one, marks=pytest.mark.long) for one in ("bloom", "symbol"))],
)
def test_both_shares_come_back_from_fixes(
    encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeds are fixed; the bounds are five standard errors."""
    declared = DECLARED + ENCODINGS[encoding]
    held, reports = answers(declared)
    assert len(reports) == DEVICES
    assert abs(held["other"] / DEVICES - OUTSIDE) < 0.06
    assert abs(held["no_data"] / DEVICES - MISSING) < 0.06
    path, out = tmp_path / "day.json", tmp_path / "maps"
    path.write_text(collected(declared, reports, tmp_path).to_json())
    assert main(["density", "places", "--aggregate", str(path), "--json", "-o", str(out)]) == 0
    rows = {row["cell"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows)[-2:] == ["other", "no_data"]
    assert len(rows) == 18
    for name in ("other", "no_data", *CELLS):
        row, truth = rows[name], held[name] / DEVICES
        assert abs(row["estimate"] - truth) < 5 * row["std_error"]
        assert row["std_error"] < 0.04
        assert row["detected"]
        assert abs(row["map_share"] - truth) < 0.08
    assert sum(row["map_share"] for row in rows.values()) == pytest.approx(1)
    with (out / "density.csv").open() as file:
        assert [row["cell"] for row in csv.DictReader(file)] == list(rows)
    assert '"no data" (a slot and period without a fix)' in (out / "density.html").read_text()
