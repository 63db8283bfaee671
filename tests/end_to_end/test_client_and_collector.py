"""The real client against the real collector, over real HTTP: every report is counted once."""

import time
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from client_sdk import Client, Delivery
from collector.server import running_collector
from collector.settings import Settings
from tests.metric_texts import declaration
from tests.waiting import until

METRICS = declaration(
    "homepage", "string", num_bits=64, num_hashes=2, num_cohorts=4, prob_f=0.5, prob_p=0.5,
    prob_q=0.75, max_memoized_values=3, fallback="other", max_reports_per_period=1000,
) + declaration(
    "crashed", "boolean", prob_f=0.5, prob_p=0.25, prob_q=0.75,
)  # fmt: skip
YEAR = timedelta(days=365).total_seconds()


@pytest.fixture
def metrics_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    return path


@pytest.fixture
def settings(tmp_path: Path, metrics_path: Path) -> Settings:
    database = f"sqlite:///{tmp_path / 'collector.sqlite'}"
    return Settings(database=database, metrics=metrics_path, require_keys=False, port=0)


def counted(url: str) -> int:
    """Reports of `homepage` that the collector says it accepted."""
    listing = httpx.get(f"{url}/v1/metrics").json()
    (accepted,) = [row["accepted"] for row in listing["metrics"] if row["name"] == "homepage"]
    return int(accepted)


def test_reports_arrive_once_over_restarts_of_both_ends(settings, metrics_path, tmp_path) -> None:
    delivery = Delivery(mean_delay=0, first_pause=0.05, timeout=5)
    choices = {"consent": True, "delivery": delivery, "development": True}

    def run(url: str, number: int, timeout: float = 20.0) -> dict[str, int]:
        state = tmp_path / "state"
        with Client.open(metrics_path, state_dir=state, collector=url, **choices) as client:
            for _ in range(number):
                assert client.record("homepage", "a")
            if not timeout:
                until(lambda: client.last_error)
            assert client.flush(timeout), client.last_error
            return client.inspect()["counters"]

    with running_collector(settings) as url:
        run(url, 150)
        assert counted(url) == 150
    with pytest.raises(AssertionError, match="no exchange"):
        run("http://127.0.0.1:9", 50, timeout=0)
    with running_collector(settings) as url:
        counters = run(url, 25)
        assert counted(url) == 225
    assert counters["accepted:homepage"] == 225


def test_refused_days_are_counted_by_reason(settings, metrics_path, tmp_path) -> None:
    now = [time.time()]
    choices = {"consent": True, "delivery": Delivery(mean_delay=0), "clock": lambda: now[0]}
    with (
        running_collector(settings) as url,
        Client.open(metrics_path, state_dir=tmp_path, collector=url, **choices) as client,
    ):
        for jump in (0.0, YEAR, -YEAR):
            now[0] = time.time() + jump
            assert client.record("crashed", True)
        client.flush(20)
        counters = client.inspect()["counters"]
    assert counters["accepted:crashed"] == 1
    refused = {name: number for name, number in counters.items() if name.startswith("refused")}
    assert refused == {"refused:crashed:day_in_future": 1, "refused:crashed:day_closed": 1}
