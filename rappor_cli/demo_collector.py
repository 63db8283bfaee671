"""The collector behind the demo's decoder service, with two weeks of reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from client_sdk import Transport
from client_sdk.randomization.key_derivation import Randomness
from collector.server import running_collector
from collector.settings import Settings, load_settings
from decoder.sources.collector_client import ask
from rappor_cli.progress import progress_bar
from rappor_core.errors import RapporError
from rappor_core.metrics.file import parse_metrics
from rappor_core.wire.report import Report
from simulations.experiments.demo_weeks import (
    DAILY,
    DAYS,
    THEMES_DAILY,
    day_readings,
    metrics_text,
)
from simulations.populations.fleet import deliver, encode_fleet

DATABASE = "service-collector.sqlite"
METRICS = "service-metrics.toml"
Say = Callable[[str], None]


class DemoCollectorError(RapporError):
    """The demo cannot fill its collector."""


def demo_settings(metrics: Path, database: Path) -> Settings:
    """The settings of a collector for this machine alone, whatever the shell is set up for.

    Its database is made anew.
    """
    for leftover in database.parent.glob(f"{database.name}*"):  # its WAL stands beside it
        leftover.unlink()
    return load_settings(
        metrics=metrics,
        database=f"sqlite:///{database}",
        host="127.0.0.1",
        port=0,
        workers=1,
        require_keys=False,
        max_reports_per_address=0,  # all devices of the demo have one
        log_level="warning",
    )


@contextmanager
def filled_collector(
    output: Path, today: date, rng: np.random.Generator, randomness: Randomness, say: Say
) -> Iterator[str]:
    """Run a collector whose last two weeks are closed and whose today is open; yield its URL."""
    metrics = output / METRICS
    metrics.write_text(metrics_text(today), encoding="utf-8")
    with running_collector(demo_settings(metrics, output / DATABASE)) as url:
        accepted = _fill(url, today, rng, randomness)
        say(
            f"collector: {url}, {accepted:,} reports of {DAYS} closed days and of today, "
            f"counters in {output / DATABASE}"
        )
        yield url


def _fill(url: str, today: date, rng: np.random.Generator, randomness: Randomness) -> int:
    """Send the reports of each day and close all but today; how many were accepted."""
    total = (DAYS + 1) * (DAILY + THEMES_DAILY)
    accepted = 0
    with Transport(url) as transport, progress_bar("reports", total) as advance:
        for number in range(DAYS + 1):
            day = today - timedelta(days=DAYS - number)
            reports = _reports(number, day, rng, randomness)
            delivery = deliver(reports, transport, randomness=randomness, progress=advance)
            if delivery.refused:
                raise DemoCollectorError(f"the collector refused reports: {dict(delivery.refused)}")
            accepted += delivery.accepted
            if day < today:
                ask(url, f"/v1/days/{day}/close", method="POST")
    return accepted


def _reports(
    number: int, day: date, rng: np.random.Generator, randomness: Randomness
) -> Iterator[Report]:
    metrics = parse_metrics(metrics_text(day)).metrics
    return encode_fleet(day_readings(number, rng), metrics, day, randomness)
