from collections.abc import Callable, Iterator
from typing import Any

import pytest

from client_sdk import Client, Delivery
from client_sdk.testing import MemoryCollector
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.metric_texts import declaration

COIN = {"prob_f": 0.5, "prob_p": 0.5, "prob_q": 0.75}
METRICS = declaration(
    "homepage", "string", description="Home page of the browser", num_bits=128, num_hashes=2,
    num_cohorts=32, **COIN, max_memoized_values=3, fallback="other", max_reports_per_period=10000,
) + declaration(
    "theme", "category", description="Colors in use", categories=["light", "dark", "system"],
    max_memoized_values=3, **COIN, num_cohorts=4,
) + declaration(
    "crashed", "boolean", description="Whether the last run ended normally",
    prob_f=0.5, prob_p=0.35, prob_q=0.65, max_reports_per_period=10,
)  # fmt: skip


@pytest.fixture(scope="session")
def metrics_text() -> str:
    return METRICS


@pytest.fixture(scope="session")
def metrics() -> MetricsFile:
    return parse_metrics(METRICS)


@pytest.fixture
def collector(metrics: MetricsFile) -> Iterator[MemoryCollector]:
    with MemoryCollector(metrics.metrics) as running:
        yield running


class Clock:
    """A wall clock that a test can move."""

    def __init__(self) -> None:
        self.now = 1_795_262_400.0  # 2026-11-21, 12:00 UTC

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


AT_ONCE = Delivery(mean_delay=0, first_pause=0.05, timeout=10)
OpenClient = Callable[..., Client]


@pytest.fixture
def open_client(metrics, collector, clock, tmp_path) -> Iterator[OpenClient]:
    """Opens clients on one state directory; closes them all at the end."""
    opened: list[Client] = []

    def open_(**changes: Any) -> Client:
        choices: dict[str, Any] = {
            "state_dir": tmp_path / "state",
            "collector": collector.url,
            "consent": True,
            "delivery": AT_ONCE,
            "development": True,
            "clock": clock,
        }
        client = Client.open(changes.pop("metrics", metrics), **{**choices, **changes})
        opened.append(client)
        return client

    yield open_
    for client in opened:
        client.close()
