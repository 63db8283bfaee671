"""Numbers from the device over HTTP and the collector to files, and two periods compared."""

import csv
import json
import random
from datetime import timedelta
from pathlib import Path

import pytest

from client_sdk import MemoryState, Recorder
from client_sdk.numbers import NumberRecorder
from collector.domain.batch_writer import Receipt, ReportWriter
from collector.domain.report_validation import ReportJudge
from decoder.numbers.decoding import decode_numbers
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from tests.collector.support import NOON, TODAY, make_bench
from tests.metric_texts import declaration

DEVICES = 1_200
FILE = parse_metrics(declaration(
    "startup", "number", unit="ms", of_period="median", edges=[100, 400, 1600],
    none="apart", mode="memo", epsilon_infinity=5.0, epsilon_one=4.0, num_cohorts=8,
    min_reports=10, min_reports_per_cohort=1,
) + declaration(
    "crashes", "number", unit="crashes", of_period="sum", whole=True, edges=[1, 2, 3],
    none="zero", mode="memo", epsilon_infinity=5.0, epsilon_one=4.0, num_cohorts=6,
    min_reports=10, min_reports_per_cohort=1,
))  # fmt: skip
START = NOON.timestamp()


def day_of_a_device(rng: random.Random, device: NumberRecorder, now: float, pace: float) -> None:
    """Some have no start; medians are about 300 times the pace; few crash, some twice."""
    device.roll(now)
    if rng.random() < 0.75:
        middle = 300 * pace * rng.lognormvariate(0, 1)
        for factor in (0.5, 1.0, 2.0):
            device.record("startup", middle * factor, now)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        device.record("crashes", 1, now)


def reports_of_two_days() -> list[list]:  # type: ignore[type-arg]
    rng = random.Random(7)
    days: list[list] = [[], []]  # type: ignore[type-arg]
    for _ in range(DEVICES):
        state = MemoryState(rng.randbytes(32))
        recorder = Recorder(FILE.metrics, state, randomness=rng.randbytes)
        device = NumberRecorder(FILE.metrics, state, recorder)
        for day, pace in enumerate((1.0, 3.0)):
            day_of_a_device(rng, device, START + day * 86_400, pace)
        device.roll(START + 2 * 86_400)
        for report in state.take_reports():
            days[(report.day - TODAY).days].append(report)
    return days


@pytest.fixture(scope="module")
def aggregates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Aggregate]]:
    """What a collector serves of two days, each closed."""
    path = tmp_path_factory.mktemp("numbers")
    bench = make_bench(f"sqlite:///{path}/collector.db")
    bench.collector.push_metrics(list(FILE.metrics.values()), "test")
    judge = ReportJudge(refuse_implausible=True)
    bench.writer = ReportWriter(bench.database, judge, bench.clock, timedelta(minutes=10))
    for day, reports in enumerate(reports_of_two_days()):
        assert len(reports) == 2 * DEVICES  # each device, each metric, data or none
        (receipt,) = bench.send(reports)
        assert isinstance(receipt, Receipt)
        assert receipt.accepted == len(reports)
        bench.clock.pass_days(1)
        bench.collector.close_day(TODAY + timedelta(days=day), "test")
    served = {
        name: [
            bench.collector.read_aggregate("test", name, first=day, last=day)
            for day in (TODAY, TODAY + timedelta(days=1))
        ]
        for name in FILE.metrics
    }
    bench.database.close()
    return {name: [Aggregate.from_json(a.to_json()) for a in two] for name, two in served.items()}


def test_curve_counter_and_no_data_come_back(aggregates: dict[str, list[Aggregate]]) -> None:
    """Seeds are fixed; the bounds are five standard errors."""
    startup = decode_numbers(aggregates["startup"][0])
    assert startup.num_reports == DEVICES
    assert startup.with_data is not None
    assert abs(startup.with_data.estimate - 0.75) < 5 * startup.with_data.std_error
    truth = {100.0: 0.864, 400.0: 0.387, 1600.0: 0.047}
    for point in startup.curve:
        assert abs(point.estimate - truth[point.edge]) < 5 * point.std_error
        assert point.band_low <= point.low <= point.high <= point.band_high
    median = next(one for one in startup.quantiles if one.share == 0.5)
    assert (median.low, median.high) == (100.0, 400.0)
    crashes = decode_numbers(aggregates["crashes"][0])
    assert crashes.mean is not None
    assert crashes.mean.low < 0.6 < crashes.mean.high
    assert crashes.mean.least == crashes.mean.most  # an edge at each whole number
    assert crashes.with_data is None


def test_the_command_writes_curve_quantiles_and_changes(
    aggregates: dict[str, list[Aggregate]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = []
    for number, aggregate in enumerate(aggregates["startup"]):
        files += ["--aggregate", str(tmp_path / f"{number}.json")]
        (tmp_path / f"{number}.json").write_text(aggregate.to_json())
    out = tmp_path / "out"
    assert main(["decode", *files, "--each", "day", "-o", str(out), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert len(content["windows"]) == 2
    assert content == json.loads((out / "results.json").read_text())
    with (out / "changes.csv").open() as file:
        rows = {row["string"]: row for row in csv.DictReader(file)}
    edges = {f"at or above {edge} ms" for edge in ("100", "400", "1600")}
    assert rows.keys() == {"any data", *edges}
    assert float(rows["at or above 400 ms"]["low"]) > 0.1  # three times as slow on the second day
    assert float(rows["any data"]["p_adjusted"]) > 0.01
    with (out / "curve.csv").open() as file:
        assert [float(row["edge"]) for row in csv.DictReader(file)] == [100.0, 400.0, 1600.0]
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "any data" in page
    assert main(["decode", *files[:2]]) == 0
    printed = capsys.readouterr().out
    assert "Quantiles, ms, of devices with data" in printed
    (tmp_path / "list.txt").write_text("812\n")
    command = ["decode", *files[:2], "--candidates", str(tmp_path / "list.txt")]
    assert main(command) == 1
    assert "has a curve, not candidates" in capsys.readouterr().err
