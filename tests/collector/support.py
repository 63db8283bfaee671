"""A stopped clock, reports without a device, and the service without HTTP."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import text

from collector.domain.batch_writer import Outcome, ReportWriter
from collector.domain.operations import Collector
from collector.domain.report_validation import ReportJudge
from collector.domain.submission import Submission, decode_batch_json
from collector.server import running_collector
from collector.settings import Settings, load_settings
from collector.store.database import CollectorDatabase
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.wire.json import encode_json
from rappor_core.wire.report import Report, make_batch
from rappor_server.database import Database as AnyDatabase
from rappor_server.database import make_engine
from rappor_server.schema import prepare
from tests.waiting import until

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TODAY = NOON.date()
# in `make test`, too, where the two databases are asked with different statements or locks
BOTH_DATABASES = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, days: int) -> None:
        self.now += timedelta(days=days)


@dataclass
class Seconds:
    """The seconds of this machine, and more that a test lets pass at once."""

    passed: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.passed


def make_metric(name: str = "homepage", **changes: Any) -> Metric:
    """A small string metric; `num_bits` and `num_cohorts` go to its parameters."""
    shape = {"num_bits": 16, "num_hashes": 2, "num_cohorts": 4, "prob_f": 0.5, "prob_q": 0.75}
    shape |= {key: changes.pop(key) for key in tuple(changes) if key in shape}
    given: dict[str, Any] = {
        "kind": "string",
        "description": "a test",
        "owner": "test@example.org",
        "expires": date(2099, 6, 30),
        "max_memoized_values": 3,
        "fallback": "other",
        "min_reports": 10,
        "min_reports_per_cohort": 1,  # a test sends few
    }
    params = RapporParams.rappor(prob_p=0.5, **shape)
    return Metric(name=name, params=params, **(given | changes))


@dataclass
class Sender:
    """Makes reports from a seeded generator, and batches with separate ids."""

    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def report(self, metric: Metric, day: date = TODAY, /, **changes: Any) -> Report:
        given: dict[str, Any] = {
            "metric": metric.name,
            "params_id": metric.params_id,
            "cohort": self.rng.randrange(metric.params.num_cohorts),
            "day": day,
            "bits": self.rng.getrandbits(metric.params.num_bits).to_bytes(
                metric.params.report_bytes, "little"
            ),
        }
        return Report(**(given | changes))

    def reports(self, metric: Metric, count: int, day: date = TODAY) -> list[Report]:
        return [self.report(metric, day) for _ in range(count)]

    def body(self, reports: list[Report], batch_id: bytes | None = None) -> bytes:
        return encode_json(make_batch(batch_id or os.urandom(16), reports))


def set_bits(bits: bytes) -> list[int]:
    """Positions of the bits that are set: bit i is bit i % 8 of byte i // 8."""
    return [i for i in range(8 * len(bits)) if bits[i // 8] >> (i % 8) & 1]


def submission(body: bytes) -> Submission:
    batch = decode_batch_json(body)
    return Submission(batch, str(hash(body)).encode()[:16].rjust(16), len(body))


@dataclass
class Bench:
    """The service without HTTP: one writer and one collector on a database."""

    database: CollectorDatabase
    clock: Clock
    sender: Sender
    collector: Collector
    writer: ReportWriter

    def send(self, reports: list[Report]) -> list[Outcome]:
        return self.writer.write([submission(self.sender.body(reports))])


def make_bench(url: str, clock: Clock | None = None) -> Bench:
    clock = clock or Clock()
    database = CollectorDatabase(make_engine(url))
    prepare(database)
    judge = ReportJudge(refuse_implausible=False)
    writer = ReportWriter(database, judge, clock, timedelta(minutes=10))
    return Bench(database, clock, Sender(), Collector(database, clock=clock), writer)


def served_after_a_day(folder: Path, metric: Metric, reports: list[Report]) -> Aggregate:
    """What a collector on SQLite in this folder serves of a day of plausible reports."""
    bench = make_bench(f"sqlite:///{folder}/collector.db")
    bench.collector.push_metrics([metric], "test")
    judge = ReportJudge(refuse_implausible=True)
    bench.writer = ReportWriter(bench.database, judge, bench.clock, timedelta(minutes=10))
    (receipt,) = bench.send(reports)
    assert receipt.accepted == len(reports)
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test")
    served = bench.collector.read_aggregate("test", metric.name)
    bench.database.close()
    return Aggregate.from_json(served.to_json())


@dataclass
class Server:
    http: httpx.Client
    clock: Clock
    sender: Sender
    settings: Settings

    def post(self, reports: list[Report], batch_id: bytes | None = None) -> httpx.Response:
        return self.post_body(self.sender.body(reports, batch_id))

    def post_body(self, body: bytes, **headers: str) -> httpx.Response:
        headers = {"content-type": "application/json"} | headers
        return self.http.post("/v1/reports", content=body, headers=headers)


@contextmanager
def running_server(metrics: list[Metric] | None, clock: Clock, **changes: Any) -> Iterator[Server]:
    """A collector with settings; without keys and limits, on a free port by default."""
    given: dict[str, Any] = {"port": 0, "require_keys": False, "log_level": "error"}
    given |= {"max_reports_per_key": 0, "max_batch_reports": 10_000}
    settings = load_settings(**(given | changes))
    if metrics:
        bench = make_bench(settings.database, clock)
        bench.collector.push_metrics(metrics, "test")
        bench.database.close()
    with (
        running_collector(settings, clock=clock) as url,
        httpx.Client(base_url=url, timeout=20, verify=False) as http,
    ):
        yield Server(http, clock, Sender(), settings)


ServerMaker = Callable[..., AbstractContextManager[Server]]


def set_fsync(database: AnyDatabase, server: psycopg.Connection[Any], value: str) -> None:
    """Change it for the whole server, and wait until the sessions of a database know."""
    server.execute(f"ALTER SYSTEM SET fsync = {value}")  # type: ignore[arg-type]
    server.execute("SELECT pg_reload_conf()")

    def is_known() -> bool:
        with database.read() as connection:
            return bool(connection.execute(text("SHOW fsync")).scalar_one() == value)

    until(is_known)
