"""Numbers from the device over the collector to a curve."""

import random
from pathlib import Path

from client_sdk import MemoryState, Recorder
from client_sdk.numbers import NumberRecorder
from decoder.numbers.decoding import decode_numbers
from rappor_core.metrics.file import parse_metrics
from tests.collector.support import NOON, served_after_a_day
from tests.metric_texts import declaration

DEVICES = 1_200
FILE = parse_metrics(declaration(
    "startup", "number", unit="ms", of_period="median", edges=[100, 400, 1600],
    none="apart", mode="memo", epsilon_infinity=5.0, epsilon_one=4.0, num_cohorts=8,
    min_reports=10, min_reports_per_cohort=1,
))  # fmt: skip


def test_curve_median_and_no_data_come_back(tmp_path: Path) -> None:
    """Some have no start; medians are about 300. Bounds are five standard errors; fixed seeds."""
    rng, now, reports = random.Random(1), NOON.timestamp(), []
    for _ in range(DEVICES):
        state = MemoryState(rng.randbytes(32))
        recorder = Recorder(FILE.metrics, state, randomness=rng.randbytes)
        device = NumberRecorder(FILE.metrics, state, recorder)
        device.roll(now)
        if rng.random() < 0.75:
            middle = 300 * rng.lognormvariate(0, 1)
            for factor in (0.5, 1.0, 2.0):
                device.record("startup", middle * factor, now)
        device.roll(now + 86_400)
        reports += state.take_reports()
    startup = decode_numbers(served_after_a_day(tmp_path, FILE.metrics["startup"], reports))
    assert startup.num_reports == DEVICES
    assert abs(startup.with_data.estimate - 0.75) < 5 * startup.with_data.std_error
    truth = {100.0: 0.864, 400.0: 0.387, 1600.0: 0.047}
    for point in startup.curve:
        assert abs(point.estimate - truth[point.edge]) < 5 * point.std_error
        assert point.band_low <= point.low <= point.high <= point.band_high
    median = next(one for one in startup.quantiles if one.share == 0.5)
    assert (median.low, median.high) == (100.0, 400.0)
