"""Fleets that are drawn as counts have the law of fleets of devices, over periods too."""

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from client_sdk import Encoder
from client_sdk.testing import FixedRandomness
from decoder import Candidates
from rappor_cli.simulate import app
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.tasks import open_executor
from simulations.fleets import Fleet, FleetError, draw_classes, draw_fleet, repetition
from tests.collector.support import make_metric

VALUES = ["red", "green", "blue"]
SHARES = np.array([0.5, 0.3, 0.2])
PERIODS = 3
FALSE_ALARM = 1e-5  # of each comparison below, were the laws equal and the seeds other ones


def metric_of(**changes: object) -> Metric:
    return make_metric("color", num_bits=8, num_cohorts=2, **changes)


def fleet_of(params: RapporParams, devices: int, turnover: float = 0.0, **more: int) -> Fleet:
    positions = Candidates.from_strings(VALUES).positions(params)
    return Fleet(params, SHARES, positions, devices, PERIODS, turnover, **more)


def of_devices(metric: Metric, devices: int, runs: int, seed: int) -> np.ndarray:
    """Counts (runs, T, m, k) by the SDK itself: a secret a device, the same value each period."""
    rng, source = np.random.default_rng(seed), FixedRandomness(seed)
    shape = (runs, PERIODS, metric.params.num_cohorts, metric.params.num_bits)
    counts = np.zeros(shape, dtype=np.int64)
    for run in range(runs):
        for value in rng.choice(VALUES, size=devices, p=SHARES):
            encoder = Encoder({metric.name: metric}, source(32), source)
            for period in range(PERIODS):
                report = encoder.encode(metric.name, str(value), date(2026, 11, 2))
                bits = np.frombuffer(report.bits, dtype=np.uint8)
                counts[run, period, report.cohort] += np.unpackbits(bits, bitorder="little")
    return counts


def drawn(params: RapporParams, devices: int, runs: int) -> np.ndarray:
    """Counts (runs, T, m, k) from the law."""
    fleet = fleet_of(params, devices)
    return np.array([draw_fleet(fleet, seed).counts.bit_counts for seed in range(runs)])


def statistics(counts: np.ndarray) -> dict[str, np.ndarray]:
    """What must agree: one bit, its change between periods, all bits at once, both cohorts."""
    return {
        "a bit": counts[:, 0, 0, 0],
        "its change": counts[:, 2, 0, 0] - counts[:, 0, 0, 0],
        "changes of all bits": ((counts[:, 1] - counts[:, 0]) ** 2).sum(axis=(1, 2)),
        "a cohort": counts[:, 0, 0].sum(axis=1),
        "both": counts[:, 0].sum(axis=(1, 2)),
        "all periods": counts.sum(axis=(1, 2, 3)),
    }


def p_values(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Kolmogorov-Smirnov, which is conservative for counts."""
    left, right = statistics(one), statistics(other)
    return {name: float(stats.ks_2samp(left[name], right[name]).pvalue) for name in left}


@pytest.mark.statistical
def test_counts_have_the_law_of_the_sdk() -> None:
    """Neighbors: permanent bits redrawn each period, another f, a share moved."""
    metric, devices, runs = metric_of(), 25, 200
    real = of_devices(metric, devices, runs, seed=5)
    ours = drawn(metric.params, devices, 1200)
    assert min(p_values(real, ours).values()) > FALSE_ALARM
    fresh = np.concatenate([ours[p * 400 : p * 400 + 400, :1] for p in range(3)], axis=1)
    assert p_values(real, fresh)["changes of all bits"] < FALSE_ALARM
    other = metric_of(prob_f=0.75).params
    assert min(p_values(real, drawn(other, devices, 600)).values()) < FALSE_ALARM


@pytest.mark.long
@pytest.mark.statistical
def test_turnover_has_the_law_of_changing_devices() -> None:
    """A second way: device by device in numpy; means, and covariances over periods and bits."""
    params, devices, turnover, runs = metric_of().params, 60, 0.4, 1200
    fleet = fleet_of(params, devices, turnover)
    ours = np.array([draw_fleet(fleet, seed).counts.bit_counts for seed in range(runs)])
    rng = np.random.default_rng(9)
    theirs = np.array([_device_by_device(fleet, rng) for _ in range(runs)])
    for one, other in zip(*(x.reshape(runs, -1) for x in (ours, theirs)), strict=True):
        assert one.shape == other.shape
    columns = [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 3), (2, 1, 3)]
    picked = [np.array([x[:, *c] for c in columns], dtype=float) for x in (ours, theirs)]
    for x, y in zip(*picked, strict=True):
        assert stats.ks_2samp(x, y).pvalue > FALSE_ALARM
    for i in range(len(columns)):
        for j in range(i):
            products = [(x[i] - x[i].mean()) * (x[j] - x[j].mean()) for x in picked]
            assert stats.ttest_ind(*products).pvalue > FALSE_ALARM
    kept = np.cov(picked[0][0], picked[0][2])[0, 1]  # memoized bits of those who stayed
    without = fleet_of(params, devices, 0.0)
    stay = np.array([draw_fleet(without, s).counts.bit_counts for s in range(runs)])
    assert 0 < kept < np.cov(stay[:, 0, 0, 0], stay[:, 2, 0, 0])[0, 1]


def _device_by_device(fleet: Fleet, rng: np.random.Generator) -> np.ndarray:
    params = fleet.params
    m = params.mechanism
    p1, q1, p2, q2 = (value / (1 << 16) for value in (m.p1, m.q1, m.p2, m.q2))
    size, bits = fleet.devices, params.num_bits
    counts = np.zeros((PERIODS, params.num_cohorts, bits), dtype=np.int64)

    def newcomers(number: int) -> tuple[np.ndarray, np.ndarray]:
        cohort = rng.integers(params.num_cohorts, size=number)
        value = rng.choice(len(SHARES), size=number, p=SHARES)
        truth = np.zeros((number, bits + 1), dtype=bool)
        np.put_along_axis(truth, fleet.positions[value, cohort].astype(int), True, axis=1)
        chance = np.where(truth[:, :bits], p1, q1)
        return cohort, rng.random((number, bits)) < chance

    cohort, permanent = newcomers(size)
    for period in range(PERIODS):
        sent = rng.random((size, bits)) < np.where(permanent, p2, q2)
        for j in range(params.num_cohorts):
            counts[period, j] = sent[cohort == j].sum(axis=0)
        gone = rng.random(size) < fleet.turnover
        cohort[gone], permanent[gone] = newcomers(int(gone.sum()))
    return counts


def test_devices_are_constant_and_repeats_are_theirs() -> None:
    fleet = fleet_of(metric_of().params, 10_000, 0.25, reports_each=2)
    sizes = draw_classes(fleet, 1)
    counts = draw_fleet(fleet, 1).counts
    assert counts.reports.sum(axis=1).tolist() == [20_000] * PERIODS
    assert counts.holders.sum(axis=1).tolist() == [10_000] * PERIODS
    with open_executor("local:2") as executor:
        drawn = draw_fleet(fleet, 1, executor=executor).counts
    assert all((getattr(drawn, name) == part).all() for name, part in vars(counts).items())
    lives = [(b - a, sizes[a, b].sum()) for a in range(PERIODS) for b in range(a + 1, PERIODS + 1)]
    expected = sum(n * (2 * r) ** 2 for r, n in lives) / sum(n * 2 * r for r, n in lives)
    assert repetition(sizes, PERIODS, 2) == pytest.approx(expected)
    assert repetition(sizes, 1, 2) == 2
    assert sum(n for _, n in lives) > 12_000  # those who came in place of others


def test_what_is_no_fleet_is_refused() -> None:
    params = metric_of().params
    with pytest.raises(FleetError, match="devices = 0"):
        fleet_of(params, 0)
    with pytest.raises(FleetError, match="turnover = 2"):
        fleet_of(params, 5, 2.0)
    with pytest.raises(FleetError, match="positions"):
        Fleet(params, SHARES, Candidates.from_strings(["a"]).positions(params), 5)


@pytest.mark.long
def test_the_command_draws_a_hundred_million_devices(tmp_path: Path) -> None:
    words = ["fleet", "--devices", "100000000", "--weeks", "3", "--values", "20", "--absent", "20",
             "--seed", "4", "--json", "-o", str(tmp_path / "weeks")]  # fmt: skip
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    rows = result["rows"]
    assert [row["periods"] for row in rows] == [1, 2, 3]
    assert [row["reports"] for row in rows] == [100_000_000, 200_000_000, 300_000_000]
    assert [row["found"] for row in rows] == [20, 20, 20]
    assert sum(row["false_found"] for row in rows) <= 1  # of three lists, each at 5 %
    assert rows[0]["repeats"] == 1 < rows[1]["repeats"] < rows[2]["repeats"] < 3
    files = sorted((tmp_path / "weeks").glob("2026-*.json"))
    assert [file.stem for file in files] == ["2026-11-02", "2026-11-09", "2026-11-16"]
    assert json.loads(files[1].read_text())["last_day"] == "2026-11-15"
