"""A collector over HTTP with keys, and reports of values by day."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from collector.domain.access import Scope
from collector.server import running_collector
from collector.settings import load_settings
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.report import Report
from tests.collector.support import Bench, Clock, make_bench, make_metric

MONDAY = date(2026, 11, 9)
PARAMS = RapporParams.rappor(
    num_bits=32, num_hashes=2, num_cohorts=4, prob_f=0.25, prob_p=0.2, prob_q=0.8
)
WORDS = [f"word-{number}" for number in range(12)]


@dataclass
class LiveCollector:
    """url, key: as the decoder's settings take them.  bench: writes alongside the server."""

    url: str
    key: str
    metric: Metric
    clock: Clock
    bench: Bench

    @property
    def settings(self) -> dict[str, str]:
        return {"collector": self.url, "collector_key": self.key}


@contextmanager
def live_collector(
    folder: Path, days: Mapping[date, Mapping[str, int]], min_reports: int = 10
) -> Iterator[LiveCollector]:
    """A collector where every day of `days` is closed, with its values by how often."""
    metric = make_metric("homepage", min_reports=min_reports).replace(params=PARAMS)
    clock = Clock(datetime.combine(min(days), time(12), UTC))
    database = f"sqlite:///{folder}/collector.sqlite"
    bench = make_bench(database, clock)
    bench.collector.push_metrics([metric], "test")
    for day, values in sorted(days.items()):
        send(bench, metric, clock, day, values)
    key = bench.collector.create_key(Scope.AGGREGATE, "decoder", "test").text
    clock.pass_days(20)
    settings = load_settings(database=database, port=0, log_level="error")
    with running_collector(settings, clock=clock) as url:
        yield LiveCollector(url, key, metric, clock, bench)
    bench.database.close()


def send(bench: Bench, metric: Metric, clock: Clock, day: date, values: Mapping[str, int]) -> None:
    """Count reports of a day, drawn as devices would send them; the clock is set to it."""
    rng = random.Random(day.toordinal())
    clock.now = datetime.combine(day, time(12), UTC)
    reports = [_report(metric, day, value, rng) for value, n in values.items() for _ in range(n)]
    for start in range(0, len(reports), 500):
        (outcome,) = bench.send(reports[start : start + 500])
        assert outcome.accepted == len(reports[start : start + 500])


def _report(metric: Metric, day: date, value: str, rng: random.Random) -> Report:
    params = metric.params
    cohort = rng.randrange(params.num_cohorts)
    held = metric.value_bits(value, cohort)
    bits = 0
    for position in range(params.num_bits):
        chance = params.q_star if held >> position & 1 else params.p_star
        bits |= (rng.random() < chance) << position
    text = bits.to_bytes(params.report_bytes, "little")
    return Report(metric.name, metric.params_id, cohort, day, text)


def days_after(first: date, count: int) -> list[date]:
    return [first + timedelta(days=number) for number in range(count)]
